"""An in-process provider that follows a script and refuses, as a real server does, what the strict rules forbid.

The turn is found from the request alone (how many assistant messages it holds), so a process that reopens a session
and asks again gets the same turn again: a script needs no memory.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_tui.models import anthropic_request, chat_request, responses_request
from durable_tui.models.known_providers import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, Quirks
from durable_tui.models.messages import AssistantMessage, StopReason
from durable_tui.models.provider import (
    BlockDelta,
    BlockStart,
    Deferred,
    Finished,
    Model,
    ModelError,
    ModelRequest,
    StreamEvent,
)
from tests.tools.strict import check_anthropic, check_neutral, check_openai, check_responses
from tests.tools.waiting import until


@dataclass(slots=True)
class Turn:
    """One answer. `calls` are (name, arguments); `chunks` is how many deltas the text is cut into.

    `delay` seconds pass before the first event, `pace` between deltas; `error` is raised after `error_after` deltas;
    `cut` ends the stream there without its terminal event. `hold` is awaited before the terminal event.
    With `defer` the answer is made in the background: so many polls, `after` seconds apart, come too early.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    thinking: str = ""
    signature: str = ""
    chunks: int = 1
    delay: float = 0.0
    pace: float = 0.0
    error: ModelError | None = None
    error_after: int = 0
    cut: int | None = None
    hold: asyncio.Event | None = None
    stop: StopReason | None = None
    ids: Sequence[str] | None = None
    usage: dict[str, Any] | None = None
    defer: int | None = None
    after: float = 0.0


WIRES: dict[str, tuple[Callable[[ModelRequest, Quirks], dict[str, Any]], Callable[[dict[str, Any]], list[str]]]] = {
    OPENAI_CHAT: (chat_request.build_request, check_openai),
    OPENAI_RESPONSES: (responses_request.build_request, check_responses),
    ANTHROPIC: (anthropic_request.build_request, check_anthropic),
}


def judge(request: ModelRequest, sent: Sequence[Sequence[dict[str, Any]]] = (), *, sendable: bool = True) -> list[str]:
    """Violations of a request and of what our adapters make of it, for each protocol.

    Each judges the history as another provider's and as its own. Filling blanks (rule 5) is the adapters' work, so there
    the wire's own body is judged.
    """
    found = [line for line in check_neutral(request, sent, sendable=sendable) if not line.startswith("[5]")]
    for api, (build, check) in WIRES.items() if request.messages else ():
        model = dataclasses.replace(request.model, api=api)
        for own in (False, True):
            messages = [{**m, "api": api} if own and m["role"] == "assistant" else m for m in request.messages]
            wire = check(build(dataclasses.replace(request, model=model, messages=messages), Quirks()))
            found += [
                f"{line} (on the wire, {api}{', its own' if own else ''})"
                for line in wire
                if sendable or "ends in an assistant" not in line
            ]
    return found


Script = Sequence[Turn] | Callable[[ModelRequest, int], Turn | Awaitable[Turn]]


def say(text: str, **options: Any) -> Turn:
    """An answer."""
    return Turn(text=text, **options)


def call(*calls: tuple[str, dict[str, Any]], text: str = "", **options: Any) -> Turn:
    """A turn of tool calls: `call(("note", {"text": "a"}), …)`."""
    return Turn(text=text, calls=calls, **options)


def response_id(request: ModelRequest) -> str:
    """The answer that a request asks for in the background: another sending of the same attempt means the same one."""
    return f"response {request.key}"


def turn_index(request: ModelRequest) -> int:
    """How many assistant messages the request holds: the number of the turn that comes next."""
    return sum(1 for message in request.messages if message.get("role") == "assistant")


@dataclass
class StrictScripted:
    """A Provider (models/provider.py). Every request is recorded, judged, then answered from the script.

    `faults` maps a request's number (1, 2, … as this object counts them) to what is raised instead of an answer.
    A violation is kept in `violations` and raised as a `bad_request`, so a scenario fails by its outcome as well.
    `posts`, `polls` and `cancels` are the ids of the deferred answers that were asked for, looked for and cancelled.
    """

    script: Script
    name: str = "strict"
    api: str = "scripted"
    faults: dict[int, ModelError] = field(default_factory=dict)
    before: Callable[[ModelRequest, int], Awaitable[None]] | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    sent: list[list[dict[str, Any]]] = field(default_factory=list)
    poll_faults: dict[int, ModelError] = field(default_factory=dict)
    before_poll: Callable[[int], Awaitable[None]] | None = None
    before_cancel: Callable[[int], Awaitable[None]] | None = None
    posts: list[str] = field(default_factory=list)
    polls: list[str] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    too_early: dict[str, int] = field(default_factory=dict)
    active: int = 0
    most_active: int = 0
    closed: bool = False

    def resolve(self, name: str) -> Model:
        """Any `provider/model` is known here, so the object serves as the harness's models too."""
        provider, _, model_id = name.partition("/")
        if not model_id:
            raise ModelError(f"no model is called {name!r}", "configuration")
        return Model(provider, model_id, self.api, context_window=100_000)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.requests.append(copy.deepcopy(request))
        number = len(self.requests)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            found = judge(request, self.sent)
            if found:
                self.violations += [f"request {number}: {line}" for line in found]
                raise ModelError("strict: " + "; ".join(found), "bad_request", status=400)
            if self.before is not None:
                await self.before(request, number)
            fault = self.faults.get(number)
            if fault is not None:
                raise fault
            turn = await self._turn(request)
            if turn.defer is not None:
                yield await self._accept(request, turn)
                return
            async for event in self._play(request, turn):
                yield event
        finally:
            self.active -= 1

    async def _accept(self, request: ModelRequest, turn: Turn) -> Deferred:
        wanted = response_id(request)
        if wanted in self.polls:
            self.violations.append(f"{wanted}: asked for anew although its handle was stored")
        self.posts.append(wanted)
        await asyncio.sleep(turn.delay)
        return Deferred({"id": wanted}, turn.after)

    async def poll(self, request: ModelRequest, handle: dict[str, Any]) -> AsyncIterator[StreamEvent]:
        """One look for an answer made in the background; who opened the session again has its handle alone."""
        self.polls.append(handle["id"])
        number = len(self.polls)
        self.active += 1
        try:
            if handle != {"id": response_id(request)}:
                self.violations.append(f"poll {number}: {handle} is not what {request.key} asked for")
            self.violations += [f"poll {number}: {line}" for line in judge(request, self.sent)]
            if self.before_poll is not None:
                await self.before_poll(number)
            if number in self.poll_faults:
                raise self.poll_faults[number]
            turn = await self._turn(request)
            early = self.too_early.get(handle["id"], 0)
            if handle["id"] in self.cancels:
                raise ModelError("the answer was cancelled", "refused")
            if turn.defer is not None and early < turn.defer:
                self.too_early[handle["id"]] = early + 1
                yield Deferred(handle, turn.after)
                return
            async for event in self._play(request, dataclasses.replace(turn, delay=0.0)):
                yield event
        finally:
            self.active -= 1

    async def cancel(self, provider: str, handle: dict[str, Any]) -> None:
        """End an answer, as `Models.cancel` does."""
        self.cancels.append(handle["id"])
        if self.before_cancel is not None:
            await self.before_cancel(len(self.cancels))

    async def close(self) -> None:
        self.closed = True

    async def wait_requests(self, count: int) -> None:
        """Until `count` requests were made."""
        await until(lambda: len(self.requests) >= count)

    async def wait_polls(self, count: int) -> None:
        """Until `count` looks for a deferred answer were made."""
        await until(lambda: len(self.polls) >= count)

    async def _turn(self, request: ModelRequest) -> Turn:
        index = turn_index(request)
        if callable(self.script):
            made = self.script(request, index)
            return made if isinstance(made, Turn) else await made
        if index < len(self.script):
            return self.script[index]
        return Turn(text=f"nothing more (turn {index})")

    async def _play(self, request: ModelRequest, turn: Turn) -> AsyncIterator[StreamEvent]:
        if turn.delay:
            await asyncio.sleep(turn.delay)
        content = _content(request, turn)
        deltas = 0
        for index, block in enumerate(content):
            empty, pieces = _pieces(block, turn.chunks)
            yield BlockStart(index, empty)
            for piece in pieces:
                if turn.error is not None and deltas >= turn.error_after:
                    raise turn.error
                if turn.cut is not None and deltas >= turn.cut:
                    return
                yield BlockDelta(index, piece)
                deltas += 1
                if turn.pace:
                    await asyncio.sleep(turn.pace)
        if turn.error is not None:
            raise turn.error
        if turn.cut is not None:
            return
        if turn.hold is not None:
            await turn.hold.wait()
        self.sent.append(copy.deepcopy(content))
        yield Finished(_message(request, turn, content))


def _content(request: ModelRequest, turn: Turn) -> list[dict[str, Any]]:
    index = turn_index(request)
    content: list[dict[str, Any]] = []
    if turn.thinking:
        block: dict[str, Any] = {"type": "thinking", "thinking": turn.thinking}
        if turn.signature:
            block["signature"] = turn.signature
        content.append(block)
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    for position, (name, arguments) in enumerate(turn.calls):
        call_id = turn.ids[position] if turn.ids is not None else f"call-{index}-{position}"
        block = {"type": "toolCall", "id": call_id, "name": name, "arguments": copy.deepcopy(arguments)}
        if turn.stop == "length":  # a provider trusts no arguments of an answer that was cut
            block |= {"arguments": {}, "providerExtra": {"invalid": {"error": "cut by the output limit", "raw": ""}}}
        content.append(block)
    return content


def _pieces(block: dict[str, Any], chunks: int) -> tuple[dict[str, Any], list[str]]:
    if block["type"] == "toolCall":
        return {**block, "arguments": {}}, [json.dumps(block["arguments"])]
    key = "text" if block["type"] == "text" else "thinking"
    text = block[key]
    count = max(1, min(chunks, len(text)))
    step = -(-len(text) // count) if text else 1
    started = {name: value for name, value in block.items() if name != "signature"} | {key: ""}
    return started, [text[at : at + step] for at in range(0, len(text), step)]


def _message(request: ModelRequest, turn: Turn, content: list[dict[str, Any]]) -> AssistantMessage:
    usage: Any = turn.usage or {
        "input": 10,
        "output": 5,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 15,
        "cost": {"input": 0.001, "output": 0.002, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.003},
    }
    stop: StopReason = turn.stop or ("toolUse" if turn.calls else "stop")
    return {
        "role": "assistant",
        "content": copy.deepcopy(content),
        "api": "scripted",
        "provider": request.model.provider,
        "model": request.model.model_id,
        "usage": copy.deepcopy(usage),
        "stopReason": stop,
        "timestamp": 1_700_000_000_000,
    }
