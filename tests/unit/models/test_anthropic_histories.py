"""Messages requests from any history, and from any answer that came over the wire (cases P11, P15, P21, P23)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models.anthropic_request import build_request
from durable_tui.models.known_providers import ANTHROPIC, OPENAI_CHAT
from durable_tui.models.provider import ThinkingLevel
from tests.tools import wire_anthropic
from tests.tools.sdk import assemble_bytes, neutral
from tests.unit.models.test_anthropic_request import (
    OMITTED,
    OPUS,
    QUIRKS,
    REDACTED,
    SIGNED,
    SONNET,
    answer,
    build,
    plain,
    prompt,
    request,
)
from tests.unit.models.test_anthropic_stream import parse
from tests.unit.models.test_chat_request import call, png, result, text, user

IDS = st.sampled_from(["", "a", "b", "toolu_1"])
THOUGHTS = st.one_of(
    st.builds(
        lambda thought, signature: {"type": "thinking", "thinking": thought, "signature": signature},
        st.text(max_size=3), st.sampled_from(["", "SIG=="]),
    ),
    st.sampled_from([SIGNED, REDACTED, OMITTED]),
)  # fmt: skip
BLOCKS = st.one_of(
    st.builds(text, st.text(max_size=4)), THOUGHTS, st.builds(call, IDS, st.sampled_from(["read", "no such", ""]))
)
SOURCES = st.sampled_from([
    ("anthropic", ANTHROPIC, SONNET), ("anthropic", ANTHROPIC, OPUS), ("anthropic", ANTHROPIC, "claude-opus-5-5"),
    ("acme", OPENAI_CHAT, "m"), ("acme", ANTHROPIC, SONNET),
])  # fmt: skip


def said(blocks: list[dict[str, Any]], stop: str, source: tuple[str, str, str]) -> dict[str, Any]:
    provider, api, model = source
    if provider == "acme":  # whose ids may have any form
        blocks = [{**block, "id": f"{block['id']}|x"} if block["type"] == "toolCall" else block for block in blocks]
    return answer(*blocks, model=model, stop=stop, provider=provider, api=api)


IMAGE = {"type": "image", "data": png(), "mimeType": "image/png"}
CONTENT = st.lists(st.one_of(st.builds(text, st.text(max_size=3)), st.just(IMAGE)), max_size=2)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.one_of(st.text(max_size=3), CONTENT)),
        st.builds(
            said, st.lists(BLOCKS, max_size=4), st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]), SOURCES
        ),
        st.builds(
            lambda id, content, failed: {**result(id, *content), "isError": failed},
            st.one_of(IDS, st.just("a|x")), CONTENT, st.booleans(),
        ),
    ),
    max_size=10,
)  # fmt: skip
MODELS = st.sampled_from([SONNET, OPUS, "claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-5", "some-model"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "maxTokens": st.sampled_from([1, 1500, 3000, 50_000]), "temperature": st.just(0.5), "topP": st.just(0.5),
        "stop": st.just(["x", ""]), "toolChoice": st.sampled_from(["auto", "none", "required", "read"]),
    },
)  # fmt: skip
LEVELS = st.sampled_from(["off", "minimal", "high", "xhigh"])


@given(MESSAGES, MODELS, LEVELS, OPTIONS)
def test_any_history_makes_a_request_that_strict_servers_and_the_official_types_take(
    messages: list[dict[str, Any]], model: str, level: ThinkingLevel, options: dict[str, Any]
) -> None:
    build([*messages, user("go")], model, thinking_level=level, options=options)


@given(MESSAGES, MESSAGES, MODELS)
def test_any_history_that_grows_keeps_the_prompt_it_had(
    messages: list[dict[str, Any]], more: list[dict[str, Any]], model: str
) -> None:
    earlier = [*messages, user("go")]
    later = [*earlier, answer(text("gone")), *more, user("on")]
    first, second = (prompt(build_request(request(history, model), QUIRKS)) for history in (earlier, later))
    assert plain(second[: len(first)]) == plain(first)


SAID = st.lists(
    st.one_of(
        st.builds(lambda thought, mark: {"thinking": thought, "signature": mark}, st.text(max_size=9), st.text("AB=", min_size=1)),
        st.builds(lambda data: {"redacted": data}, st.text("AB=", min_size=1)),
        st.builds(lambda words: {"text": words}, st.text(min_size=1).filter(str.strip)),
        st.builds(lambda value: {"call": {"name": "read", "args": {"a": value}}}, st.one_of(st.text(), st.integers())),
    ),
    max_size=6,
)  # fmt: skip


@given(SAID, st.sampled_from([{"text": "said"}, {"call": {"name": "read"}}]))
def test_p21_what_a_server_said_is_what_it_gets_back(said: list[dict[str, Any]], last: dict[str, Any]) -> None:
    """Byte for byte, and as the official client understands it."""
    turn = {"blocks": [*said, last]}
    raw = b"".join(wire_anthropic.stream_of(turn, {"model": "m"}, "p"))
    message = parse(raw)
    sent = wire_anthropic.sent_of(turn, {"model": "m"}, "p")
    calls = [result(block["id"]) for block in message["content"] if block["type"] == "toolCall"]
    history = [user("u"), {**message, "model": OPUS}, *calls, user("v")]
    body = build_request(request(history, OPUS, thinking_level="high"), QUIRKS)
    assert json.dumps(body["messages"][1]["content"]) == json.dumps(sent)
    assert {**neutral(message), "usage": None} == {**assemble_bytes(ANTHROPIC, raw), "usage": None}
