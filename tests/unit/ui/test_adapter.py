"""The adapter: frames to blocks, and what each frame touches (cases L02, U01, UI-D03, UI-R01-UI-R10, UI-S10)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.delta import apply_ops, freeze
from durable_tui.session import Frame
from durable_tui.ui.adapter.blocks import Block, Head, Marker, Note, Prose, Said, Thinking, Tool, source_text
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes, TranscriptModel
from durable_tui.ui.glyphs import UNICODE
from durable_tui.ui.text.layout import layout
from tests.tools.ui_fakes import (
    assistant,
    call,
    death,
    empty_view,
    found,
    recovered_scene,
    result,
    task_row,
    text,
    user,
)


class Play:
    """A view that commits ops and gives each frame to the adapter."""

    def __init__(self, view: dict[str, Any] | None = None) -> None:
        self.view: Any = freeze(view or empty_view())
        self.seq = 1
        self.model = TranscriptModel()
        self.model.apply(Frame(self.view, [["r", self.view]], 1, 1))

    def ops(self, *ops: Any) -> Changes:
        return self.model.apply(self.frame(*ops))

    def frame(self, *ops: Any) -> Frame[Any]:
        self.seq += 1
        frozen = [freeze(op) for op in ops]
        self.view = apply_ops(self.view, frozen)
        return Frame(self.view, frozen, self.seq, self.seq)

    def append(self, *records: dict[str, Any]) -> Changes:
        at = len(self.view["entries"])
        return self.ops(["p", ["entries"], at, 0, [{**record, "seq": self.seq + 1} for record in records]])

    def tools(self) -> list[Tool]:
        return [block.data for block in self.model.blocks if isinstance(block.data, Tool)]

    def shown(self, cells: int = 80) -> str:
        blocks = [*self.model.blocks, *self.model.tail]
        return "\n".join(line.text for block in blocks for line in layout(block, cells, UNICODE))


def kinds(blocks: list[Block]) -> list[type]:
    return [type(block.data) for block in blocks]


def test_entries_become_blocks() -> None:
    play = Play()
    play.append(user(2, "hello\nthere"))
    play.append(
        assistant(
            3, {"type": "thinking", "thinking": "hmm"}, text("**hi**"), call("c1", "read", path="a.py"), stop="toolUse"
        )
    )
    assert kinds(play.model.blocks) == [Head, Said, Head, Thinking, Prose, Tool]
    assert play.model.first_said == "hello"
    assert play.tools()[0].summary == "a.py"


def test_an_append_touches_only_what_is_new() -> None:
    play = Play()
    for n in range(50):
        play.append(user(2 + n, f"text {n}"))
    before = list(play.model.blocks)
    changes = play.append(user(100, "last"))
    assert not changes.reset and changes.kept == len(before) and not changes.touched
    assert all(a is b for a, b in zip(before, play.model.blocks, strict=False))


def test_a_result_fills_its_call() -> None:
    play = Play()
    play.append(assistant(3, call("c1", "read", path="a"), call("c2", "bash", command="ls"), stop="toolUse"))
    changes = play.append(result(4, "c2", "bash", "x\ny", duration=2500))
    [first, second] = play.tools()
    assert not first.settled and second.state == "done"
    assert changes.touched == {2}
    assert len(play.model.blocks) == 3
    assert "bash ls · 2 lines · 2.5 s" in play.shown()


def test_call_ids_may_repeat_in_later_messages() -> None:
    play = Play()
    play.append(assistant(3, call("c", "read", path="a")), result(4, "c", "read", "one"))
    play.append(assistant(5, call("c", "read", path="b")), result(6, "c", "read", "two"))
    assert [tool.result for tool in play.tools()] == ["one", "two"]


def test_streaming_touches_only_the_tail_and_keeps_closed_chunks() -> None:
    play = Play()
    play.append(user(2, "q"))
    stable = list(play.model.blocks)
    play.ops(["s", ["run"], {"taskId": 9, "inputs": [1]}], ["s", ["generation"], {"attempt": 1}])
    message = {"role": "assistant", "content": [{"type": "text", "text": ""}]}
    play.ops(["s", ["generation", "message"], message])
    for n in range(100):
        changes = play.ops(["a", ["generation", "message", "content", 0, "text"], f"line {n}\n\n"])
        assert changes.tail and not changes.touched and changes.kept == len(stable)
    proses = [block for block in play.model.tail if isinstance(block.data, Prose)]
    assert len(proses) > 5
    keys = [(block.key, block.version) for block in proses[:-2]]
    play.ops(["a", ["generation", "message", "content", 0, "text"], "more"])
    again = [(block.key, block.version) for block in play.model.tail if isinstance(block.data, Prose)]
    assert again[: len(keys)] == keys
    assert play.model.blocks == stable


def test_an_answer_made_in_the_background_says_so_where_it_will_stand() -> None:
    play = Play()
    play.append(user(2, "q"))
    play.ops(["s", ["run"], {"taskId": 9, "inputs": [1]}], ["s", ["generation"], {"attempt": 1}])
    changes = play.ops(["s", ["generation", "deferred"], {"pollAt": 1_700_000_000_000}])
    assert changes.tail and kinds(play.model.tail) == [Head, Note]
    note = play.model.tail[-1]
    assert "is being made" in note.data.text and "next look at" in note.data.text
    play.ops(["s", ["generation", "deferred", "pollAt"], 1_700_000_009_000])
    again = play.model.tail[-1]
    assert again.key == note.key and again.version != note.version
    play.append(assistant(3, text("made")))
    play.ops(["d", ["run"]], ["d", ["generation"]])
    assert play.model.tail == [] and "is being made" not in play.shown()


def test_ui_r09_an_aborted_answer_without_output_says_so() -> None:
    play = Play()
    play.append(assistant(3, stop="aborted"))
    assert "aborted, no output" in play.shown()
    play.append(assistant(4, text("par"), stop="aborted"))
    assert kinds(play.model.blocks)[-2:] == [Prose, Note]


def test_a_failed_attempt_shows_the_providers_words_literally() -> None:
    play = Play()
    play.append(assistant(3, stop="error", errorMessage="[/] 401 [bold]no key"))
    assert "[/] 401 [bold]no key" in play.shown()


def test_ui_r01_no_spinner_without_a_live_task() -> None:
    play = Play()
    play.append(assistant(3, call("c1", "bash", command="sleep 60"), stop="toolUse"))
    play.ops(["s", ["tools"], [{"callId": "c1", "name": "bash", "taskId": 8, "status": "running", "output": "x"}]])
    model = ScreenModel(play.model)
    model.apply(play.frame(["s", ["tasks"], [task_row(8, startedAt=5)]]))
    assert play.tools()[0].state == "running"
    model.apply(play.frame(["s", ["tasks"], [task_row(8, "pending", startedAt=5)]]))
    assert play.tools()[0].state == "unfinished"
    assert UNICODE["busy"] not in play.shown()
    assert all(UNICODE["busy"] not in run for row in model.live(10).rows for run, _ in row.left)


def test_slots_follow_their_call_until_its_result() -> None:
    play = Play()
    play.append(assistant(3, call("c1", "bash", command="make"), stop="toolUse"))
    play.ops(["s", ["tools"], [{"callId": "c1", "name": "bash", "taskId": 8, "status": "pending"}]])
    changes = play.ops(["s", ["tools", 0, "status"], "running"])
    assert changes.touched == {1}
    play.ops(["s", ["tools", 0, "output"], "compiling"])
    assert play.tools()[0].output == "compiling"
    play.append(result(5, "c1", "bash", "done"))
    play.ops(["s", ["tools", 0, "status"], "done"])
    assert play.tools()[0].state == "done" and play.tools()[0].result == "done"


def test_ui_d02_ui_d03_interrupted_calls_say_what_is_known_and_show_the_policy() -> None:
    play = Play()
    play.model.builder._replay_of = lambda name: "unsafe"
    play.append(assistant(3, call("c1", "bash", command="deploy"), stop="toolUse"))
    body = "partial\n<harness>\n[error] Tool bash was interrupted and may have partially run\n</harness>"
    play.append(result(5, "c1", "bash", body, error="interrupted", task=8))
    play.ops(
        ["s", ["recovery"], {"deaths": [death(found(8, "pi.tool", "execute", "bash deploy", "interrupted", entry=5))]}]
    )
    [tool] = play.tools()
    assert tool.state == "interrupted" and tool.result == "partial"
    assert "interrupted by a crash at" in play.shown()
    assert "<harness>" not in play.shown()
    block = next(block for block in play.model.blocks if isinstance(block.data, Tool))
    assert play.model.toggle(block)
    assert "replay unsafe" in play.shown()
    assert "It was not run again" in play.shown(200)


@pytest.mark.parametrize(
    ("verdict", "words"), [("interrupted", "interrupted by a close at"), ("rerun", "re-run after a close")]
)
def test_spec_15_a_call_that_a_close_ended_says_so(verdict: str, words: str) -> None:
    play = Play()
    play.append(assistant(3, call("c1", "bash", command="deploy"), stop="toolUse"))
    play.append(result(5, "c1", "bash", "done", error="interrupted" if verdict == "interrupted" else None, task=8))
    closed = {**death(found(8, "pi.tool", "execute", "bash deploy", verdict, entry=5)), "ended": "closed"}
    play.ops(["s", ["recovery"], {"deaths": [closed]}])
    assert words in play.shown() and "crash" not in play.shown()


def test_recovered_calls_carry_their_mark() -> None:
    model = TranscriptModel()
    view = recovered_scene().root.view
    model.apply(Frame(view, [["r", view]], 128, 1))
    out = "\n".join(line.text for block in model.blocks for line in layout(block, 100, UNICODE))
    assert "⟲ re-run after a crash" in out
    assert "⟲ interrupted by a crash" in out


def test_ui_r05_a_whole_view_rebuilds_and_keeps_older_pages_that_join() -> None:
    play = Play(empty_view(entries=[{**user(n, f"t{n}"), "seq": n} for n in range(10, 14)], first=False))
    assert play.model.prepend([{**user(n, f"t{n}"), "seq": n} for n in range(5, 10)]) == 10
    view = freeze(empty_view(entries=[{**user(n, f"t{n}"), "seq": n} for n in range(12, 16)], first=False))
    changes = play.model.apply(Frame(view, [["r", view]], 20, 20))
    assert changes.reset
    assert [block.entry for block in play.model.blocks if isinstance(block.data, Head)] == list(range(5, 16))
    far = freeze(empty_view(entries=[{**user(n, f"t{n}"), "seq": n} for n in range(30, 32)], first=False))
    play.model.apply(Frame(far, [["r", far]], 40, 40))
    assert [block.entry for block in play.model.blocks if isinstance(block.data, Head)] == [30, 31]


def test_ui_s10_a_result_whose_call_is_on_an_older_page_joins_it_when_that_comes() -> None:
    play = Play(
        empty_view(entries=[{**result(10, "c1", "read", "x"), "seq": 10}, {**user(11, "next"), "seq": 11}], first=False)
    )
    assert [tool.summary for tool in play.tools()] == ["(called above)"]
    play.model.prepend([{**assistant(9, call("c1", "read", path="a")), "seq": 9}])
    assert play.model.orphans_joined
    assert [tool.summary for tool in play.tools()] == ["a"]
    assert play.tools()[0].settled
    changes = play.append(assistant(12, call("c2", "read", path="b")), result(13, "c2", "read", "y"))
    assert not changes.reset
    assert [tool.result for tool in play.tools()] == ["x", "y"]


def test_results_after_paging_find_their_calls() -> None:
    play = Play(empty_view(entries=[{**assistant(10, call("c1", "bash", command="ls")), "seq": 10}], first=False))
    play.model.prepend([{**user(n, f"t{n}"), "seq": n} for n in range(2, 8)])
    changes = play.append(result(11, "c1", "bash", "out"))
    assert changes.touched == {13}
    assert play.tools()[0].result == "out"


@pytest.mark.parametrize("kind", ["pi.reset", "pi.compaction", "pi.system", "my.note"])
def test_other_entries_become_markers(kind: str) -> None:
    play = Play()
    message = {
        "role": "system",
        "content": "",
        "sections": {"preamble": "be good", "old": None},
        "toolsAdded": [{"name": "read"}],
        "timestamp": 1,
    }
    if kind == "pi.compaction":
        message = {"role": "user", "content": "the summary", "timestamp": 1}
    record: dict[str, Any] = {"id": 4, "conversationId": 1, "kind": kind, "data": {"reason": "manual"}}
    if kind in ("pi.system", "pi.compaction"):
        record["model"] = [message]
    play.append(record)
    assert kinds(play.model.blocks) == [Marker]
    assert play.shown()


def test_an_unknown_change_of_entries_rebuilds() -> None:
    play = Play()
    play.append(user(2, "a"), user(3, "b"))
    changes = play.ops(["s", ["entries"], [{**user(2, "other"), "seq": 2}]])
    assert changes.reset
    assert [block.data.text for block in play.model.blocks if isinstance(block.data, Said)] == ["other"]


def test_changes_merge_as_if_applied_together() -> None:
    first = Changes(parts={"entries"}, kept=10, touched={3})
    first.merge(Changes(parts={"tools"}, kept=12, touched={4, 11}))
    assert (first.kept, first.touched, first.parts) == (10, {3, 4}, {"entries", "tools"})
    first.merge(Changes(reset=True))
    assert first.reset and first.kept == 0 and not first.touched


def test_folding_survives_a_rebuild() -> None:
    play = Play()
    play.append(assistant(3, call("c1", "read", path="a")), result(4, "c1", "read", "x"))
    block = next(block for block in play.model.blocks if isinstance(block.data, Tool))
    play.model.toggle(block)
    play.model.apply(Frame(play.view, [["r", play.view]], 9, 9))
    assert not play.tools()[0].folded


def test_copying_gives_the_source() -> None:
    play = Play()
    play.append(assistant(3, text("**bold** and `code`\n\n- item")))
    assert source_text(play.model.blocks) == "**bold** and `code`\n\n- item"


@pytest.mark.parametrize("hostile", ["[/]", "[bold]x[/bold", "\x1b]0;t\x07x", "a\ud800b"])
def test_u01_u03_hostile_text_anywhere_is_shown_literally(hostile: str) -> None:
    play = Play()
    play.model.apply(Frame(empty_view(), [["r", empty_view()]], 1, 1))
    entries = [
        user(2, hostile),
        assistant(3, text(hostile), call("c", hostile, path=hostile), stop="error", errorMessage=hostile),
        result(4, "c", hostile, hostile, error="tool_error"),
    ]
    view = empty_view(entries=[{**entry, "seq": 2} for entry in entries])
    play.model.apply(Frame(view, [["r", view]], 2, 2))
    for block in play.model.blocks:
        play.model.toggle(block, False)
    shown = play.shown()
    assert "\x1b" not in shown and "\ud800" not in shown
    if hostile.startswith("["):
        assert shown.count(hostile) >= 5


def test_spec_21_only_the_owner_is_told_what_quitting_does_to_the_work() -> None:
    play = Play()
    play.append(assistant(3, call("c1", "bash", command="make"), stop="toolUse"))
    play.ops(["s", ["tools"], [{"callId": "c1", "name": "bash", "taskId": 8, "status": "running"}]])
    model = ScreenModel(play.model)
    model.apply(play.frame(["s", ["tasks"], [task_row(8)]]))
    assert model.at_closing == "1 task will go on at the next open; bash will be interrupted"
    model.reading = True
    assert model.at_closing == ""
