"""What must hold of a session's store at every commit. Each function gives a list of sentences, if any.

`check_store` looks at one state through the Reader protocol only; `check_effects` joins it with an effect log;
`check_idle` adds what must hold when nothing more will happen; `check_history` judges a recorded line of commits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_tui.engine.rules import RULES
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import Batch
from tests.tools.effects import UNSAFE, Effect
from tests.tools.folding import BadOp, fold

GENERATION = "pi.generation"
TOOL = "pi.tool"
REASONS = frozenset(
    {
        "aborted",
        "no_model",
        "model_error",
        "reset",
        "stale",
        "faulted",
        "limit",
        "missing_task",
        "task_too_old",
        "migration_failed",
    }
)
VERDICTS = frozenset(
    {
        "restarted",
        "rerun",
        "verified",
        "reattached",
        "interrupted",
        "resent",
        "resumed",
        "woken",
        "blocked",
        "gaveUp",
        "aborted",
    }
)
OUTCOMES = frozenset({"completed", "failed", "aborted", "orphaned", "faulted"})


@dataclass
class State:
    """A whole store, read through the protocol."""

    conversations: dict[int, Any] = field(default_factory=dict)
    entries: dict[int, Any] = field(default_factory=dict)
    entry_seqs: dict[int, int] = field(default_factory=dict)
    submissions: dict[int, Any] = field(default_factory=dict)
    tasks: dict[int, Any] = field(default_factory=dict)
    live_ids: list[int] = field(default_factory=list)
    document_ids: list[int] = field(default_factory=list)
    session_documents: dict[str, Any] = field(default_factory=dict)
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    task_documents: dict[int, list[str]] = field(default_factory=dict)
    seqs: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def live(self, conversation_id: int) -> dict[str, Any]:
        return self.documents.get(conversation_id, {}).get("pi.live") or {}

    def inbox(self, conversation_id: int) -> list[Any]:
        return list((self.documents.get(conversation_id, {}).get("pi.inbox") or {}).get("items", []))

    def is_live(self, task_id: int) -> bool:
        task = self.tasks.get(task_id)
        return task is not None and task["state"]["status"] != "terminal"

    def results(self, conversation_id: int) -> Counter[str]:
        """Result entries by call id."""
        return Counter(
            message["toolCallId"]
            for entry in self.entries.values()
            if entry["conversationId"] == conversation_id
            for message in entry.get("model", [])
            if message.get("role") == "toolResult"
        )


async def read_state(storage: Reader) -> State:
    """Everything the protocol gives, page by page."""
    state = State()
    for record in await _pages(storage.conversations):
        state.conversations[record["id"]] = record
    for conversation_id in state.conversations:
        after = 0
        while page := await storage.entries(conversation_id, after=after, limit=500):
            for stored in page:
                if stored.record["id"] <= after:
                    state.problems.append(f"entry {stored.record['id']}: out of id order")
                after = max(after, stored.record["id"])
                state.entries[stored.record["id"]] = stored.record
                state.entry_seqs[stored.record["id"]] = stored.seq
    for record in await _pages(storage.submissions):
        state.submissions[record["id"]] = record
    for record in await _pages(storage.tasks):
        state.tasks[record["id"]] = record
    state.live_ids = [record["id"] for record in await storage.live_tasks()]
    await _read_documents(storage, state)
    after = 0
    while rows := await storage.commits(after=after, limit=1000):
        state.seqs += [row.seq for row in rows]
        state.epochs += [row.epoch for row in rows]
        if rows[-1].seq <= after:
            break
        after = rows[-1].seq
    return state


async def _pages(read: Any) -> list[Any]:
    found: list[Any] = []
    after = 0
    while page := await read(after=after, limit=500):
        found += page
        if page[-1]["id"] <= after:
            break
        after = page[-1]["id"]
    return found


async def _read_documents(storage: Reader, state: State) -> None:
    scopes: list[tuple[Any, dict[str, Any]]] = [({"kind": "session"}, state.session_documents)]
    for conversation_id in state.conversations:
        into = state.documents.setdefault(conversation_id, {})
        scopes.append(({"kind": "conversation", "conversationId": conversation_id}, into))
    for scope, into in scopes:
        for stored in await storage.documents(scope):
            record = stored.record
            name = record["kind"] if record.get("key") is None else f"{record['kind']}/{record.get('key')}"
            if name in into:
                state.problems.append(f"document {name}: two live ones at one address")
            state.document_ids.append(record["id"])
            try:
                into[name] = fold(stored.base, stored.deltas)
            except BadOp as error:
                state.problems.append(f"document {name}: its ops do not fold: {error}")
    for task_id in state.tasks:
        found = await storage.documents({"kind": "task", "taskId": task_id})
        state.task_documents[task_id] = [stored.record["kind"] for stored in found]
        state.document_ids += [stored.record["id"] for stored in found]
        for stored in found:
            try:
                fold(stored.base, stored.deltas)
            except BadOp as error:
                state.problems.append(f"task {task_id} document {stored.record['kind']}: does not fold: {error}")


async def check_store(storage: Reader) -> list[str]:
    """The invariants of one state."""
    return check_state(await read_state(storage))


def check_state(state: State) -> list[str]:
    found = list(state.problems)
    found += _numbers(state)
    found += _ownership(state)
    found += _tasks(state)
    found += _submissions(state)
    found += _entries(state)
    for conversation_id in state.conversations:
        found += _live(state, conversation_id)
        found += _results(state, conversation_id)
    found += _recovery(state)
    return found


def _numbers(state: State) -> list[str]:
    found = []
    if any(later <= earlier for earlier, later in zip(state.seqs, state.seqs[1:], strict=False)):
        found.append("commits: seqs do not strictly increase")
    if any(later < earlier for earlier, later in zip(state.epochs, state.epochs[1:], strict=False)):
        found.append("commits: an epoch goes back")
    ids = [*state.conversations, *state.entries, *state.submissions, *state.tasks, *state.document_ids]
    found += [f"id {number} is used {count} times" for number, count in Counter(ids).items() if count > 1]
    known = set(state.seqs)
    found += [f"entry {entry}: commit {seq} is unknown" for entry, seq in state.entry_seqs.items() if seq not in known]
    in_order = [state.entry_seqs[entry] for entry in sorted(state.entry_seqs)]
    if any(later < earlier for earlier, later in itertools.pairwise(in_order)):
        found.append("entries: a later id was committed earlier")
    return found


def _ownership(state: State) -> list[str]:
    found = []
    live = sorted(number for number, task in state.tasks.items() if task["state"]["status"] != "terminal")
    if live != state.live_ids:
        found.append(f"the index of live tasks says {state.live_ids}, the records say {live}")
    for number, task in state.tasks.items():
        if task["conversationId"] not in state.conversations:
            found.append(f"task {number}: its conversation does not exist")
        owner = task.get("owner")
        if owner is None:
            continue
        if task["background"]:
            found.append(f"task {number}: background, but owned by a task")
        if owner not in state.tasks:
            found.append(f"task {number}: its owner {owner} does not exist")
        elif state.tasks[owner]["conversationId"] != task["conversationId"]:
            found.append(f"task {number}: its owner {owner} is of another conversation")
        elif state.is_live(number) and not state.is_live(owner):
            found.append(f"task {number}: alive under the ended owner {owner}")
    for number in live:
        if not _reachable(state, number):
            found.append(f"task {number}: alive but reachable from no ownerless conversation")
    return found


def _reachable(state: State, task_id: int) -> bool:
    seen: set[tuple[str, int]] = set()
    here: tuple[str, int] = ("task", task_id)
    while here not in seen:
        seen.add(here)
        kind, number = here
        record = (state.tasks if kind == "task" else state.conversations).get(number)
        if record is None:
            return False
        if kind == "task":
            owner = record.get("owner")
            here = ("task", owner) if owner is not None else ("conversation", record["conversationId"])
        elif "owner" not in record:
            return True
        else:
            here = ("task", record["owner"]["taskId"])
    return False


def _tasks(state: State) -> list[str]:
    found = []
    for number, task in state.tasks.items():
        status = task["state"].get("status")
        if status in ("pending", "running", "waiting"):
            if "phase" not in task["state"].get("checkpoint", {}):
                found.append(f"task {number}: {status} without a checkpoint's phase")
            if "endedAt" in task:
                found.append(f"task {number}: {status}, yet it has ended")
        elif status in ("completing", "terminal"):
            outcome = task["state"].get("outcome", {})
            if outcome.get("status") not in OUTCOMES:
                found.append(f"task {number}: {status} without an outcome")
            if set(task["state"]) - {"status", "outcome"}:
                found.append(f"task {number}: {status} with more than its outcome")
        else:
            found.append(f"task {number}: unknown status {status!r}")
        if status == "terminal":
            if "endedAt" not in task:
                found.append(f"task {number}: terminal without endedAt")
            if state.task_documents.get(number):
                found.append(f"task {number}: terminal with live documents {state.task_documents[number]}")
            if task.get("memos"):
                found.append(f"task {number}: terminal with memos")
        if status == "waiting":
            missing = [other for other in task["state"]["on"] if other not in state.tasks]
            if missing or not task["state"]["on"] or number in task["state"]["on"]:
                found.append(f"task {number}: waits on {task['state']['on']}")
        outcome = task["state"].get("outcome") or {}
        if task["kind"] == GENERATION and outcome.get("status") == "completed":
            calls = [other for other, its in state.tasks.items() if its.get("owner") == number and state.is_live(other)]
            if calls:
                found.append(f"task {number}: went on while its calls {calls} had not ended")
        if "startedAt" in task and "endedAt" in task and task["endedAt"] < task["startedAt"]:
            found.append(f"task {number}: ended before it started")
    return found


def _submissions(state: State) -> list[str]:
    found = []
    queued: Counter[int] = Counter()
    listed: Counter[int] = Counter()
    for conversation_id in state.conversations:
        for item in state.inbox(conversation_id):
            queued[item["id"]] += 1
            record = state.submissions.get(item["id"])
            if record is None or record["conversationId"] != conversation_id:
                found.append(f"conversation {conversation_id}: the inbox holds {item['id']}, no submission of it")
            elif (item["mode"] == "write") != (record["type"] == "write"):
                found.append(f"submission {item['id']}: {record['type']} queued as {item['mode']}")
        for submission_id in state.live(conversation_id).get("run", {}).get("inputs", []):
            listed[submission_id] += 1
            record = state.submissions.get(submission_id)
            if record is None or record["conversationId"] != conversation_id or record["type"] != "input":
                found.append(f"conversation {conversation_id}: the run lists {submission_id}, no input of it")
    requests: Counter[tuple[int, str]] = Counter()
    for number, record in state.submissions.items():
        status = record["status"]
        if "requestId" in record:
            requests[(record["conversationId"], record["requestId"])] += 1
        if (status == "queued") != (queued[number] == 1) or queued[number] > 1:
            found.append(f"submission {number}: {status}, {queued[number]} times in the inbox")
        if (status == "placed") != (listed[number] == 1) or listed[number] > 1:
            found.append(f"submission {number}: {status}, listed {listed[number]} times by a run")
        if status in ("placed", "done") and record.get("entry") not in state.entries:
            found.append(f"submission {number}: {status} without its entry")
        if status == "placed" and record["type"] == "write":
            found.append(f"submission {number}: a write that is placed and not done")
        if status == "queued" and ("entry" in record or "answer" in record):
            found.append(f"submission {number}: queued, but already in the transcript")
        if status == "done" and record["type"] == "input":
            answer = state.entries.get(record.get("answer", 0))
            if answer is None or answer["kind"] != "pi.assistant" or answer["id"] <= record.get("entry", 0):
                found.append(f"submission {number}: done without an answer after its entry")
        if status == "unanswered" and record.get("reason") not in REASONS:
            found.append(f"submission {number}: unanswered for {record.get('reason')!r}")
        if status not in ("queued", "placed", "done", "unanswered"):
            found.append(f"submission {number}: unknown status {status!r}")
    found += [f"request id {request!r}: {count} submissions" for (_, request), count in requests.items() if count > 1]
    placed = Counter(record["entry"] for record in state.submissions.values() if "entry" in record)
    found += [f"entry {entry}: placed by {count} submissions" for entry, count in placed.items() if count > 1]
    return found


def _entries(state: State) -> list[str]:
    found = []
    roles = {"pi.user": "user", "pi.assistant": "assistant", "pi.tool-result": "toolResult", "pi.system": "system"}
    for number, entry in state.entries.items():
        if entry["conversationId"] not in state.conversations:
            found.append(f"entry {number}: its conversation does not exist")
        role = roles.get(entry["kind"])
        if role is not None and [message.get("role") for message in entry.get("model", [])] != [role]:
            found.append(f"entry {number}: a {entry['kind']} that is not one {role} message")
        if "byTaskId" in entry and entry["byTaskId"] not in state.tasks:
            found.append(f"entry {number}: written by an unknown task")
    return found


def _live(state: State, conversation_id: int) -> list[str]:
    """`pi.live` against the tasks: the run, its generation, its slots."""
    found = []
    live = state.live(conversation_id)
    running = [
        number
        for number, task in state.tasks.items()
        if task["conversationId"] == conversation_id
        and task["kind"] == GENERATION
        and task["state"]["status"] in ("pending", "running", "waiting")
    ]
    run = live.get("run")
    where = f"conversation {conversation_id}"
    if len(running) > 1:
        found.append(f"{where}: {len(running)} generations are alive: {running}")
    if run is None:
        if running:
            found.append(f"{where}: generation {running} is alive, but pi.live has no run")
        for key in ("generation", "tools"):
            if live.get(key):
                found.append(f"{where}: pi.live has {key} without a run")
        return found
    if run["taskId"] not in running:
        found.append(f"{where}: the run names task {run['taskId']}, alive are {running}")
    if not run.get("inputs"):
        found.append(f"{where}: a run without an input")
    generation = live.get("generation") or {}
    checkpoint = state.tasks.get(run["taskId"], {}).get("state", {}).get("checkpoint") or {}
    if generation.get("deferred", {}).get("pollAt") != checkpoint.get("pollAt"):
        found.append(
            f"{where}: pi.live has {generation.get('deferred')}, the run {checkpoint.get('pollAt')} to poll at"
        )
    if len({"message", "retry", "deferred"} & set(generation)) > 1:
        found.append(f"{where}: the generation shows more than one of its states: {sorted(generation)}")
    calls = _open_calls(state, conversation_id)
    for slot in live.get("tools", []):
        task_id = slot.get("taskId")
        if slot["callId"] not in calls:
            found.append(f"{where}: a slot for {slot['callId']!r}, which the newest tool turn does not call")
        if slot["status"] not in ("pending", "running", "done"):
            found.append(f"{where}: slot {slot['callId']}: {slot['status']}")
        if task_id is None:
            continue
        task = state.tasks.get(task_id)
        if task is None or task["kind"] != TOOL or task.get("owner") != run["taskId"]:
            found.append(f"{where}: slot {slot['callId']} names task {task_id}, no tool task of the run")
        elif slot["status"] == "done" and task["state"]["status"] not in ("terminal", "completing"):
            found.append(f"{where}: slot {slot['callId']} is done, its task is not")
        elif slot["status"] != "done" and task["state"]["status"] == "terminal":
            found.append(f"{where}: slot {slot['callId']} is {slot['status']}, its task has ended")
        if "entry" in slot and slot["entry"] not in state.entries:
            found.append(f"{where}: slot {slot['callId']} names an unknown entry")
    return found


def _assistants(state: State, conversation_id: int) -> list[Any]:
    return [
        entry
        for number, entry in sorted(state.entries.items())
        if entry["conversationId"] == conversation_id and entry["kind"] == "pi.assistant"
    ]


def _calls(entry: Any) -> list[str]:
    return [
        block["id"]
        for message in entry.get("model", [])
        for block in message.get("content", [])
        if block.get("type") == "toolCall"
    ]


def _open_calls(state: State, conversation_id: int) -> list[str]:
    """The calls of the newest finished assistant message that has some."""
    for entry in reversed(_assistants(state, conversation_id)):
        if entry["model"][0]["stopReason"] not in ("error", "aborted", "deferred") and _calls(entry):
            return _calls(entry)
    return []


def _results(state: State, conversation_id: int) -> list[str]:
    """Calls and their result entries: never two, never one without its call, and one for each that ended."""
    found = []
    counts = state.results(conversation_id)
    where = f"conversation {conversation_id}"
    settled = [
        entry
        for entry in _assistants(state, conversation_id)
        if entry["model"][0]["stopReason"] not in ("error", "aborted", "deferred")
    ]
    called = Counter(call_id for entry in settled for call_id in _calls(entry))
    found += [f"{where}: {count} results for {call!r}" for call, count in counts.items() if count > 1]
    found += [f"{where}: a result for {call!r}, which nobody called" for call in counts if call not in called]
    found += [f"{where}: the call id {call!r} is stored {count} times" for call, count in called.items() if count > 1]
    for number, task in state.tasks.items():
        if task["conversationId"] != conversation_id or task["kind"] != TOOL:
            continue
        outcome = task["state"].get("outcome")
        call_id = task["input"]["callId"]
        if outcome is None:
            if counts[call_id]:
                found.append(f"{where}: {call_id!r} has its result while task {number} is still at work")
        elif outcome["status"] in ("completed", "failed", "aborted"):
            entry_id = (outcome.get("result") or {}).get("entryId")
            entry = state.entries.get(entry_id or 0)
            if entry is None or entry["model"][0].get("toolCallId") != call_id:
                found.append(f"{where}: task {number} ended {outcome['status']} without the result of {call_id!r}")
    cut = {
        task["conversationId"]
        for task in state.tasks.values()
        if (task["state"].get("outcome") or {}).get("status") in ("aborted", "faulted", "orphaned")
    }
    busy = state.live(conversation_id).get("run") is not None
    for entry in settled[:-1] if busy else settled:
        missing = [call for call in _calls(entry) if not counts[call]]
        if missing and conversation_id not in cut and entry["model"][0]["stopReason"] == "toolUse":
            found.append(f"{where}: entry {entry['id']}: no results for {missing}")
    return found


def _recovery(state: State) -> list[str]:
    found = []
    deaths = (state.session_documents.get("dt.recovery") or {}).get("deaths", [])
    seen: set[int] = set()
    for death in deaths:
        for key in ("epoch", "pid", "host", "openedAt", "foundBy", "foundAt", "tasks"):
            if key not in death:
                found.append(f"death of epoch {death.get('epoch')}: no {key}")
        if death.get("epoch") in seen:
            found.append(f"death of epoch {death.get('epoch')}: reported twice")
        seen.add(death.get("epoch", 0))
        if death.get("ended") == "closed":
            ended = [row.get("taskId") for row in death.get("tasks", [])]
            if not ended or ended != death.get("intents") or "end" in death:
                found.append(f"close of epoch {death.get('epoch')}: {ended} are not the effects it ended")
        for row in death.get("tasks", []):
            where = f"recovery row of task {row.get('taskId')}"
            if row.get("taskId") not in state.tasks:
                found.append(f"{where}: unknown task")
            if not row.get("doing") or not row.get("kind"):
                found.append(f"{where}: says nothing")
            if "verdict" in row and (
                row["verdict"] not in VERDICTS or "seq" not in row or row.get("rule") not in RULES
            ):
                found.append(f"{where}: verdict {row.get('verdict')!r} without seq or rule")
            if "seq" in row and row["seq"] not in state.seqs:
                found.append(f"{where}: decided in the unknown commit {row['seq']}")
    return found


async def check_idle(storage: Reader, *, undecided: bool = False) -> list[str]:
    """What must hold when nothing more will happen by itself: no work, no queue left behind, every row decided."""
    state = await read_state(storage)
    found = check_state(state)
    for number in state.live_ids:
        if not state.tasks[number]["background"]:
            found.append(f"task {number}: still {state.tasks[number]['state']['status']} when idle")
    for number, record in state.submissions.items():
        if record["status"] == "placed":
            found.append(f"submission {number}: placed and never settled")
    for conversation_id in state.conversations:
        entries = [e for e in state.entries.values() if e["conversationId"] == conversation_id]
        failed = any(record.get("status") == "unanswered" for record in state.submissions.values())
        waiting = [item["id"] for item in state.inbox(conversation_id) if not item.get("parked")]
        if entries and waiting and not failed:
            found.append(f"conversation {conversation_id}: idle with {waiting} in the inbox")
    deaths = (state.session_documents.get("dt.recovery") or {}).get("deaths", [])
    if deaths and not undecided:
        for row in deaths[-1]["tasks"]:
            if "verdict" not in row:
                found.append(f"recovery row of task {row['taskId']} ({row['doing']}): no verdict when idle")
    return found


async def check_effects(storage: Reader, effects: Iterable[Effect]) -> list[str]:
    """No unsafe effect twice, none without its intent (spec 6.2, 10)."""
    state = await read_state(storage)
    found = []
    counts = Counter((effect.task_id, effect.name) for effect in effects)
    for (task_id, name), count in counts.items():
        task = state.tasks.get(task_id)
        if name in UNSAFE and count > 1:
            found.append(f"task {task_id}: {name} happened {count} times")
        if task is None or task["kind"] != TOOL:
            found.append(f"task {task_id}: {name} happened, but no such tool task is stored")
        elif task["state"].get("checkpoint", {}).get("phase") == "call":
            found.append(f"task {task_id}: {name} happened before its intent was stored")
    return found


def check_history(batches: Sequence[Batch]) -> list[str]:
    """The recorded commits of one session in order: what may never change, and in which direction the rest may."""
    found = []
    order = {"queued": 0, "placed": 1, "done": 2, "unanswered": 2}
    seqs = [batch.seq for batch in batches]
    if any(later <= earlier for earlier, later in itertools.pairwise(seqs)):
        found.append("history: seqs do not strictly increase")
    conversations: dict[int, Any] = {}
    entries: dict[int, Any] = {}
    submissions: dict[int, Any] = {}
    tasks: dict[int, Any] = {}
    for batch in batches:
        where = f"commit {batch.seq}"
        for entry in batch.entries:
            if entry["id"] in entries:
                found.append(f"{where}: entry {entry['id']} is written again")
            if entries and entry["id"] < max(entries):
                found.append(f"{where}: entry {entry['id']} has an older id than one before it")
            entries[entry["id"]] = entry
        for conversation in batch.conversations:
            if conversations.get(conversation["id"], conversation) != conversation:
                found.append(f"{where}: conversation {conversation['id']} changes")
            conversations[conversation["id"]] = conversation
        for submission in batch.submissions:
            before = submissions.get(submission["id"])
            if before is not None and order[submission["status"]] <= order[before["status"]] and before != submission:
                step = f"from {before['status']} to {submission['status']}"
                found.append(f"{where}: submission {submission['id']} goes {step}")
            submissions[submission["id"]] = submission
        for task in batch.tasks:
            known = tasks.get(task["id"])
            if known is not None and known["state"]["status"] == "terminal":
                found.append(f"{where}: the ended task {task['id']} is written again")
            if known is not None and known["abortRequested"] and not task["abortRequested"]:
                found.append(f"{where}: task {task['id']} loses its abort mark")
            tasks[task["id"]] = task
    return found
