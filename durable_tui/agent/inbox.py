"""Submissions and the inbox: admission, boundaries, parking (spec 8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from durable_tui.agent.documents import INBOX, LIVE
from durable_tui.engine.task import new_task
from durable_tui.session import DocumentDraft, Transaction
from durable_tui.storage.records import SubmissionRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel


class ConversationBusy(Exception):
    """`when_busy="reject"` met a busy conversation; nothing was stored (spec 8.3)."""


class InboxItemGone(Exception):
    """The queued item is not in the inbox any more; the message says what became of it (spec 8.5)."""


@dataclass(slots=True)
class Scene:
    """A conversation inside a commit: its live state and inbox as drafts, everything read before the first write."""

    kernel: Kernel
    tx: Transaction
    conversation_id: int
    live_draft: DocumentDraft
    inbox_draft: DocumentDraft
    head: int | None

    @property
    def live(self) -> Any:
        return self.live_draft.value

    @property
    def items(self) -> Any:
        return self.inbox_draft.value["items"]

    @property
    def busy(self) -> bool:
        return "run" in self.live


@dataclass(slots=True, frozen=True)
class Boundary:
    """What a boundary placed: the user submissions in inbox order, and whether a reset was among the writes."""

    users: list[int] = field(default_factory=list)
    reset: bool = False


async def load_scene(kernel: Kernel, tx: Transaction, conversation_id: int) -> Scene:
    """Read what a commit on this conversation may need, before its first table write (spec 3.4)."""
    live = await tx.document(LIVE, conversation_id)
    inbox = await tx.document(INBOX, conversation_id)
    wanted = [item["id"] for item in inbox.value["items"]]
    if "run" in live.value:
        wanted.extend(live.value["run"]["inputs"])
    for submission_id in wanted:
        if tx.submission_candidate(submission_id) is None:
            await kernel.session.load_submission(submission_id)
    head = None
    if any(item["mode"] == "write" and "head" in item["entry"] for item in inbox.value["items"]):
        marker = await kernel.session.storage.newest_head(conversation_id)
        head = marker["head"] if marker is not None else None
    return Scene(kernel, tx, conversation_id, live, inbox, head)


def admit_input(scene: Scene, content: Any, *, when_busy: str, request_id: str | None) -> SubmissionRecord:
    """Admit an input (spec 8.2, 8.3). Raises ConversationBusy for `reject` on a busy conversation."""
    tx = scene.tx
    if scene.busy and when_busy == "reject":
        raise ConversationBusy(f"conversation {scene.conversation_id} is busy")
    record = _new_submission(scene, "input", request_id)
    waiting = [item for item in scene.items if not item.get("parked")]
    if scene.busy or waiting:
        note_late(scene)
        mode = "steer" if when_busy == "steer" else "followUp"
        scene.items.append({"id": record["id"], "mode": mode, "content": content})
        queued = tx.put_submission({**record, "status": "queued"})
        if not scene.busy:
            start_waiting(scene)
            return tx.submissions[record["id"]]
        return queued
    entry = _append_user(scene, content)
    placed = tx.put_submission({**record, "status": "placed", "entry": entry})
    start_run(scene, [record["id"]])
    return placed


def admit_write(scene: Scene, entry: dict[str, Any], *, request_id: str | None) -> SubmissionRecord:
    """Admit a passive write: appended at once when idle, else queued for the next boundary (spec 8.2, 8.3)."""
    tx = scene.tx
    record = _new_submission(scene, "write", request_id)
    waiting = [item for item in scene.items if not item.get("parked")]
    if not scene.busy and not waiting:
        return _place_write(scene, record, entry)
    scene.items.append({"id": record["id"], "mode": "write", "entry": entry})
    tx.put_submission({**record, "status": "queued"})
    if not scene.busy:
        start_waiting(scene)
    return tx.submissions[record["id"]]


def note_late(scene: Scene) -> None:
    """Remember an input that comes while the run is being aborted: it is to run, not to lie there (spec 8.5)."""
    run = scene.live.get("run")
    record = scene.tx.candidate(run["taskId"]) if run is not None else None
    if record is not None and record["abortRequested"]:
        scene.kernel.late.add(record["id"])


def start_waiting(scene: Scene) -> None:
    """On an idle conversation: a final boundary, and a run for what it selected."""
    boundary = apply_boundary(scene, "final")
    if boundary.users:
        start_run(scene, boundary.users)


def apply_boundary(scene: Scene, at: str) -> Boundary:
    """Place all writes, then the selected user items, in inbox order (spec 8.4). `at`: afterTools or final.

    A reset among the writes makes an afterTools boundary final. Parked items stay.
    """
    tx, settings = scene.tx, scene.kernel.settings
    items = list(scene.items)
    if not items:
        return Boundary()
    reset = any(item["mode"] == "write" and item["entry"].get("head") == "self" for item in items)
    final = at == "final" or reset
    chosen: list[int] = []
    for mode, setting in (("steer", settings.steering_mode), ("followUp", settings.follow_up_mode)):
        if mode == "followUp" and not final:
            continue
        found = [i for i, item in enumerate(items) if item["mode"] == mode and not item.get("parked")]
        chosen.extend(found if setting == "all" else found[:1])
    users: list[int] = []
    gone: list[int] = []
    for index, item in enumerate(items):
        if item["mode"] == "write":
            _place_write(scene, _submission(tx, item["id"]), dict(item["entry"]))
            gone.append(index)
    for index in sorted(chosen):
        item = items[index]
        entry = _append_user(scene, item["content"])
        tx.put_submission({**_submission(tx, item["id"]), "status": "placed", "entry": entry})
        users.append(item["id"])
        gone.append(index)
    for index in sorted(gone, reverse=True):
        del scene.items[index]
    return Boundary(users, reset)


def start_run(scene: Scene, inputs: list[int]) -> int:
    """A generation for some placed inputs; it owns the run (spec 8.2). Returns its task id."""
    task_id = new_generation(scene)
    scene.live["run"] = {"taskId": task_id, "inputs": inputs}
    scene.live["generation"] = {"attempt": 1}
    scene.live.pop("tools", None)
    return task_id


def new_generation(scene: Scene) -> int:
    """A generation task of this conversation, already reserved when the scheduler may start it."""
    definition = scene.kernel.definition("pi.generation")
    assert definition is not None
    record = new_task(
        scene.tx,
        conversation_id=scene.conversation_id,
        definition=definition,
        input={},
        running=scene.kernel.scheduler.can_start(),
    )
    return record["id"]


def settle_inputs(
    scene: Scene, *, answer: int | None = None, reason: str | None = None, detail: str | None = None
) -> None:
    """Settle exactly the inputs of the run, and end it (spec 8.8).

    An aborted run leaves the inbox alone, but what came or was released after its mark starts now (spec 8.4, 8.5).
    """
    tx = scene.tx
    late = False
    if "run" in scene.live:
        late = reason == "aborted" and scene.live["run"]["taskId"] in scene.kernel.late
        for submission_id in list(scene.live["run"]["inputs"]):
            record = dict(_submission(tx, submission_id))
            if answer is not None:
                record.update(status="done", answer=answer)
            else:
                record.update(status="unanswered", reason=reason)
                if detail:
                    record["detail"] = detail
            tx.put_submission(record)  # type: ignore[arg-type]
    for key in ("run", "generation", "tools"):
        scene.live.pop(key, None)
    if late:
        start_waiting(scene)


def find_item(scene: Scene, submission_id: int) -> int:
    """The place of a queued item. Raises InboxItemGone when the run took it or it was withdrawn."""
    for index, item in enumerate(scene.items):
        if item["id"] == submission_id:
            return index
    record = scene.tx.submission_candidate(submission_id)
    became = "the run has taken it" if record is not None else "it is settled"
    raise InboxItemGone(f"item {submission_id} is not queued any more: {became}")


def _new_submission(scene: Scene, kind: str, request_id: str | None) -> SubmissionRecord:
    record: dict[str, Any] = {
        "id": scene.tx.mint_id(),
        "conversationId": scene.conversation_id,
        "type": kind,
        "status": "queued",
    }
    if request_id is not None:
        record["requestId"] = request_id
    return record  # type: ignore[return-value]


def _submission(tx: Transaction, submission_id: int) -> SubmissionRecord:
    record = tx.submission_candidate(submission_id)
    if record is None:
        raise LookupError(f"submission {submission_id} was not read before this commit's first write")
    return record


def _append_user(scene: Scene, content: Any) -> int:
    message = {"role": "user", "content": content, "timestamp": scene.kernel.session.now()}
    return scene.tx.append(scene.conversation_id, "pi.user", model=[message])["id"]


def _place_write(scene: Scene, record: SubmissionRecord, entry: dict[str, Any]) -> SubmissionRecord:
    head = entry.get("head")
    if isinstance(head, int) and scene.head is not None and head < scene.head:
        return scene.tx.put_submission({**record, "status": "unanswered", "reason": "stale"})
    written = scene.tx.append(
        scene.conversation_id,
        entry["kind"],
        model=entry.get("model"),
        data=entry.get("data"),
        head=head,
        edits=entry.get("edits"),
    )
    if head is not None:
        scene.head = written["head"]
    return scene.tx.put_submission({**record, "status": "done", "entry": written["id"]})
