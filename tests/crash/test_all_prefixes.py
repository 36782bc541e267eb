"""Every prefix of every recovery of every recorded conversation: thousands of recoveries."""

from __future__ import annotations

import pytest

from durable_tui.storage import MemoryStorage
from tests.scenarios.test_prefixes import SCENARIOS, Scenario, every_prefix, record

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_every_prefix_of_every_recovery_recovers(scenario: Scenario) -> None:
    whole = await record(scenario, MemoryStorage(record=True), drive=scenario.drive)
    recoveries = await every_prefix(scenario, whole, stride=1)
    print(f"{scenario.name}: {len(whole.batches)} commits, {recoveries} recoveries")
    assert recoveries > 2 * len(whole.batches)
