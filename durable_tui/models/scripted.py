"""The provider without a model: turns from a script, streamed like an answer (spec 20).

A script is a list of turns `{"text"?, "thinking"?, "calls"?: [{"name", "args"?}], "delay"?, "error"?, "defer"?}`, from a JSON
file or registered by name, or a callable `(messages, tools) -> turn`. The turn is the number of assistant messages since the
last user message (failed and aborted ones do not count), so a restart continues where it was. For the same reason an
`error` is raised at every attempt of its turn: no count of attempts survives a restart. `error` is a text or
`{message, kind?, status?, retry_after?}` and comes after the turn's text and thinking; `delay` is in seconds, spread
over the turn. With `defer: {polls, after}` the turn is made in the background: so many questions for it, `after` seconds
apart, come too early. Tokens are estimated, the cost is not known.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast, get_args

from durable_tui.ground.clock import now_ms
from durable_tui.models.history import UNSENT
from durable_tui.models.json_text import as_object, encode, strict
from durable_tui.models.known_providers import SCRIPTED
from durable_tui.models.messages import (
    AnswerBlock,
    AssistantMessage,
    Message,
    TextKind,
    ToolCallBlock,
    ToolDescription,
    text_block,
)
from durable_tui.models.provider import (
    BlockDelta,
    BlockStart,
    Deferred,
    ErrorKind,
    Finished,
    ModelError,
    ModelRequest,
    StreamEvent,
)
from durable_tui.models.script import ScriptedError, Turn
from durable_tui.models.usage import estimate_tokens, estimated_usage

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject


TurnFunction: TypeAlias = Callable[[Sequence[Message], Sequence[ToolDescription]], Turn]
Script: TypeAlias = Sequence[Turn] | TurnFunction

PAST_THE_END = "The script has no more turns."
_KEYS = Turn.__optional_keys__
_scripts: dict[str, Script] = {}


def register_script(name: str, turns: Script) -> None:
    """Make `scripted/NAME` available in this process. Raises ValueError when a turn is not shaped as above."""
    if not callable(turns):
        check_turns(turns)
    _scripts[name] = turns


def script_names() -> list[str]:
    """The names registered, the built-in tour included."""
    _load_tour()
    return sorted(_scripts)


def check_turns(turns: object) -> list[Turn]:
    """The turns if they are shaped as above; raises ValueError saying which is not and why."""
    if not isinstance(turns, (list, tuple)):
        raise ValueError("a script is a list of turns")
    for number, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise ValueError(f"turn {number} is no object")
        if unknown := set(turn) - _KEYS:
            raise ValueError(f"turn {number} has an unknown key {sorted(unknown)[0]!r}")
        for key in ("text", "thinking"):
            if not isinstance(turn.get(key, ""), str):
                raise ValueError(f"turn {number}: {key} is no text")
        if not _is_seconds(turn.get("delay", 0)):
            raise ValueError(f"turn {number}: delay is no number of seconds")
        if not _is_defer(turn.get("defer", {})):
            raise ValueError(f"turn {number}: defer is {{polls, after}}: a count and a number of seconds")
        error = turn.get("error", "")
        if not isinstance(error, (str, dict)) or (
            isinstance(error, dict) and error.get("kind", "server") not in _KINDS
        ):
            raise ValueError(f"turn {number}: error is a text or {{message, kind, status, retry_after}}")
        calls = turn.get("calls", [])
        if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
            raise ValueError(f"turn {number}: calls is a list of {{name, args}}")
    return [cast(Turn, turn) for turn in turns]


_KINDS = frozenset(get_args(ErrorKind))


def _is_seconds(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value < float("inf")


def _is_defer(defer: object) -> bool:
    if not isinstance(defer, dict) or not set(defer) <= {"polls", "after"}:
        return False
    return (
        isinstance(defer.get("polls", 0), int)
        and _is_seconds(defer.get("polls", 0))
        and _is_seconds(defer.get("after", 0))
    )


def _is_call(call: object) -> bool:
    return isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("args", {}), dict)


def turn_number(messages: Sequence[Message]) -> int:
    """Return the number of answers since the last user message."""
    count = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        if message["role"] == "assistant" and message.get("stopReason") not in UNSENT:
            count += 1
    return count


class ScriptedProvider:
    """`scripts` maps model ids to scripts or to the path of a JSON file; without it the registered ones are meant.

    With `script` every model id follows that one file.
    """

    api = SCRIPTED

    def __init__(
        self,
        name: str = SCRIPTED,
        *,
        script: str | Path | None = None,
        scripts: Mapping[str, Script] | None = None,
    ) -> None:
        self.name = name
        self._path = Path(script) if script is not None else None
        self._scripts = scripts
        self._loaded: tuple[tuple[int, int], list[Turn]] | None = None

    def problem(self, model_id: str) -> str | None:
        """Return why this script cannot be followed, or None."""
        try:
            self._script(model_id)
        except ModelError as error:
            return str(error)
        return None

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """The next turn. Raises ModelError: the turn's own, or `configuration` when there is no such script."""
        turn = _turn(self._script(request.model.model_id), request)
        if "defer" in turn:
            yield _deferred(turn, 0)
            return
        async for event in self._play(request, turn):
            yield event

    async def poll(self, request: ModelRequest, handle: JsonObject) -> AsyncIterator[StreamEvent]:
        """The turn that `stream` deferred. The handle counts the questions, so another process may ask on."""
        turn = _turn(self._script(request.model.model_id), request)
        polls = handle["polls"]
        assert isinstance(polls, int)
        if polls < turn.get("defer", {}).get("polls", 0):
            yield _deferred(turn, polls + 1)
            return
        async for event in self._play(request, turn):
            yield event

    async def cancel(self, handle: JsonObject) -> None:
        """Nothing is being made anywhere."""

    async def _play(self, request: ModelRequest, turn: Turn) -> AsyncIterator[StreamEvent]:
        blocks: list[AnswerBlock] = []
        pieces: dict[TextKind, list[str]] = {
            "thinking": _pieces(turn.get("thinking", "")),
            "text": _pieces(turn.get("text", "")),
        }
        calls = turn.get("calls", [])
        delay = float(turn.get("delay", 0))
        pause = delay / max(1, sum(map(len, pieces.values())) + len(calls))
        if not (any(pieces.values()) or calls):
            await asyncio.sleep(delay)
        for kind, texts in pieces.items():
            if texts:
                blocks.append(text_block(kind, "".join(texts)))
                yield BlockStart(len(blocks) - 1, text_block(kind))
            for text in texts:
                await asyncio.sleep(pause)
                yield BlockDelta(len(blocks) - 1, text)
        if turn.get("error"):
            raise _error(self.name, turn["error"])
        for position, call in enumerate(calls):
            await asyncio.sleep(pause)
            id = _call_id(request, position, call["name"])
            block: ToolCallBlock = {"type": "toolCall", "id": id, "name": call["name"], "arguments": {}}
            arguments = as_object(strict(call.get("args", {})))
            blocks.append({**block, "arguments": arguments})
            yield BlockStart(len(blocks) - 1, block)
            yield BlockDelta(len(blocks) - 1, encode(arguments).decode())
        yield Finished(self._message(request, blocks, bool(calls)))

    async def close(self) -> None:
        """Nothing is open."""

    def _message(self, request: ModelRequest, blocks: list[AnswerBlock], calls: bool) -> AssistantMessage:
        prompt = estimate_tokens(request.system, request.messages, request.tools)
        return {
            "role": "assistant",
            "content": blocks,
            "api": self.api,
            "provider": request.model.provider,
            "model": request.model.model_id,
            "usage": estimated_usage(prompt, estimate_tokens(blocks)),
            "stopReason": "toolUse" if calls else "stop",
            "timestamp": now_ms(),
        }

    def _script(self, model_id: str) -> Script:
        if self._path is not None:
            return self._file(self._path)
        if self._scripts is None:
            _load_tour()
        scripts = _scripts if self._scripts is None else self._scripts
        script = scripts.get(model_id)
        if script is None:
            names = ", ".join(sorted(scripts)) or "none"
            raise ModelError(f"{self.name}: there is no script {model_id!r} (known: {names})", "configuration")
        return script

    def _file(self, path: Path) -> list[Turn]:
        """The file's turns, read again when it changed."""
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            if self._loaded is None or self._loaded[0] != mark:
                self._loaded = (mark, check_turns(json.loads(path.read_text("utf-8"))))
        except OSError as error:
            raise ModelError(f"{self.name}: cannot read the script {path}: {error.strerror}", "configuration") from None
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{self.name}: the script {path} is not usable: {error}", "configuration") from None
        return self._loaded[1]


def _turn(script: Script, request: ModelRequest) -> Turn:
    if callable(script):
        return script(request.messages, request.tools)
    number = turn_number(request.messages)
    return script[number] if number < len(script) else {"text": PAST_THE_END}


def _deferred(turn: Turn, polls: int) -> Deferred:
    return Deferred({"polls": polls}, float(turn["defer"].get("after", 0)))


def _pieces(text: str) -> list[str]:
    """Words and the spaces after them, long ones cut: what a model's deltas look like."""
    return re.findall(r"\S{1,12}\s*|\s+", strict(text))


def _call_id(request: ModelRequest, position: int, name: str) -> str:
    """The same for the same request, so that a repeated attempt makes the same call; else unique in the session."""
    messages = request.messages
    last: Mapping[str, object] = messages[-1] if messages else {}
    text = f"{request.session_id}\n{position}\n{name}\n{json.dumps(last, sort_keys=True, default=str)}"
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"call_{len(messages)}_{turn_number(messages)}_{position}_{digest}"


def _error(name: str, error: str | ScriptedError) -> ModelError:
    if isinstance(error, str):
        error = {"message": error}
    message = f"{name}: {error.get('message', 'the script says that this attempt fails')}"
    kind = error.get("kind", "server")
    return ModelError(message, kind, status=error.get("status"), retry_after=error.get("retry_after"))


def _load_tour() -> None:
    if "tour" not in _scripts:
        from durable_tui.models.tour import tour

        _scripts["tour"] = tour
