"""What a headless wait looks at: parked work, steps worth a line."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.cli.headless import open_submissions, step_of, stuck


def row(number: int, status: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "status": status, "background": False, **more}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], None),
        ([row(1, "running")], None),
        ([row(1, "pending", blocked="restart_limit")], "restart_limit"),
        ([row(1, "waiting"), row(2, "pending", blocked="missing_task")], "missing_task"),
        ([row(1, "waiting"), row(2, "pending", blocked="missing_task"), row(3, "running")], None),
        ([row(1, "pending", blocked="missing_task"), row(2, "terminal")], "missing_task"),
        ([row(1, "pending", blocked="space")], None),
        ([row(1, "waiting"), row(2, "terminal", blocked="missing_task")], None),
        ([row(1, "pending", blocked="missing_task", background=True)], None),
    ],
)
def test_parked_only_when_nothing_can_move_without_a_person(rows: list[dict[str, Any]], reason: str | None) -> None:
    assert stuck(rows)[0] == reason


def test_open_submissions_are_the_queue_and_the_runs_inputs() -> None:
    view = {"inbox": {"items": [{"id": 4}, {"id": 5}]}, "run": {"taskId": 9, "inputs": [3]}}
    assert open_submissions(view) == {3, 4, 5}
    assert open_submissions({"inbox": {"items": []}}) == set()


@pytest.mark.parametrize(
    ("view", "step"),
    [
        ({"tools": []}, None),
        ({"tools": [], "run": {}}, "working"),
        ({"tools": [], "generation": {"attempt": 1}}, "asking the model"),
        ({"tools": [], "generation": {"attempt": 3}}, "asking the model, attempt 3"),
        (
            {"tools": [], "generation": {"attempt": 2, "retry": {"at": 9, "error": "503\n"}}},
            "waiting to ask again: 503",
        ),
        (
            {"tools": [], "generation": {"attempt": 1, "deferred": {"pollAt": 9}}},
            "waiting for the answer; it is being made at the provider",
        ),
        ({"tools": [{"status": "running", "name": "bash", "taskId": 7}]}, "running bash npm test"),
        ({"tools": [{"status": "done", "name": "bash"}, {"status": "running", "name": "edit"}]}, "running edit"),
    ],
)
def test_steps_in_words(view: dict[str, Any], step: str | None) -> None:
    tasks = [{"id": 3, "doing": "asking deepseek-chat"}, {"id": 7, "doing": "bash npm test"}]
    assert step_of({**view, "tasks": tasks}) == step
