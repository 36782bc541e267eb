"""Everything the main screen shows of one session, from the frames of its watch. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from durable_tui.models.usage import tokens_text, total_usage
from durable_tui.ui.adapter import header, recovery_cards, rows, words
from durable_tui.ui.adapter.blocks import Said
from durable_tui.ui.adapter.transcript_model import NO_VIEW, Changes, TranscriptModel
from durable_tui.ui.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from durable_tui.agent.shapes import QueuedItem, Run
    from durable_tui.session.watch import Frame
    from durable_tui.views.shapes import ConversationView, SessionView, TaskRow


class ScreenModel:
    """`epoch` is this opening's, for which deaths to show; flags say what the front end itself knows."""

    def __init__(
        self,
        transcript: TranscriptModel | None = None,
        *,
        conversation_id: int = 1,
        epoch: int | None = None,
        home: str = "",
        glyphs: Glyphs = UNICODE,
    ) -> None:
        self.transcript = transcript or TranscriptModel()
        self.conversation_id = conversation_id
        self.epoch = epoch
        self.home = home
        self.glyphs = glyphs
        self.tasks: dict[int, TaskRow] = {}
        self.task_list: Sequence[TaskRow] = ()
        self.seq = 0
        self.paused = False
        self.reading = False
        self.stopping: int | None = None  # the run's task asked to stop, until a frame shows it
        self.problem: str | None = None
        self.closing = False
        self.all_loaded = False
        self.fallback_title = ""  # for an untitled session whose first words are not loaded
        self.running_since = 0  # when this process let work start

    # --- frames ---------------------------------------------------------------------------------------------

    def apply(self, frame: Frame[SessionView]) -> Changes:
        changes = self.transcript.apply(frame)
        self.seq = max(self.seq, frame.seq)
        run = frame.value.get("run")
        if self.stopping is not None and (run is None or run["taskId"] != self.stopping):
            self.stopping = None
        tasks = frame.value["tasks"]
        if tasks is not self.task_list:
            self.task_list = tasks
            self.tasks = {task["id"]: task for task in tasks}
            changes.parts.add("tasks")
        if changes.reset or not changes.parts.isdisjoint(("tools", "tasks")):
            changes.touched |= self._times(changes)
        return changes

    def _times(self, changes: Changes) -> set[int]:
        return {index for index in self.transcript.apply_tasks(self.tasks, self.running_since) if index < changes.kept}

    # --- what to show ---------------------------------------------------------------------------------------

    @property
    def view(self) -> ConversationView:
        return self.transcript.view

    @property
    def has_view(self) -> bool:
        """Whether a first frame has come."""
        return self.view is not NO_VIEW

    @property
    def run(self) -> Run | None:
        return self.view.get("run")

    @property
    def busy(self) -> bool:
        """A conversation is busy exactly while `pi.live.run` exists (spec 1)."""
        return self.run is not None

    @property
    def items(self) -> Sequence[QueuedItem]:
        return self.view["inbox"]["items"]

    @property
    def parked(self) -> int:
        return sum(bool(item.get("parked")) for item in self.items)

    @property
    def unfinished(self) -> int:
        return sum(task["status"] != "terminal" for task in self.task_list)

    @property
    def at_closing(self) -> str:
        """What closing now does to the work, in a clause; "" when it does nothing to any (spec 21)."""
        if self.reading or not self.unfinished:
            return ""
        running = [slot["name"] for slot in self.view["tools"] if rows.slot_status(slot, self.tasks) == "running"]
        cut = [name for name in running if self.transcript.builder.replay_of(name) != "safe"]
        interrupted = f"; {', '.join(cut)} will be interrupted" if cut else ""
        return f"{words.plural(self.unfinished, 'task')} will go on at the next open{interrupted}"

    @property
    def has_older(self) -> bool:
        return not self.all_loaded and not self.view["first"]

    def header(self) -> header.Header:
        view = self.view
        if not self.has_view:
            return header.Header()
        cwd = view["agent"].get("cwd") or view["session"]["cwd"]
        state = header.state_of(
            view,
            self.tasks,
            paused=self.paused and bool(self.unfinished),
            problem=bool(self.problem),
            reading=self.reading,
            stopping=self.stopping is not None,
        )
        return header.Header(
            title=header.title_of(view, self.fallback_title if self.has_older else self.transcript.first_said),
            cwd=words.home_path(cwd, self.home),
            model=header.model_of(view),
            thinking=header.thinking_of(view),
            state=state,
            context=header.context_of(view),
            cost=header.cost_of(view, self.glyphs["at_least"]),
            seq=self.seq,
        )

    def usage(self) -> str:
        """Tokens and cost of the conversation in a line, "" when nothing was used."""
        used = total_usage([self.view["usage"]])
        return f"{tokens_text(used)}; {header.cost_words(used, self.glyphs['at_least'])}" if any(used.values()) else ""

    def recovery(self, *, every: bool = False) -> recovery_cards.Recovery:
        return recovery_cards.recovery(self.view["recovery"], epoch=None if every else self.epoch)

    def live(self, now: int) -> rows.Rows:
        return rows.live_rows(
            self.view, self.tasks, now, self.glyphs, self.running_since,
            conversation=self.conversation_id, standing=self.paused,
        )  # fmt: skip

    def inbox(self) -> rows.Rows:
        return rows.inbox_rows(self.view, self.glyphs)

    def task_rows(self) -> rows.Rows:
        return rows.task_rows(self.task_list, self.conversation_id, self.glyphs)

    def said(self) -> list[str]:
        """What the person said in this conversation, oldest first, as far as it is loaded."""
        texts: list[str] = []
        current: int | None = None
        for block in self.transcript.blocks:
            if isinstance(block.data, Said):
                if block.entry == current and texts:
                    texts[-1] += "\n" + block.data.text
                else:
                    texts.append(block.data.text)
                current = block.entry
        return texts

    def hint(self, key: Callable[[str], str]) -> str:
        """What the keys of the composer do now; `key` tells how the key of an action is called."""
        if self.closing:
            return "closing in order"
        if self.reading:
            return f"read-only · {key('sessions')} another session"
        if self.paused and self.unfinished:
            return f"{key('send')} on an empty line starts what was found"
        if self.busy:
            return f"{key('send')} steer · {key('follow_up')} follow-up · {key('stop')} stop"
        if self.parked:
            return f"{key('send')} send · empty {key('send')} releases the first parked message"
        return f"{key('send')} send · {key('newline')} new line"

    def status(self, now: int) -> str:
        """One line for narrow terminals: state, time, what waits, what runs."""
        glyph, word, _ = header.STATES[self.header().state]
        parts = [f"{self.glyphs[glyph]} {word}"]
        run = self.run
        if run is not None:
            task = self.tasks.get(run["taskId"])
            started = task.get("startedAt") if task is not None else None
            name = words.task_name(run["taskId"], "pi.generation")
            parts.append(name + (f" {words.elapsed(now - started)}" if started else ""))
        if self.items:
            parts.append(f"inbox {len(self.items)}")
        if self.unfinished:
            parts.append(f"tasks {self.unfinished}")
        return f" {self.glyphs['dot']} ".join(parts)
