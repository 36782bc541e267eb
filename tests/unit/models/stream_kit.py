"""Shared by the tests of what puts answers together."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from durable_tui.models.answer import Answer
from durable_tui.models.provider import Finished, ModelError, StreamEvent
from durable_tui.models.sse import SseParser


def failure(answer: Answer, *chunks: Any) -> ModelError:
    """The error that an answer of these chunks ends in."""
    with pytest.raises(ModelError) as caught:
        for chunk in chunks:
            answer.chunk(json.dumps(chunk))
        answer.finish()
    return caught.value


def events_in(answer: Answer, raw: bytes, *cuts: int) -> list[StreamEvent]:
    """The events of a body that comes in pieces, cut at these places."""
    parser = SseParser()
    edges = [0, *sorted(cuts), len(raw)]
    found = [event for a, b in itertools.pairwise(edges) for event in parser.feed(raw[a:b])]
    return [
        out for event in (*found, *parser.finish()) for out in answer.chunk(event.data, event.event)
    ] + answer.finish()


def message_in(answer: Answer, raw: bytes, *cuts: int) -> dict[str, Any]:
    """The message of such a body, without its time."""
    ended = events_in(answer, raw, *cuts)[-1]
    assert isinstance(ended, Finished)
    return {**ended.message, "timestamp": 0}
