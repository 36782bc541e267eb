"""Mutation check, by hand or in slow CI: break the harness in one place at a time; the core check must go red.

`python tests/tools/mutate.py [NAME …]` prints one line a mutation and exits 1 when one of them survives. The core check
is the one of tests/scenarios/test_prefixes.py: every prefix of recorded conversations recovers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui.agent import inbox, model_context, tool_task
from durable_tui.agent.generation import attempt, partial_answer, phases, tool_round
from durable_tui.engine import task_record, task_rules
from durable_tui.engine.recovery import RecoveryReport
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.harness import conversation
from durable_tui.models.provider import ModelError
from durable_tui.session import documents
from durable_tui.storage import MemoryStorage
from tests.scenarios import test_prefixes as prefixes

Mutation = Callable[[], "contextlib.AbstractContextManager[Any]"]
LIMIT = 45.0  # seconds for one mutation; unchanged the check takes a few
CHECKED = (
    "plain",
    "streaming",
    "parallel",
    "sequential",
    "queue",
    "retry",
    "abort",
    "deferred",
    "terminate",
    "owned",
    "limited",
)


@contextlib.contextmanager
def _all(*patches: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def intent_after_effect() -> Any:
    """The intent is not stored before the tool runs."""
    advance = TaskHandle.advance

    def late(self: Any, tx: Any, checkpoint: Any) -> None:
        if checkpoint.get("phase") != "execute":
            advance(self, tx, checkpoint)

    return mock.patch.object(TaskHandle, "advance", late)


def unsafe_runs_again() -> Any:
    """Recovery runs every tool again, whatever its policy."""

    async def always(*_: Any) -> bool:
        return True

    return mock.patch.object(tool_task, "is_rerun_allowed", always)


def no_synthetic_results() -> Any:
    """A call without a result is sent as it is."""

    def bare(self: Any) -> list[Any]:
        return [self.message, *(self.results[c["id"]] for c in self.calls if c["id"] in self.results)]

    return mock.patch.object(model_context._Unit, "messages", bare)


def aborted_answers_are_sent() -> Any:
    """What ended as an error or aborted goes back to the model."""
    return mock.patch.object(model_context, "LEFT_OUT", frozenset())


def results_in_order_of_arrival() -> Any:
    """Results follow in the order in which they came."""

    def arrival(self: Any) -> list[Any]:
        return [self.message, *self.results.values()]

    return mock.patch.object(model_context._Unit, "messages", arrival)


def partial_is_lost() -> Any:
    """A partial left by a dead attempt stays in pi.live and never becomes an entry."""
    return mock.patch.object(phases, "close_partial", mock.AsyncMock(return_value=None))


def inputs_stay_placed() -> Any:
    """The end of a run does not settle its inputs."""

    def only_live(draft: Any, **_: Any) -> None:
        for key in ("run", "generation", "tools"):
            draft.live.pop(key, None)

    modules = (attempt, tool_round, phases)
    return _all(*(mock.patch.object(module, "settle_inputs", only_live) for module in modules))


def queue_loses_an_item() -> Any:
    """An item leaves the inbox without being placed."""
    apply = inbox.apply_boundary

    def losing(draft: Any, at: Any, **more: Any) -> Any:
        if draft.items and not draft.items[0].get("parked"):
            del draft.items[0]
        return apply(draft, at, **more)

    return _all(*(mock.patch.object(module, "apply_boundary", losing) for module in (inbox, attempt, tool_round)))


def answers_are_asked_for_anew() -> Any:
    """The handle of an answer made in the background is not stored: a restarted run has to ask for another one."""

    async def polling(agent: Any, cancel: Any, handle: Any, deferred: Any) -> None:
        made = await attempt.load_attempt(agent, handle)
        reply: Any = deferred
        while not isinstance(reply, dict):
            listening = attempt.listen(
                agent.models.poll(made.request, dict(deferred.handle)), partial_answer.Partial(made.model, 0)
            )
            with contextlib.suppress(ModelError):
                reply = await listening
        await attempt.commit_answer(agent, handle, made, reply, made.call_ids)

    return mock.patch.object(phases, "start_polling", polling)


def request_ids_are_forgotten() -> Any:
    """The same request id makes another submission."""

    async def unknown(*_: Any) -> None:
        return None

    return mock.patch.object(conversation.Conversation, "_known", unknown)


def no_verdicts() -> Any:
    """Recovery decides without writing it down."""

    async def silent(*_: Any, **__: Any) -> None:
        return None

    return mock.patch.object(RecoveryReport, "note", silent)


def limits_fail_open() -> Any:
    """A run whose context is not in memory has no limit."""

    async def forgetful(agent: Any, draft: Any) -> Any:
        known = draft.conversation_id in agent.contexts._newest
        return await over_limit(agent, draft) if known else None

    over_limit = tool_round.over_limit
    return _all(*(mock.patch.object(module, "over_limit", forgetful) for module in (tool_round, attempt)))


def waiters_are_not_woken() -> Any:
    """A waiting task is not resumed when what it waits for ends."""

    async def never(*_: Any) -> bool:
        return False

    return mock.patch.object(task_rules.TaskRules, "wake", never)


def outcomes_are_not_held() -> Any:
    """A task ends although work that it owns is alive."""
    return mock.patch.object(task_rules, "children_of", lambda *_: {})


def documents_lose_ops() -> Any:
    """A document's delta misses an op that its value has."""
    seal = documents.DocumentDraft.seal

    def shorter(self: Any) -> Any:
        value, ops = seal(self)
        return value, ops[:-1] if len(ops) > 1 else ops

    return mock.patch.object(documents.DocumentDraft, "seal", shorter)


def result_and_slot_are_two_commits() -> Any:
    """The result entry of a tool is stored before its outcome."""
    commit = TaskHandle.complete

    def later(self: Any, tx: Any, result: Any) -> None:
        if "entryId" not in result or self.checkpoint.get("phase") != "execute":
            commit(self, tx, result)
            return
        tx.put_task(
            task_record.changed(
                self.record, state={"status": "running", "checkpoint": {**self.checkpoint, "done": True}}
            )
        )

    return mock.patch.object(TaskHandle, "complete", later)


def commits_reuse_a_seq() -> Any:
    """Two commits get the same number."""
    mint = MemoryStorage.mint_seq
    return mock.patch.object(MemoryStorage, "mint_seq", lambda self: max(1, mint(self) - 1))


MUTATIONS: list[Mutation] = [
    intent_after_effect, unsafe_runs_again, no_synthetic_results, aborted_answers_are_sent, results_in_order_of_arrival,
    partial_is_lost, inputs_stay_placed, queue_loses_an_item, answers_are_asked_for_anew, request_ids_are_forgotten,
    no_verdicts,
    waiters_are_not_woken, outcomes_are_not_held, documents_lose_ops, result_and_slot_are_two_commits,
    commits_reuse_a_seq, limits_fail_open,
]  # fmt: skip


async def core_check() -> None:
    """Record and recover; raises AssertionError (or hangs into its timeout) when something does not hold."""
    for scenario in prefixes.SCENARIOS:
        if scenario.name not in CHECKED:
            continue
        recorded = await prefixes.record(scenario, MemoryStorage(record=True), drive=scenario.drive)
        await prefixes.test_ui_r06_ui_r07_every_prefix_is_sound_and_its_request_passes_the_strict_provider(
            (scenario, recorded)
        )
        await prefixes.every_prefix(scenario, recorded, stride=0)


def broken(name: str) -> None:
    """Run the core check under one mutation, in this process; prints what it found, nothing when it passed."""
    mutation = next(mutation for mutation in MUTATIONS if mutation.__name__ == name)
    with mutation():
        try:
            asyncio.run(core_check())
        except Exception as error:  # noqa: BLE001  whatever a broken harness does is what was asked for
            print(f"{' '.join(repr(error).split())[:150]}", flush=True)
            os._exit(1)  # a broken harness may not be able to end


def survives(mutation: Mutation) -> bool:
    """Whether the core check stays green under the mutation. A process of its own, as a broken harness may hang or spin."""
    command = [sys.executable, __file__, "--broken", mutation.__name__]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"red    {mutation.__name__}: it never ends", flush=True)
        return False
    if done.returncode:
        print(f"red    {mutation.__name__}: {done.stdout.strip()}", flush=True)
        return False
    print(f"ALIVE  {mutation.__name__}: {mutation.__doc__}", flush=True)
    return True


def main(arguments: list[str]) -> int:
    logging.disable(logging.CRITICAL)
    if arguments[:1] == ["--broken"]:
        broken(arguments[1])
        return 0
    began = time.monotonic()
    asyncio.run(core_check())
    print(f"green  unchanged, {time.monotonic() - began:.1f} s", flush=True)
    chosen = [mutation for mutation in MUTATIONS if not arguments or mutation.__name__ in arguments]
    return 1 if sum(survives(mutation) for mutation in chosen) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
