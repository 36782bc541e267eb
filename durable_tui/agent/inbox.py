"""Submissions and the inbox: admission, boundaries, parking (spec 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from durable_tui.agent.documents import INBOX, LIVE
from durable_tui.agent.settings import Settings
from durable_tui.agent.shapes import Inbox, Live, QueuedEntry, QueuedInput, QueuedItem, QueuedWrite
from durable_tui.engine.shapes import QueuedAtDeath
from durable_tui.models.messages import UserBlock, message_text
from durable_tui.session import DocumentDraft, Session, Transaction
from durable_tui.storage.records import SubmissionRecord

Content = str | list[UserBlock]
TOLD_CHARACTERS = 200  # of an item, in the report of a death
BeginGeneration = Callable[[Transaction, int], int]


class ConversationBusy(Exception):
    """`when_busy="reject"` met a busy conversation; nothing was stored (spec 8.3)."""


class InboxItemGone(Exception):
    """The queued item is not in the inbox any more; the message says what became of it (spec 8.5)."""


class Conversations:
    """Opens conversations inside commits, and keeps their queues.

    `begin_generation(tx, conversation_id)` creates the task that answers and returns its id.
    """

    def __init__(self, session: Session, settings: Settings, begin_generation: BeginGeneration) -> None:
        self.session = session
        self.settings = settings
        self.begin_generation = begin_generation

    async def load(self, tx: Transaction, conversation_id: int) -> ConversationDraft:
        """Read what a commit on a conversation may need, before its first table write (spec 3.4)."""
        live = await tx.document(LIVE, conversation_id)
        inbox = await tx.document(INBOX, conversation_id)
        named = [item["id"] for item in inbox.value["items"]]
        if "run" in live.value:
            named.extend(live.value["run"]["inputs"])
        for submission_id in named:
            if tx.submission_candidate(submission_id) is None:
                await self.session.load_submission(submission_id)
        head = None
        if any(item["mode"] == "write" and "head" in item["entry"] for item in inbox.value["items"]):
            head = await self.active_start(conversation_id)
        return ConversationDraft(self, tx, conversation_id, live, inbox, head)

    async def active_start(self, conversation_id: int) -> int | None:
        """The entry the newest head marker points at (spec 11)."""
        marker = await self.session.storage.newest_head(conversation_id)
        return marker["head"] if marker is not None else None

    # -- as the scheduler's owner of queues ------------------------------------------------------------------------

    async def has_inputs(self, conversation_ids: list[int]) -> bool:
        """Whether an input is queued in one of the conversations."""
        for conversation_id in conversation_ids:
            items = (await self.session.value(INBOX, conversation_id))["items"]
            if any(item["mode"] != "write" for item in items):
                return True
        return False

    async def describe(self, conversation_ids: list[int]) -> list[QueuedAtDeath]:
        """What is queued in the conversations, each with the beginning of its text."""
        rows: list[QueuedAtDeath] = []
        for conversation_id in conversation_ids:
            for item in (await self.session.value(INBOX, conversation_id))["items"]:
                text = item["entry"]["kind"] if item["mode"] == "write" else message_text({"content": item["content"]})
                row: QueuedAtDeath = {"id": item["id"], "mode": item["mode"], "text": text[:TOLD_CHARACTERS]}
                if is_parked(item):
                    row["parked"] = True
                rows.append(row)
        return rows

    async def withdraw_inputs(self, tx: Transaction, conversation_ids: list[int]) -> None:
        """Withdraw the queued inputs of the conversations; queued writes stay (spec 6.8)."""
        for conversation_id in conversation_ids:
            inbox = await tx.document(INBOX, conversation_id)
            items = inbox.value["items"]
            for index in range(len(items) - 1, -1, -1):
                item = items[index]
                if item["mode"] == "write":
                    continue
                record = tx.submission_candidate(item["id"]) or await self.session.load_submission(item["id"])
                if record is not None:
                    tx.put_submission({**record, "status": "unanswered", "reason": "aborted"})
                del items[index]


@dataclass(slots=True)
class ConversationDraft:
    """A conversation inside a commit: its live state and inbox as drafts, everything read before the first write."""

    rules: Conversations
    tx: Transaction
    conversation_id: int
    live_draft: DocumentDraft[Live]
    inbox_draft: DocumentDraft[Inbox]
    head: int | None

    @property
    def live(self) -> Live:
        return self.live_draft.value

    @property
    def items(self) -> list[QueuedItem]:
        return self.inbox_draft.value["items"]

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        return "run" in self.live

    @property
    def is_stopping(self) -> bool:
        """Whether the run carries an abort mark."""
        run = self.live.get("run")
        record = self.tx.candidate(run["taskId"]) if run is not None else None
        return record is not None and record["abortRequested"]


@dataclass(slots=True, frozen=True)
class Boundary:
    """What a boundary placed: the user submissions in inbox order, and whether a reset was among the writes."""

    users: list[int] = field(default_factory=list)
    reset: bool = False


def is_parked(item: QueuedItem) -> bool:
    """Whether a queued item waits for a person (spec 8.5)."""
    return item["mode"] != "write" and bool(item.get("parked"))


def is_after_stop(item: QueuedItem) -> bool:
    """Whether a queued item came while its run was being stopped (spec 8.5)."""
    return item["mode"] != "write" and bool(item.get("afterStop"))


def park_inputs(draft: ConversationDraft) -> None:
    """Park every queued input (spec 8.5)."""
    for item in draft.items:
        if item["mode"] != "write":
            item["parked"] = True
            item.pop("afterStop", None)


def release_item(draft: ConversationDraft, item: QueuedItem) -> None:
    """Un-park an item; while the run is being stopped it is one of those that start at its end (spec 8.5)."""
    if item["mode"] != "write":
        item.pop("parked", None)
        if draft.is_stopping:
            item["afterStop"] = True


def admit_input(
    draft: ConversationDraft, content: Content, *, when_busy: str, request_id: str | None
) -> SubmissionRecord:
    """Admit an input (spec 8.2, 8.3). Raises ConversationBusy for `reject` on a busy conversation."""
    tx = draft.tx
    if draft.busy and when_busy == "reject":
        raise ConversationBusy(f"conversation {draft.conversation_id} is busy")
    record = _new_submission(draft, "input", request_id)
    if draft.busy or not all(is_parked(item) for item in draft.items):
        mode: Literal["steer", "followUp"] = "steer" if when_busy == "steer" else "followUp"
        item: QueuedInput = {"id": record["id"], "mode": mode, "content": content}
        if draft.is_stopping:
            item["afterStop"] = True  # it is to run, not to lie there
        draft.items.append(item)
        queued = tx.put_submission({**record, "status": "queued"})
        if not draft.busy:
            start_waiting(draft)
            return tx.submissions[record["id"]]
        return queued
    entry = _append_user(draft, content)
    placed = tx.put_submission({**record, "status": "placed", "entry": entry})
    start_run(draft, [record["id"]])
    return placed


def admit_write(draft: ConversationDraft, entry: QueuedEntry, *, request_id: str | None) -> SubmissionRecord:
    """Admit a passive write: appended at once when idle, else queued for the next boundary (spec 8.2, 8.3)."""
    tx = draft.tx
    record = _new_submission(draft, "write", request_id)
    if not draft.busy and all(is_parked(item) for item in draft.items):
        return _place_write(draft, record, entry)
    write: QueuedWrite = {"id": record["id"], "mode": "write", "entry": entry}
    draft.items.append(write)
    tx.put_submission({**record, "status": "queued"})
    if not draft.busy:
        start_waiting(draft)
    return tx.submissions[record["id"]]


def start_waiting(draft: ConversationDraft, *, only_after_stop: bool = False) -> None:
    """On an idle conversation: a final boundary, and a run for what it selected."""
    boundary = apply_boundary(draft, "final", only_after_stop=only_after_stop)
    if boundary.users:
        start_run(draft, boundary.users)


def apply_boundary(
    draft: ConversationDraft, at: Literal["afterTools", "final"], *, only_after_stop: bool = False
) -> Boundary:
    """Place all writes, then the selected user items, in inbox order (spec 8.4).

    A reset among the writes makes an afterTools boundary final. Parked items stay; `only_after_stop` leaves all inputs
    but those that came while the run was being stopped.
    """
    tx, settings = draft.tx, draft.rules.settings
    items = list(draft.items)
    if not items:
        return Boundary()
    reset = any(item["mode"] == "write" and item["entry"].get("head") == "self" for item in items)
    final = at == "final" or reset
    chosen: set[int] = set()
    for mode, setting in (("steer", settings.steering_mode), ("followUp", settings.follow_up_mode)):
        if mode == "followUp" and not final:
            continue
        candidates = [
            index
            for index, item in enumerate(items)
            if item["mode"] == mode and not is_parked(item) and (is_after_stop(item) or not only_after_stop)
        ]
        chosen.update(candidates if setting == "all" else candidates[:1])
    users: list[int] = []
    gone: list[int] = []
    for index, item in enumerate(items):
        if item["mode"] == "write":
            _place_write(draft, _submission(tx, item["id"]), cast(QueuedEntry, dict(item["entry"])))
            gone.append(index)
    for index, item in enumerate(items):
        if index in chosen and item["mode"] != "write":
            entry = _append_user(draft, item["content"])
            tx.put_submission({**_submission(tx, item["id"]), "status": "placed", "entry": entry})
            users.append(item["id"])
            gone.append(index)
    for index in sorted(gone, reverse=True):
        del draft.items[index]
    return Boundary(users, reset)


def start_run(draft: ConversationDraft, inputs: list[int]) -> None:
    """Give placed inputs to a new generation, which begins a run or carries one on (spec 8.2, 8.8).

    What else came during a stop waits for its turn now like anything in the queue: that stop is over.
    """
    for item in draft.items:
        if is_after_stop(item):
            item.pop("afterStop", None)  # type: ignore[typeddict-item]
    task_id = draft.rules.begin_generation(draft.tx, draft.conversation_id)
    draft.live["run"] = {"taskId": task_id, "inputs": inputs}
    draft.live["generation"] = {"attempt": 1}
    draft.live.pop("tools", None)


def settle_inputs(
    draft: ConversationDraft, *, answer: int | None = None, reason: str | None = None, detail: str | None = None
) -> None:
    """Settle exactly the inputs of the run, and end it (spec 8.8).

    A run without an answer leaves the inbox alone, but what came or was released while it was being stopped starts
    now (spec 8.4, 8.5).
    """
    tx = draft.tx
    run = draft.live.get("run")
    for submission_id in list(run["inputs"]) if run is not None else ():
        record = _submission(tx, submission_id)
        if answer is not None:
            tx.put_submission({**record, "status": "done", "answer": answer})
            continue
        unanswered: SubmissionRecord = {**record, "status": "unanswered"}
        if reason is not None:
            unanswered["reason"] = reason
        if detail:
            unanswered["detail"] = detail
        tx.put_submission(unanswered)
    for key in ("run", "generation", "tools"):
        draft.live.pop(key, None)  # type: ignore[misc]
    if answer is None and any(is_after_stop(item) for item in draft.items):
        start_waiting(draft, only_after_stop=True)


def find_item(draft: ConversationDraft, submission_id: int) -> int:
    """The place of a queued item. Raises InboxItemGone when the run took it or it was withdrawn."""
    for index, item in enumerate(draft.items):
        if item["id"] == submission_id:
            return index
    record = draft.tx.submission_candidate(submission_id)
    became = "the run has taken it" if record is not None else "it is settled"
    raise InboxItemGone(f"item {submission_id} is not queued any more: {became}")


def _new_submission(
    draft: ConversationDraft, kind: Literal["input", "write"], request_id: str | None
) -> SubmissionRecord:
    record: SubmissionRecord = {
        "id": draft.tx.mint_id(),
        "conversationId": draft.conversation_id,
        "type": kind,
        "status": "queued",
    }
    if request_id is not None:
        record["requestId"] = request_id
    return record


def _submission(tx: Transaction, submission_id: int) -> SubmissionRecord:
    record = tx.submission_candidate(submission_id)
    if record is None:
        raise LookupError(f"submission {submission_id} was not read before this commit's first write")
    return record


def _append_user(draft: ConversationDraft, content: Content) -> int:
    message = {"role": "user", "content": content, "timestamp": draft.rules.session.now()}
    return draft.tx.append(draft.conversation_id, "pi.user", model=[message])["id"]


def _place_write(draft: ConversationDraft, record: SubmissionRecord, entry: QueuedEntry) -> SubmissionRecord:
    head = entry.get("head")
    if isinstance(head, int) and draft.head is not None and head < draft.head:
        return draft.tx.put_submission({**record, "status": "unanswered", "reason": "stale"})
    written = draft.tx.append(
        draft.conversation_id,
        entry["kind"],
        model=entry.get("model"),
        data=entry.get("data"),
        head=head,
        edits=entry.get("edits"),
    )
    if head is not None:
        draft.head = written["head"]
    return draft.tx.put_submission({**record, "status": "done", "entry": written["id"]})
