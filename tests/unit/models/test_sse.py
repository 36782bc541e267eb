"""SSE from bytes: every split gives the same events (cases P01, P02, P04)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models import sse
from durable_tui.models.sse import SseEvent, SseParser, SseTooLong


def parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


STREAM = (
    '\ufeff: hello\r\n\r\ndata: {"a":"北京🙂"}\n\nevent: x\rdata:one\rdata: two\r\rdata:\n\n'
    "data: a\u2028b\u2029c\x85d\r\n\r\n:\n\nid: 7\nretry: 3\ndata\ndata: z\n\ndata: [DONE]"
).encode()
EXPECTED = [
    SseEvent('{"a":"北京🙂"}'),
    SseEvent("one\ntwo", "x"),
    SseEvent("a\u2028b\u2029c\x85d"),
    SseEvent("\nz"),
    SseEvent("[DONE]"),
]


def test_p01_p02_p04_every_single_cut_gives_the_same_events() -> None:
    assert parse(STREAM) == EXPECTED
    for cut in range(len(STREAM) + 1):
        assert parse(STREAM[:cut], STREAM[cut:]) == EXPECTED, cut


def test_p01_every_double_cut_around_line_ends_and_characters() -> None:
    for first in range(len(STREAM)):
        assert parse(STREAM[:first], STREAM[first : first + 1], STREAM[first + 1 :]) == EXPECTED, first


def test_byte_by_byte() -> None:
    assert parse(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == EXPECTED


@given(st.lists(st.sampled_from(["data: x", "data:", ": c", "event: e", "", "da", "ta: ü"])), st.data())
def test_splits_and_line_ends_never_matter(lines: list[str], data: st.DataObject) -> None:
    reference = parse("\n".join(lines).encode())
    mixed = ""
    for line in lines:
        end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
        if not line and end == "\n" and mixed.endswith("\r"):
            end = "\r\n"  # an LF alone would belong to the CR before it
        mixed += line + end
    raw = mixed.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert parse(*pieces) == parse(raw) == reference


def test_p04_comments_are_counted_and_are_no_events() -> None:
    parser = SseParser()
    assert parser.feed(b": PROCESSING\n\n" * 3 + b":\n\n") == []
    assert parser.comments == 4


def test_a_long_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LINE_LIMIT", 100)
    parser = SseParser()
    with pytest.raises(SseTooLong):
        for _ in range(20):
            parser.feed(b"data: " + b"x" * 10 + b"\n")
    with pytest.raises(SseTooLong):
        SseParser().feed(b"x" * 101)
