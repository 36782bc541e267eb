"""What ends a wait early becomes a status and words that say what to do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from durable_tui.cli.status import exit_for
from durable_tui.cli.waiting import free_space, parked_exit, problem_exit
from durable_tui.session.session_errors import DocumentRefused, SessionPoisoned


def opened(**harness: Any) -> Any:
    return SimpleNamespace(harness=SimpleNamespace(**harness), path=Path("/tmp/a.sqlite"), short_id="aaaa1111")


@pytest.mark.parametrize(
    ("state", "full", "status", "reason"),
    [("fenced", False, 3, "fenced"), ("open", True, 4, "full"), ("poisoned", False, 4, "poisoned")],
)
def test_d04_a_session_that_refuses(state: str, full: bool, status: int, reason: str) -> None:
    ended = problem_exit(opened(state=state, paused_for_space=full, session_problem="not saved: why"))
    assert (ended.status, ended.reason) == (status, reason) and "not saved: why" in (ended.message or "")


def test_spec_6_11_parked_says_which_tasks_and_what_lifts_it() -> None:
    follower: Any = SimpleNamespace(reason="restart_limit", parked_tasks=[4, 7])
    message = parked_exit(opened(), follower).message or ""
    assert "T4, T7" in message and "`durable-tui resume --retry aaaa1111`" in message


def test_spec_6_12_a_task_at_a_persons_gate_says_how_to_let_it_go_on() -> None:
    message = parked_exit(opened(), SimpleNamespace(reason="idle", parked_tasks=[4])).message or ""  # type: ignore[arg-type]
    assert message.startswith("parked, idle: T4; ") and "`durable-tui resume --retry aaaa1111`" in message


def test_spec_3_6_errors_of_the_session_are_the_storages() -> None:
    for error in (SessionPoisoned("x"), DocumentRefused("x")):
        ended = exit_for(error)
        assert ended is not None and ended.status == 4


def test_ui_k15_free_space_in_words(tmp_path: Path) -> None:
    assert free_space(tmp_path / "a").split()[1] in ("bytes", "KiB", "MiB", "GiB", "TiB")
    assert free_space(tmp_path / "gone" / "a") == "unknown"
