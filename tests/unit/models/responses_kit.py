"""Shared by the tests of Responses streams: events as servers write them, and what is read of them."""

from __future__ import annotations

from typing import Any

from durable_tui.models.failures import Endpoint
from durable_tui.models.known_providers import OPENAI_RESPONSES
from durable_tui.models.provider import Model, ModelError, ModelRequest
from durable_tui.models.responses_stream import ResponsesStream
from tests.unit.models.stream_kit import failure, message_in
from tests.unit.models.test_chat_request import user
from tests.unit.models.test_chat_stream import run


def stream(
    messages: list[dict[str, Any]] | None = None, prices: dict[str, float] | None = None, **options: Any
) -> ResponsesStream:
    model = Model("openai", "gpt-5.2", OPENAI_RESPONSES, prices=prices)
    asked = ModelRequest(model, "s", messages or [user("u" * 40)], options=options)
    return ResponsesStream(asked, Endpoint("openai"), OPENAI_RESPONSES)


def added(kind: str, id: str = "", place: Any = None, **more: Any) -> dict[str, Any]:
    return item_event("added", {"type": kind, "id": id, **more}, place)


def done(kind: str, id: str = "", place: Any = None, **more: Any) -> dict[str, Any]:
    return item_event("done", {"type": kind, "id": id, **more}, place)


def item_event(what: str, item: dict[str, Any], place: Any) -> dict[str, Any]:
    at = {} if place is None else {"output_index": place}
    return {"type": f"response.output_item.{what}", "item": {k: v for k, v in item.items() if v != ""}, **at}


def delta(what: str, piece: Any, id: str = "", **more: Any) -> dict[str, Any]:
    at = {"item_id": id} if id else {}
    return {"type": f"response.{what}.delta", "delta": piece, **at, **more}


def said(*parts: str, kind: str = "output_text") -> list[dict[str, Any]]:
    return [{"type": kind, "refusal" if kind == "refusal" else "text": part} for part in parts]


def ended(status: str = "completed", *output: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": f"response.{status}",
        "response": {"object": "response", "status": status, "output": output, **more},
    }


END = ended()
TEXT, SUMMARY, REASONING, ARGUMENTS = (
    "output_text", "reasoning_summary_text", "reasoning_text", "function_call_arguments",
)  # fmt: skip
HI = (added("message", "msg_1", 0), delta(TEXT, "hi", "msg_1"), done("message", "msg_1", 0, content=said("hi")))
SECRET = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "E=="}


def read(*chunks: Any, of: ResponsesStream | None = None) -> dict[str, Any]:
    """The message; the events must add up to it."""
    return run(*chunks, chat=of or stream())[0]


def fail(*chunks: Any) -> ModelError:
    return failure(stream(), *chunks)


def parse(raw: bytes, *cuts: int) -> dict[str, Any]:
    """The message of a body that comes in pieces."""
    return message_in(stream(), raw, *cuts)


def arguments(*chunks: Any) -> list[tuple[str, str, Any, bool]]:
    """Id, name, arguments of the calls, and whether they are to be run."""
    calls = [block for block in read(*chunks)["content"] if block["type"] == "toolCall"]
    return [(c["id"], c["name"], c["arguments"], "invalid" not in c.get("providerExtra", {})) for c in calls]
