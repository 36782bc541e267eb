"""A step that the store refuses again and again, space not being the matter (spec 3.6, 6.3)."""

from __future__ import annotations

import pytest

from durable_tui.agent.extension import Registry
from durable_tui.engine import task_handle
from durable_tui.engine.execution import REFUSALS
from durable_tui.harness.harness import Harness
from durable_tui.storage import MemoryStorage
from durable_tui.storage.records import Batch
from tests.tools.faults import Fault, FaultyStorage
from tests.tools.scenario import AGENT, FAST, no_environment
from tests.tools.strict_provider import StrictScripted


def answers_refused(_: int, batch: Batch) -> Fault | None:
    refused = any(entry["kind"] == "pi.assistant" for entry in batch.entries)
    return Fault("reject") if refused else None


async def test_a_model_is_not_asked_for_ever_when_its_answer_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_handle, "REJECTED_TRIES", 1)
    provider = StrictScripted([[{"type": "text", "text": "an answer"}]])
    storage = FaultyStorage(MemoryStorage(), answers_refused)
    async with Harness.open(
        storage, models=provider, registry=Registry(), environment=no_environment, settings=FAST
    ) as harness:
        root = await harness.root(agent=AGENT)
        settled = await (await root.submit("go")).wait()
        assert (settled.status, settled.reason) == ("unanswered", "faulted")
        assert settled.detail is not None and "refused on purpose" in settled.detail
        assert len(provider.requests) == REFUSALS
        assert harness.idle and harness.state == "open"
