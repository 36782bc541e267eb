"""Streams as real servers sent them: however they are cut, they give the same message, the one the official client reads.

`streams/` holds bodies of llama.cpp's server, aimock and llmock for each protocol, as they came.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.answer import Answer
from durable_tui.models.anthropic_stream import AnthropicStream
from durable_tui.models.chat_stream import ChatStream
from durable_tui.models.failures import Endpoint
from durable_tui.models.provider import BlockDelta, BlockStart, Finished, Model, ModelError, ModelRequest
from durable_tui.models.responses_stream import ResponsesStream
from tests.tools.sdk import assemble_bytes, neutral
from tests.unit.models.stream_kit import events_in

STREAMS = Path(__file__).parent / "streams"
KINDS: dict[str, type[Answer]] = {
    "openai-chat": ChatStream,
    "openai-responses": ResponsesStream,
    "anthropic": AnthropicStream,
}
RECORDED = sorted(path.stem for path in STREAMS.glob("*.sse"))
#: The official clients cannot read these: llama.cpp's usage lacks what their types promise.
UNREAD = {"openai-responses-llamacpp-call", "openai-responses-llamacpp-thinking"}


def api_of(name: str) -> str:
    return next(api for api in KINDS if name.startswith(api))


def raw_of(name: str) -> bytes:
    return (STREAMS / f"{name}.sse").read_bytes()


def read(api: str, pieces: list[bytes]) -> dict[str, Any]:
    """The message of a body that comes in pieces; what its deltas said must be what it holds."""
    request = ModelRequest(Model("acme", "m", api), "", [])
    out = events_in(
        KINDS[api](request, Endpoint("acme"), api), b"".join(pieces), *itertools.accumulate(map(len, pieces))
    )
    assert isinstance(out[-1], Finished)
    message = dict(out[-1].message)
    told = {made.index: dict(made.block) for made in out if isinstance(made, BlockStart)}
    texts = dict.fromkeys(told, "")
    for made in out:
        if isinstance(made, BlockDelta):
            texts[made.index] += made.text
    shown = [texts[index] for index, block in told.items() if block["type"] == "text"]
    assert shown == [block["text"] for block in message["content"] if block["type"] == "text"]
    return {**message, "timestamp": 0}


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    places = [0, *sorted(places), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(places)]


def test_every_protocol_is_recorded_from_every_server() -> None:
    assert {api_of(name) for name in RECORDED} == set(KINDS)
    assert len(RECORDED) == 18


@pytest.mark.parametrize("name", RECORDED)
def test_p01_p02_every_single_cut_and_single_bytes_and_every_line_end_give_the_same_message(name: str) -> None:
    api, raw = api_of(name), raw_of(name)
    whole = read(api, [raw])
    assert read(api, [raw[i : i + 1] for i in range(len(raw))]) == whole
    unix = raw.replace(b"\r\n", b"\n")
    for end in (b"\r\n", b"\r", b"\n"):
        other = unix.replace(b"\n", end)
        assert read(api, [other[i : i + 1] for i in range(len(other))]) == whole
        assert read(api, [other]) == whole
    for place in range(1, len(raw), 1 + len(raw) // 400):
        assert read(api, cut(raw, [place])) == whole


@pytest.mark.parametrize("name", RECORDED)
@settings(max_examples=20)
@given(data=st.data())
def test_p01_any_chunks_give_the_same_message(name: str, data: st.DataObject) -> None:
    api, raw = api_of(name), raw_of(name)
    places = data.draw(st.lists(st.integers(0, len(raw)), max_size=40))
    assert read(api, cut(raw, places)) == read(api, [raw])


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in UNREAD])
def test_the_official_client_reads_the_same_message(name: str) -> None:
    api, raw = api_of(name), raw_of(name)
    ours, theirs = neutral(read(api, [raw])), assemble_bytes(api, raw)
    if not any((theirs["usage"] or {}).values()):  # the server counted nothing, so ours is an estimate
        ours["usage"] = theirs["usage"] = None
    theirs["text"] = replace_surrogates(theirs["text"])  # aimock cuts a sign into halves, which the client leaves so
    assert ours == theirs


@pytest.mark.parametrize("name", [name for name in RECORDED if "scripts" in name])
def test_p02_unicode_line_ends_are_text_in_every_protocol(name: str) -> None:
    """Put raw into a recorded text, where a server would have escaped them."""
    api, raw = api_of(name), raw_of(name)
    text = raw.decode().replace("plain", "pla\u2028i\u2029n\u0085")
    assert "\u2028" in text
    said = read(api, [text.encode()])
    assert "pla\u2028i\u2029n\u0085" in "".join(block.get("text", "") for block in said["content"])
    assert read(api, [bytes([byte]) for byte in text.encode()]) == said


@pytest.mark.parametrize("name", RECORDED)
def test_p06_cut_off_anywhere_before_its_end_it_is_no_answer(name: str) -> None:
    """Never a message that holds less than the whole one: a prefix fails, or gives all of its content."""
    api, raw = api_of(name), raw_of(name)
    content = json.dumps(read(api, [raw])["content"])
    failed = 0
    for place in range(0, len(raw), 1 + len(raw) // 150):
        try:
            said = read(api, [raw[:place]])
        except ModelError as error:
            failed += 1
            assert error.kind in ("truncated", "malformed")
        else:
            assert json.dumps(said["content"]) == content
    assert failed > 50
