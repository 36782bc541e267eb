"""Judges from the official openai and anthropic clients: their types check what is sent and what a fake server answers,
and the clients themselves put an answer together (`assemble`), to be compared with ours (`neutral`) by one `==`.

`api` is "openai-chat", "openai-responses" or "anthropic". Every check gives a list of sentences, one a violation, each
beginning with a path like `messages[3].tool_call_id`. The clients are imported on first use: that takes two seconds.

Two traps of the types are closed here: `Iterable` fields validate only when they are walked, and unknown keys are dropped
or kept silently. A server's own extensions are named in `allow` by path, with `[]` for any place in a list, and with all
below them: `{"messages[].reasoning_content", "reasoning"}`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from tests.tools.sdk_answers import assemble, assemble_bytes, neutral

__all__ = ["APIS", "assemble", "assemble_bytes", "check_events", "check_request", "check_response", "frames", "neutral"]

APIS = ("openai-chat", "openai-responses", "anthropic")

_NAMES = {
    "openai-chat": ("openai.types.chat.completion_create_params", "CompletionCreateParams"),
    "openai-responses": ("openai.types.responses.response_create_params", "ResponseCreateParams"),
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParams"),
}
_DISCRIMINATORS = ("type", "role", "object")


def check_request(api: str, body: Mapping[str, Any] | bytes | str, allow: Collection[str] = ()) -> list[str]:
    """Violations of a request body by the client's own parameter types, every unknown key included."""
    value = _decoded(body)
    if not isinstance(value, dict):
        return [f"the body is no JSON object: {value!r:.80}"]
    module, name = _NAMES[api]
    adapter = _adapter(module, f"{name}{'Streaming' if value.get('stream') else 'NonStreaming'}")
    return _validate(adapter.validate_python, value, value, allow)


def check_events(api: str, events: Iterable[Any] | bytes, allow: Collection[str] = ()) -> list[str]:
    """Violations of a stream's events: their JSON values in order, or the bytes of the whole body."""
    found: list[str] = []
    values = (
        [json.loads(data) for _, data in frames(events) if data != "[DONE]"] if isinstance(events, bytes) else events
    )
    for number, value in enumerate(values):
        kind = value.get("type", "chunk") if isinstance(value, dict) else repr(value)
        found += [f"event {number} ({kind}): {line}" for line in _check_event(api, value, allow)]
    return found


def check_response(value: Any, allow: Collection[str] = ()) -> list[str]:
    """Violations of a whole object: a Response, a chat completion, a message, a list of models or an error of any."""
    if not isinstance(value, dict):
        return [f"no JSON object: {value!r:.80}"]
    if value.get("object") == "response":
        return _model("openai.types.responses", "Response", value, allow)
    if value.get("object") == "chat.completion":
        return _model("openai.types.chat", "ChatCompletion", value, allow)
    if value.get("type") == "message":
        return _model("anthropic.types", "Message", value, allow)
    if value.get("type") == "error":
        return _model("anthropic.types.shared", "ErrorResponse", value, allow)
    if "error" in value:
        return _model("openai.types", "ErrorObject", value["error"], allow)
    if isinstance(value.get("data"), list):
        module = "openai.types" if value.get("object") == "list" else "anthropic.types"
        name = "Model" if value.get("object") == "list" else "ModelInfo"
        return [line for model in value["data"] for line in _model(module, name, model, allow)]
    return [f"an object of no known kind: {sorted(value)}"]


def frames(raw: bytes) -> list[tuple[str, str]]:
    """The (event, data) of a recorded body, read plainly: whole frames with LF line ends, as the fake servers write."""
    out: list[tuple[str, str]] = []
    for part in raw.decode("utf-8").split("\n\n"):
        fields = [line.partition(": ") for line in part.split("\n") if line and not line.startswith(":")]
        data = "\n".join(value for name, _, value in fields if name == "data")
        if data:
            out.append((next((value for name, _, value in fields if name == "event"), "message"), data))
    return out


def _check_event(api: str, value: Any, allow: Collection[str]) -> list[str]:
    if not isinstance(value, dict):
        return [f"no JSON object: {value!r:.80}"]
    if api == "openai-chat":
        return (
            check_response(value)
            if "error" in value
            else _model("openai.types.chat", "ChatCompletionChunk", value, allow)
        )
    if api == "anthropic":
        if value.get("type") == "error":
            return check_response(value)
        if value == {"type": "ping"}:  # the client drops it by its name and has no type for it
            return []
    kinds = _kinds(api)
    if value.get("type") not in kinds:
        return [f"type: an unknown event {value.get('type')!r}"]
    return _validate(_of(kinds[value["type"]]).validate_json, json.dumps(value), value, allow)


@functools.cache
def _kinds(api: str) -> dict[str, Any]:
    """The class of each event by its `type`."""
    if api == "anthropic":
        from anthropic.types import RawMessageStreamEvent as Event
    else:
        from openai.types.responses import ResponseStreamEvent as Event  # type: ignore[assignment]
    classes = get_args(get_args(Event)[0])
    return {kind: model for model in classes for kind in get_args(model.model_fields["type"].annotation)}


@functools.cache
def _adapter(module: str, name: str) -> Any:
    import importlib

    return _of(getattr(importlib.import_module(module), name))


@functools.cache
def _of(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _model(module: str, name: str, value: Any, allow: Collection[str]) -> list[str]:
    return _validate(_adapter(module, name).validate_json, json.dumps(value), value, allow)


def _decoded(body: Any) -> Any:
    if isinstance(body, bytes | str):
        try:
            return json.loads(body)
        except ValueError:
            return None
    return dict(body)


def _validate(validate: Any, source: Any, value: Any, allow: Collection[str]) -> list[str]:
    """Strictly: text is no number, 1 is no true."""
    from pydantic import ValidationError

    try:
        made = validate(source, strict=True)
    except ValidationError as error:
        return _errors(value, [(e["loc"], e["type"], e["msg"]) for e in error.errors(include_url=False)], "")
    return [line for path, line in _walk(value, made, "") if not _allowed(path, allow)]


def _allowed(path: str, allow: Collection[str]) -> bool:
    path = re.sub(r"\[\d+\]", "[]", path)
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in allow)


def _walk(given: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, sentence) of what the validated value lost; walking it also makes its lazy parts validate."""
    from pydantic import ValidationError

    if isinstance(given, dict):
        parts = made if isinstance(made, dict) else _fields(made)
        for key, value in given.items():
            below = f"{path}.{key}" if path else key
            if key in parts:
                yield from _walk(value, parts[key], below)
            else:
                yield below, f"{below}: unknown key"
    elif isinstance(given, list):
        iterator = iter(made)
        for place, value in enumerate(given):
            below = f"{path}[{place}]"
            try:
                part = next(iterator)
            except ValidationError as error:
                errors = [(e["loc"][1:], e["type"], e["msg"]) for e in error.errors(include_url=False)]
                for line in _errors(value, errors, below):
                    yield line.partition(": ")[0], line
                continue
            yield from _walk(value, part, below)
    elif isinstance(made, str | int | float | bool | None) and made != given:
        yield path, f"{path}: {given!r} was read as {made!r}"


def _fields(model: Any) -> dict[str, Any]:
    """What a model knows by the names on the wire; its extra keys are the unknown ones."""
    kinds = type(model).model_fields
    return {kinds[name].alias or name: getattr(model, name) for name in model.model_fields_set if name in kinds}


def _errors(value: Any, errors: list[tuple[Any, str, str]], path: str) -> list[str]:
    """Errors of one value in few sentences: of a union only the member that was meant, or comes nearest."""
    out: list[str] = []
    below: dict[Any, list[Any]] = {}
    members: dict[Any, list[Any]] = {}
    for loc, kind, message in errors:
        if not loc:
            out.append(f"{path}: {message}")
            continue
        known = loc[0] in value if isinstance(value, dict) else isinstance(value, list) and isinstance(loc[0], int)
        missing = len(loc) == 1 and kind == "missing"
        (below if known or missing else members).setdefault(loc[0], []).append((loc[1:], kind, message))
    for key, inner in below.items():
        deeper = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else str(key)
        at = value[key] if isinstance(key, int) else value.get(key)
        out += _errors(at, inner, deeper)
    if members:
        out += _errors(value, min(members.values(), key=_distance), path)
    return list(dict.fromkeys(out))


def _distance(errors: list[tuple[Any, str, str]]) -> tuple[bool, int]:
    """How far a value is from a member of a union: another kind of value altogether, else its number of errors."""
    wrong = any(
        not loc or (len(loc) == 1 and loc[0] in _DISCRIMINATORS and kind in ("literal_error", "missing"))
        for loc, kind, _ in errors
    )
    return wrong, len(errors)
