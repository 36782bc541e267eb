"""Every prefix of a conversation's commits recovers, and every prefix of that recovery (case UI-R07).

A conversation is recorded once, commit by commit, together with how many commits were stored when each effect
happened. Then, for every prefix: open it, recover to idle, check all invariants; no unsafe effect happens twice, every
input reaches its end, and no request breaks a rule of the strict provider. Then again for prefixes of the recovery.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from durable_tui.agent.extension import Extension, ToolCall, tool
from durable_tui.agent.settings import Settings
from durable_tui.models.provider import ModelError
from durable_tui.storage import MemoryStorage
from durable_tui.storage.records import Batch, OwnerRow
from tests.tools.effects import UNSAFE, Effect, Effects, Text
from tests.tools.invariants import State, check_effects, check_history, check_idle, check_store, read_state
from tests.tools.scenario import AGENT, FAST, Rig, derived, text_of
from tests.tools.strict_provider import Script, call, say

Drive = Callable[[Rig], Awaitable[None]]


@dataclass(frozen=True)
class Input:
    text: str
    request_id: str
    when_busy: Literal["follow_up", "steer", "reject"] = "follow_up"


@dataclass(frozen=True)
class Scenario:
    """What is said, how it is driven when nothing dies, and what may come of the inputs."""

    name: str
    script: Script
    inputs: Sequence[Input]
    drive: Drive
    faults: dict[int, ModelError] = field(default_factory=dict)
    poll_faults: dict[int, ModelError] = field(default_factory=dict)
    answered: bool = True
    extend: Callable[[Rig], Extension] | None = None
    settings: Settings = FAST


async def _say_all(rig: Rig, inputs: Sequence[Input]) -> None:
    for one in inputs:
        await rig.root.submit(one.text, when_busy=one.when_busy, request_id=one.request_id)


async def _plain(rig: Rig) -> None:
    for one in PLAIN_INPUTS:
        await (await rig.root.submit(one.text, request_id=one.request_id)).wait()


async def _one(rig: Rig) -> None:
    await _say_all(rig, ONE)
    await rig.harness.wait_for_idle()


async def _queue(rig: Rig) -> None:
    first, steer, follow, last = QUEUE_INPUTS
    await _say_all(rig, [first])
    await rig.effects.wait_started("gate")
    await _say_all(rig, [steer, follow])
    rig.effects.gate("q").set()
    await rig.harness.wait_for_idle()
    await _say_all(rig, [last])
    await rig.effects.wait_started("gate", 2)
    await rig.root.submit(PARKED.text, request_id=PARKED.request_id)
    await rig.root.stop()
    await rig.harness.wait_for_idle()
    await rig.root.release()
    await rig.harness.wait_for_idle()


async def _abort(rig: Rig) -> None:
    await _say_all(rig, ONE)
    await rig.effects.wait_started("stubborn")
    await rig.root.abort()
    await rig.harness.wait_for_idle()


ONE = [Input("go", "r1")]
PLAIN_INPUTS = [Input("hello", "r1"), Input("and again", "r2")]
QUEUE_INPUTS = [
    Input("start", "r1"),
    Input("steer me", "r2", "steer"),
    Input("follow me", "r3"),
    Input("once more", "r4"),
]
PARKED = Input("parked", "r5")


def _queue_script(request: Any, index: int) -> Any:
    """Tools at the first and the fourth input, whatever else was said in between."""
    if request.messages[-1]["role"] == "user":
        text = request.messages[-1]["content"]
        text = text if isinstance(text, str) else text[0]["text"]
        if text == "start":
            return call(("gate", {"text": "q"}), ("note", {"text": "n"}), ids=[f"g{index}", f"n{index}"])
        if text == "once more":
            return call(("gate", {"text": "z"}), ids=[f"z{index}"])
        return say(f"heard {text}")
    return say(f"after tools {index}")


def _delegating(rig: Rig) -> Extension:
    """A tool whose call owns a conversation that goes on working after the call has answered."""

    @tool
    async def delegate(args: Text, call: ToolCall) -> str:
        """Hand something to a conversation of its own."""
        rig.effects.append(call.task_id, "delegate", args.text)
        child = await rig.harness.create_conversation(
            agent=AGENT, owner={"conversationId": call.conversation_id, "taskId": call.task_id}
        )
        await child.submit("child work", request_id=f"child-{call.task_id}")
        return "delegated"

    return Extension("delegates", tools=[delegate])


def _owned_script(request: Any, index: int) -> Any:
    if request.messages[0]["content"] == "child work":
        return call(("note", {"text": "c"})) if index == 0 else say("child done", chunks=3, pace=0.001)
    return call(("delegate", {"text": "d"})) if index == 0 else say("done")


SCENARIOS = [
    Scenario(
        "plain",
        [say("hi there", chunks=4), say("again", chunks=2, thinking="well", signature="S")],
        PLAIN_INPUTS,
        _plain,
    ),
    Scenario(
        "streaming",
        [
            say("a few words at a time", chunks=5, pace=0.002, thinking="well, well"),
            say("and more of them", chunks=4, pace=0.002),
        ],
        PLAIN_INPUTS,
        _plain,
        faults={2: ModelError("down", "network")},
    ),
    Scenario(
        "broken",
        [
            call(("note", {"text": "a"})),
            say("it breaks off", chunks=4, pace=0.002, error=ModelError("reset", "network"), error_after=3),
        ],
        ONE,
        _one,
        answered=False,
    ),
    Scenario(
        "parallel",
        [
            call(
                ("note", {"text": "a"}),
                ("peek", {"text": "b"}),
                ("boom", {"text": "c"}),
                ("talk", {"text": "d"}),
                ("nosuch", {}),
                ("note", {"wrong": 1}),
                text="several",
            ),
            call(("note", {"text": "e"})),
            say("done"),
        ],
        ONE,
        _one,
    ),
    Scenario(
        "sequential",
        [
            call(
                ("seq", {"text": "1", "seconds": 0}),
                ("seqboom", {"text": "2"}),
                ("seq", {"text": "3", "seconds": 0}),
                ("note", {"text": "4"}),
                ("bug", {"text": "5"}),
            ),
            say("done"),
        ],
        ONE,
        _one,
    ),
    Scenario("queue", _queue_script, [*QUEUE_INPUTS, PARKED], _queue, answered=False),
    Scenario(
        "retry",
        [call(("note", {"text": "a"})), say("done", chunks=3)],
        ONE,
        _one,
        faults={1: ModelError("down", "network"), 3: ModelError("busy", "overloaded", status=529)},
    ),
    Scenario(
        "error",
        [call(("note", {"text": "a"})), say("x", error=ModelError("no such thing", "bad_request"))],
        ONE,
        _one,
        answered=False,
    ),
    Scenario(
        "abort",
        [call(("stubborn", {"seconds": 0.0}), ("note", {"text": "a"})), say("done")],
        ONE,
        _abort,
        answered=False,
    ),
    Scenario(
        "deferred",
        [call(("note", {"text": "a"}), defer=1), say("done", chunks=2, defer=2)],
        ONE,
        _one,
        poll_faults={2: ModelError("unreachable", "network", polled=True)},
    ),
    Scenario(
        "deferred-error",
        [call(("note", {"text": "a"}), defer=0), say("x", defer=1, error=ModelError("failed", "server"))],
        ONE,
        _one,
        answered=False,
    ),
    Scenario("terminate", [call(("note", {"text": "a"})), call(("terminate", {"text": "t"}))], ONE, _one),
    Scenario("owned", _owned_script, ONE, _one, extend=_delegating),
    Scenario(
        "limited",
        lambda request, index: call(("note", {"text": str(index)})),  # it never ends by itself
        ONE,
        _one,
        answered=False,
        settings=dataclasses.replace(FAST, limit_turns=3),
    ),
]
#: The stubborn tool never ends by itself, so a recovery that runs it must stop it.
NEEDS_ABORT = {"abort"}


@dataclass
class Recorded:
    batches: list[Batch]
    effects: list[tuple[int, Effect]]  # how many commits were stored when it happened
    owners: list[OwnerRow]  # the openings so far, this one included

    def happened(self, commits: int, *, late: bool) -> list[Effect]:
        """The effects before a death after so many commits; `late` counts those between this commit and the next."""
        return [effect for at, effect in self.effects if at < commits or (late and at == commits)]


def _partials(state: State) -> list[tuple[int, str]]:
    """What a dead attempt had shown, by conversation (spec 9: it becomes an aborted entry)."""
    found = []
    for conversation_id in state.conversations:
        message = (state.live(conversation_id).get("generation") or {}).get("message")
        if message is not None and text_of(message):
            found.append((conversation_id, text_of(message)))
    return found


def _lost_partials(partials: Sequence[tuple[int, str]], state: State) -> list[str]:
    kept = {
        (entry["conversationId"], text_of(message))
        for entry in state.entries.values()
        for message in entry.get("model", [])
        if message["role"] == "assistant" and message["stopReason"] == "aborted"
    }
    return [
        f"conversation {number}: the partial {text!r} is lost"
        for number, text in partials
        if (number, text) not in kept
    ]


def _handles(batches: Sequence[Batch]) -> set[str]:
    """The answers made in the background whose handles some commits hold (spec 9: from then on only polled)."""
    checkpoints = [task["state"].get("checkpoint", {}) for batch in batches for task in batch.tasks]
    return {checkpoint["handle"]["id"] for checkpoint in checkpoints if "handle" in checkpoint}


async def record(
    scenario: Scenario,
    storage: MemoryStorage,
    earlier: Sequence[Effect] = (),
    *,
    drive: Drive,
    handles: Set[str] = frozenset(),
) -> Recorded:
    """Open `storage`, drive it, and keep its commits and effects. Asserts what must hold at the end.

    `handles` are the answers made in the background that the store already knew: none may be asked for anew.
    """
    effects = Effects()
    marks: list[tuple[int, Effect]] = []
    effects.after = lambda effect: marks.append((len(storage.log), effect))
    rig = Rig(scenario.script, effects=effects, settings=scenario.settings)
    rig.provider.faults = dict(scenario.faults)
    rig.provider.poll_faults = dict(scenario.poll_faults)
    unstored: list[str] = []

    async def look(number: int) -> None:
        wanted = rig.provider.polls[number - 1]
        if wanted not in handles | _handles(storage.log):
            unstored.append(f"{wanted} is polled before its handle is stored")

    rig.provider.before_poll = look
    if scenario.extend is not None:
        rig.extensions = [scenario.extend(rig)]
    partials = _partials(await read_state(storage))
    await rig.open(storage)
    try:
        async with asyncio.timeout(30):
            await drive(rig)
        found = await check_idle(storage)
        found += await check_effects(storage, [*earlier, *effects.read()])
        found += rig.provider.violations + unstored
        found += [f"{wanted} was made a second time" for wanted in rig.provider.posts if wanted in handles]
        found += check_history(storage.log)
        state = await read_state(storage)
        found += _lost_partials(partials, state)
        known = {record["requestId"]: record for record in state.submissions.values() if record["conversationId"] == 1}
        for one in scenario.inputs:
            status = known[one.request_id]["status"] if one.request_id in known else "absent"
            if status not in (("done",) if scenario.answered else ("done", "unanswered")):
                found.append(f"input {one.request_id}: {status} {known.get(one.request_id)}")
        if len(known) != len(scenario.inputs):
            found.append(f"submissions: {sorted(known)}")
        assert not found, "\n".join(found)
        owners = [dataclasses.replace(row, closed_at=None) for row in await storage.owners()]
    finally:
        await asyncio.wait_for(rig.harness.close(), 10)
    return Recorded(list(storage.log), marks, owners)


def recovery_of(scenario: Scenario) -> Drive:
    """What a front end does after a death: resume, say again what may not have been heard, release what is parked."""

    async def drive(rig: Rig) -> None:
        for name in ("q", "z"):
            rig.effects.gate(name).set()
        await rig.harness.resume()
        await _say_all(rig, scenario.inputs)
        if scenario.name in NEEDS_ABORT:
            waiting = asyncio.create_task(rig.harness.wait_for_idle())
            started = asyncio.create_task(rig.effects.wait_started("stubborn"))
            await asyncio.wait({waiting, started}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            if not waiting.done():
                await rig.root.abort()
            await waiting
        await rig.harness.wait_for_idle()
        while any(item.get("parked") for item in await rig.inbox()):
            await rig.root.release()
            await rig.harness.wait_for_idle()

    return drive


async def recover(
    scenario: Scenario, batches: Sequence[Batch], earlier: Sequence[Effect], owners: Sequence[OwnerRow]
) -> Recorded:
    storage = MemoryStorage.from_batches(batches, owners=owners, record=True)
    return await record(scenario, storage, earlier, drive=recovery_of(scenario), handles=_handles(batches))


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
async def recorded(request: pytest.FixtureRequest) -> tuple[Scenario, Recorded]:
    scenario: Scenario = request.param
    return scenario, await record(scenario, MemoryStorage(record=True), drive=scenario.drive)


async def every_prefix(scenario: Scenario, whole: Recorded, *, stride: int) -> int:
    """Recover from every prefix, and from every `stride`-th prefix of each recovery (0: none); gives how many.

    Which ones they are moves on with the prefix, so that a stride leaves out no kind of moment.
    """
    recoveries = 0
    for length in range(len(whole.batches) + 1):
        for late in (False, True):
            earlier = whole.happened(length, late=late)
            if late and earlier == whole.happened(length, late=False):
                continue
            where = f"{scenario.name}, killed after commit {length}{' and the effect after it' if late else ''}"
            try:
                first = await recover(scenario, whole.batches[:length], earlier, whole.owners)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"{where}: {error!r}") from error
            recoveries += 1
            if late or not stride:
                continue
            for inner in range(length % stride, len(first.batches), stride):
                more = [*earlier, *first.happened(inner, late=True)]
                both = [*whole.batches[:length], *first.batches[:inner]]
                try:
                    await recover(scenario, both, more, first.owners)
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"{where}, then after {inner} commits of its recovery: {error!r}") from error
                recoveries += 1
    return recoveries


async def test_d06_ui_r07_every_prefix_recovers_and_prefixes_of_the_recovery(
    recorded: tuple[Scenario, Recorded],
) -> None:
    """A fifth of the second deaths; tests/crash/test_all_prefixes.py takes every one."""
    scenario, whole = recorded
    recoveries = await every_prefix(scenario, whole, stride=5)
    print(f"{scenario.name}: {len(whole.batches)} commits, {recoveries} recoveries")
    assert recoveries > len(whole.batches)


async def test_ui_r06_ui_r07_every_prefix_is_sound_and_its_request_passes_the_strict_provider(
    recorded: tuple[Scenario, Recorded],
) -> None:
    scenario, whole = recorded
    for length in range(1, len(whole.batches) + 1):
        storage = MemoryStorage.from_batches(whole.batches[:length])
        found = await check_store(storage)
        found += await check_effects(storage, whole.happened(length, late=True))
        rig = Rig(scenario.script)
        await rig.open(storage)
        for conversation in rig.harness.conversations():
            found += await derived(conversation)
        await rig.harness.close()
        assert not found, f"{scenario.name}, commit {length}: " + "\n".join(found)


def test_the_scenarios_have_effects_that_must_not_repeat() -> None:
    assert {"note", "gate", "seq", "boom", "stubborn"} <= UNSAFE
