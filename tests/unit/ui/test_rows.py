"""Panels, header and recovery in words (spec 15; cases UI-Q01, UI-Q11, UI-R10, UI-S07)."""

from __future__ import annotations

import pytest

from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.header import context_of, cost_of, state_of
from durable_tui.ui.adapter.recovery_cards import VERDICTS, explanation, recovery
from durable_tui.ui.adapter.rows import Rows, inbox_rows, live_rows, recovery_rows, task_rows
from durable_tui.ui.glyphs import ASCII, TABLE, UNICODE
from durable_tui.ui.text.runs import width
from tests.tools.ui_fakes import NOW, death, empty_view, found, recovered_scene, task_row


def texts(rows: Rows) -> list[str]:
    return ["".join(text for text, _ in [*row.left, *row.right]) for row in rows.rows]


def test_every_glyph_is_one_cell_and_has_an_ascii_stand_in() -> None:
    for name, (glyph, plain) in TABLE.items():
        assert width(glyph) == 1, name
        assert len(plain) == 1 and plain.isascii(), name


def test_every_verdict_of_the_contract_has_words() -> None:
    wanted = "restarted rerun verified reattached interrupted resent resumed woken blocked gaveUp aborted"
    assert set(VERDICTS) == set(wanted.split())
    assert VERDICTS["interrupted"].sentence == "may have partly run; the model was told"


def test_spec_15_a_row_found_again_by_the_next_death_is_shown_once_there() -> None:
    first = death(found(8, "pi.tool", "execute", "edit a.json"), found(3, "pi.generation", "tools", "asking m"))
    second = death(found(8, "pi.tool", "execute", "edit a.json", "interrupted", seq=110))
    third = {**first, "tasks": first["tasks"][1:]}
    second, third = {**second, "foundBy": 3}, {**third, "foundBy": 4}
    card = recovery({"deaths": [first, second, third]}, epoch=3)
    assert [(row.name, row.verdict.word) for row in card.rows] == [("G3", "found"), ("T8", "interrupted")]
    assert not recovery({"deaths": [first, second]}, epoch=9).rows[1:], "only what nobody decided is still shown"


def test_recovery_rows_before_and_after_the_verdict() -> None:
    value = {
        "deaths": [
            death(
                found(8, "pi.tool", "execute", "edit a.json"),
                found(3, "pi.generation", "tools", "asking m", "woken", seq=101),
            )
        ]
    }
    card = recovery(value, epoch=2)
    assert card.undecided == 1
    assert [row.verdict.word for row in card.rows] == ["found", "woken"]
    lines = texts(recovery_rows(card, UNICODE, 110))
    assert "T8" in lines[0] and "not decided yet" in lines[0]
    assert "G3" in lines[1] and "its tools have finished" in lines[1] and "#101" in lines[1]
    assert "died" in card.footing and "#96" in card.footing


def test_only_the_deaths_of_this_opening_are_shown_and_all_on_demand() -> None:
    old = death(found(2, "pi.tool", "call", "x", "restarted"), epoch=1, found_by=2)
    new = death(found(8, "pi.tool", "call", "y", "restarted"), epoch=4, found_by=5)
    value = {"deaths": [old, new]}
    assert [row.name for row in recovery(value, epoch=5).rows] == ["T8"]
    assert recovery(value, epoch=6).rows == ()
    assert len(recovery(value).rows) == 2


def test_the_explanation_names_commits_times_and_the_rule() -> None:
    value = {"deaths": [death(found(8, "pi.tool", "execute", "edit a.json", "interrupted", entry=12))]}
    [row] = recovery(value).rows
    lines = dict(explanation(row))
    assert "4711" in lines["died"] and "#96" in lines["last commit"] and "#97" in lines["decided"]
    assert "37 s without a process" in lines["found"]
    assert lines["rule"] == "An effect that may have happened is never repeated unasked (spec 10)"
    assert "not safe to repeat" in lines["why"]


def test_spec_17_4_the_card_and_the_explanation_say_how_the_process_died_as_far_as_that_is_known() -> None:
    lost = death(found(8, "pi.tool", "execute", "edit a.json", "interrupted"))
    known = {**lost, "end": {"by": "launcher", "signal": "SIGKILL", "at": NOW}}
    card, told = recovery({"deaths": [lost]}), recovery({"deaths": [known]})
    assert "SIGKILL" not in card.footing and told.footing == f"{card.footing}: killed by SIGKILL"
    assert dict(explanation(card.rows[0]))["ended"] == "how it ended is unknown"
    assert dict(explanation(told.rows[0]))["ended"] == "killed by SIGKILL"


def test_spec_15_what_a_close_ended_is_not_told_as_a_death() -> None:
    undecided = {**death(found(8, "pi.tool", "execute", "bash make")), "ended": "closed"}
    decided = {**death(found(8, "pi.tool", "execute", "bash make", "interrupted")), "ended": "closed"}
    before, after = recovery({"deaths": [undecided]}), recovery({"deaths": [decided]})
    assert (before.title, after.title) == ("found after a close", "taken up after a close")
    for card in (before, after):
        lines = dict(explanation(card.rows[0]))
        words = " ".join([card.title, card.footing, *(f"{key} {text}" for key, text in lines.items())])
        assert "died" not in words and "dead" not in words and "crash" not in words
        assert "process 4711 was closed" in card.footing and "4711" in lines["closed"]
        assert lines["ended"] == "in order, ending what ran" and "by opening 2" in lines["found"]
    untold = {**undecided, "foundBy": undecided["epoch"]}
    assert dict(explanation(recovery({"deaths": [untold]}).rows[0]))["found"] == "not opened since"
    other = death(found(9, "pi.tool", "execute", "bash test", "interrupted"), epoch=2, found_by=3)
    assert "2 interruptions in a row" in recovery({"deaths": [decided, other]}).footing
    assert "2 deaths in a row" in recovery({"deaths": [death(*undecided["tasks"]), other]}).footing


def test_spec_15_no_verdict_speaks_of_a_death_that_may_have_been_a_close() -> None:
    of_deaths_alone = {"gaveUp"}
    for name, verdict in VERDICTS.items():
        words = f"{verdict.sentence} {verdict.why}"
        assert name in of_deaths_alone or not {"died", "dead", "crash", "death"} & set(words.replace(",", "").split())


def test_spec_15_a_verdict_of_an_extensions_task_speaks_of_no_model_and_no_tool() -> None:
    told = {**found(8, "print.report", "send", "report July", "interrupted"), "detail": "the printer does not tell"}
    [row] = recovery({"deaths": [death(told)]}).rows
    assert row.sentence == "the printer does not tell" and row.name == "R8" and row.doing == "report July"
    assert not {"model", "tool"} & set(dict(explanation(row))["why"].split())
    [row] = recovery({"deaths": [death(found(8, "print.report", "send", "report July", "interrupted"))]}).rows
    assert row.sentence == "may have partly run; not run again"


def test_live_rows_tell_what_an_extensions_task_does() -> None:
    page = task_row(9, "running", kind="print.page", owner=8, doing="page 1")
    report = task_row(8, "waiting", kind="print.report", doing="report July", waitingOn=[9])
    ended = task_row(7, "terminal", kind="print.report", doing="report June", outcome="completed")
    tasks = {task["id"]: task for task in (ended, report, page)}
    assert texts(live_rows(empty_view(), tasks, NOW, conversation=1)) == ["R8 report July · waiting"]
    assert texts(live_rows(empty_view(), tasks, NOW, conversation=2)) == []
    tasks[8] = {**report, "status": "pending", "blocked": "restart_limit"}
    assert "parked: died too often" in texts(live_rows(empty_view(), tasks, NOW, conversation=1))[0]


def test_narrow_cards_leave_the_sentence_and_keep_the_verdict() -> None:
    card = recovery({"deaths": [death(found(8, "pi.tool", "execute", "edit " + "x" * 80, "interrupted"))]})
    for cells in (30, 50, 70, 110):
        [line] = texts(recovery_rows(card, UNICODE, cells))
        assert "interrupted" in line


def test_live_rows_of_a_run() -> None:
    opened = recovered_scene()
    tasks = {task["id"]: task for task in opened.harness.tasks}
    lines = texts(live_rows(opened.root.view, tasks, NOW))
    assert lines[0].startswith("G5 ") and "4.2 s" in lines[0]
    assert "T19 bash  running" in lines[1]
    assert any("62%" in line for line in lines)


def test_a02_retry_counts_down_with_its_error() -> None:
    view = empty_view(
        run={"taskId": 5, "inputs": []}, generation={"attempt": 2, "retry": {"at": NOW + 4000, "error": "503 busy"}}
    )
    lines = texts(live_rows(view, {}, NOW))
    assert "in 4.0 s" in lines[0] and "503 busy" in lines[1]
    assert state_of(view, {}) == "retrying"


def test_spec_9_an_answer_made_elsewhere_is_said_in_words() -> None:
    view = empty_view(run={"taskId": 5, "inputs": []}, generation={"attempt": 1, "deferred": {"pollAt": NOW + 4000}})
    task = task_row(5, kind="pi.generation", startedAt=NOW - 42_000, phase="poll", provider="openai")
    assert texts(live_rows(view, {5: task}, NOW)) == [
        "G5 waiting for openai42 s",
        "   │ next look in 4.0 s",
    ]
    assert texts(live_rows(view, {5: task}, NOW + 5000))[1].endswith("looking now")
    assert texts(live_rows(view, {5: task}, NOW, standing=True))[1].endswith("asked for again when this starts")
    assert live_rows(view, {5: task}, NOW).ticking
    stopping = texts(live_rows(view, {5: {**task, "abortRequested": True}}, NOW))
    assert len(stopping) == 1 and "stopping" in stopping[0]
    assert state_of(view, {5: task}) == "waiting"


def test_times_count_from_this_process() -> None:
    view = empty_view(run={"taskId": 5, "inputs": []}, generation={"attempt": 1})
    tasks = {5: task_row(5, kind="pi.generation", startedAt=NOW - 3_600_000)}
    assert texts(live_rows(view, tasks, NOW, since=NOW - 2_000))[0].endswith("2.0 s")


def test_ui_q01_ui_q11_waiting_and_parked_items_are_marked() -> None:
    lines = texts(inbox_rows(recovered_scene().root.view))
    assert lines[0].startswith("steer ") and lines[1].startswith("follow-up ") and lines[2].startswith("parked ")
    view = empty_view(
        inbox={"items": [{"id": 1, "mode": "followUp", "content": [{"type": "text", "text": "x"}], "parked": True}]}
    )
    assert state_of(view, {}) == "parked"


def test_tasks_are_a_tree() -> None:
    lines = texts(task_rows(recovered_scene().harness.tasks, 1))
    assert lines[0].startswith("● G5 generation waiting on T19")
    assert lines[1].startswith("├ ✓ T15") and lines[2].startswith("└ ● T19")
    assert "background" in lines[3]


def test_ui_s07_many_tasks_show_the_first_and_a_count() -> None:
    tasks = [task_row(n) for n in range(500)]
    rows = task_rows(tasks, 1, limit=100)
    assert len(rows.rows) == 101 and "400 more" in texts(rows)[-1]
    assert rows.count == 500


def test_blocked_and_restarted_tasks_say_why() -> None:
    task = task_row(7, "pending", blocked="restart_limit", restarts=5)
    [line] = texts(task_rows([task], 1))
    assert "died too often" in line and "5 restarts" in line


@pytest.mark.parametrize(
    ("gate", "reason", "words"),
    [
        ("person", "idle", "idle: waits for you, retry lets it go on"),
        ("ask", "approval", "approval: waits for an answer"),
        ("submission", "accept", "waits: accept"),
        ("time", "limit", "waits: limit"),
        ("time", "retry", "waits to ask again"),
        ("time", "missing_task", "its code is not installed"),
    ],
)
def test_spec_6_12_a_task_at_a_gate_says_why_and_what_to_do(gate: str, reason: str, words: str) -> None:
    [line] = texts(task_rows([task_row(7, "pending", blocked=reason, gate=gate)], 1))
    assert line.endswith(words), line


def test_ui_r10_context_and_cost_come_from_the_view() -> None:
    view = recovered_scene().root.view
    assert context_of(view) == "23 % of 128k"
    assert cost_of(view) == "$0.012"
    assert context_of(empty_view()) == ""
    assert cost_of(empty_view()) == ""
    unknown, known = {"input": 5, "totalTokens": 5}, {"input": 5, "totalTokens": 5, "cost": {"total": 0.012}}
    assert cost_of(empty_view(usage={"models": {"a/b": unknown}, "tools": {}})) == "cost n/a"
    assert cost_of(empty_view(usage={"models": {"a/b": {**known, "cost": {"total": 0}}}, "tools": {}})) == "$0"
    partly = empty_view(usage={"models": {"a/b": known}, "tools": {"search": unknown}})
    assert cost_of(partly) == "≥ $0.012" and cost_of(partly, ">") == "> $0.012"


def test_state_names_the_worst_first() -> None:
    view = empty_view(run={"taskId": 5, "inputs": []})
    assert state_of(view, {}, problem=True) == "problem"
    assert state_of(view, {5: task_row(5, abortRequested=True)}) == "stopping"
    assert state_of(view, {}, stopping=True) == "stopping"
    assert state_of(view, {}) == "busy"
    assert state_of(empty_view(), {}) == "idle"
    assert state_of(view, {}, paused=True) == "paused"


def test_ascii_glyphs_only() -> None:
    opened = recovered_scene()
    tasks = {task["id"]: task for task in opened.harness.tasks}
    out = texts(live_rows(opened.root.view, tasks, NOW, ASCII)) + texts(task_rows(opened.harness.tasks, 1, ASCII))
    assert all(line.isascii() for line in out)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (100, "0.1 s"),
        (9_900, "9.9 s"),
        (42_000, "42 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (-5, "0.0 s"),
    ],
)
def test_elapsed(milliseconds: int, shown: str) -> None:
    assert words.elapsed(milliseconds) == shown


def test_tokens_sizes_and_names() -> None:
    assert [words.tokens(v) for v in (980, 128_000, 1_200_000)] == ["980", "128k", "1.2M"]
    assert words.size(1234) == "1.2 kB"
    assert words.task_name(5, "pi.generation") == "G5"
    assert words.home_path("/home/me/x", "/home/me") == "~/x"
    assert words.home_path("/home/mex", "/home/me") == "/home/mex"
