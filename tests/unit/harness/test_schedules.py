"""Random work on random schedules (spec 7, 8): nothing is lost, invoked twice at once, or left behind."""

from __future__ import annotations

import pytest

from tests.tools.chaos import Chaos
from tests.tools.schedules import run

SEEDS = 60


@pytest.mark.parametrize("base", range(0, SEEDS, 15))
def test_spec_7_random_work_on_random_schedules(base: int) -> None:
    for seed in range(base, base + 15):
        try:
            run(Chaos(seed).live(), seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: run(Chaos({seed}).live(), {seed})")
            raise


def test_the_schedules_are_repeatable_and_differ() -> None:
    """A control: the same seed gives the same line of commits, another seed another one."""

    async def line(seed: int) -> list[int]:
        chaos = Chaos(seed)
        await chaos.live()
        return [len(batch.tasks) for batch in chaos.batches]

    assert run(line(3), 3) == run(line(3), 3) != run(line(4), 4)
