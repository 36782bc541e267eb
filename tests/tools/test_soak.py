"""The long forms: the same seed makes the same choices, and a failed check is status 1 with its seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak import __main__ as soak


async def _breaks(folder: Path, count: int, seed: int) -> Counter[str]:
    raise AssertionError(f"{count} broke")


def test_a_failed_check_is_status_1_and_tells_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(soak.NAMES, "kills", _breaks)
    assert soak.main(["kills", "--count", "2", "--seed", "5"]) == 1
    printed = capsys.readouterr()
    assert "FAILED: python -m tests.soak kills --count 2 --seed 5" in printed.out and "2 broke" in printed.err


def test_a_seed_is_told_and_makes_the_same_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["prefixes", "--count", "1"]) == 0
    first, figures = capsys.readouterr().out.splitlines()
    assert soak.main(first.split()) == 0
    again, same = capsys.readouterr().out.splitlines()
    assert (again, same.partition(";")[0]) == (first, figures.partition(";")[0]) == (first, "2 recoveries")
