"""What a memory store holds when its process dies, and how a batch is checked and applied (spec 4)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from durable_tui.delta import clean_text, dumps
from durable_tui.storage.addresses import Address, address_of, retired_first, wake_at
from durable_tui.storage.errors import StorageRejected
from durable_tui.storage.records import Batch, CommitRow, OwnerRow, Record, RevisionKind


class EncodedRevision(NamedTuple):
    seq: int
    kind: RevisionKind
    version: int
    text: str


FlightKey: TypeAlias = tuple[int, int, int]  # epoch, document, seq


class EncodedFlight(NamedTuple):
    at: int
    kind: RevisionKind
    text: str


@dataclass(slots=True)
class Checked:
    """A batch that will be taken whole: its records as text."""

    batch: Batch
    conversations: dict[int, str]
    entries: dict[int, str]
    submissions: dict[int, str]
    tasks: dict[int, str]
    documents: dict[int, str]
    revisions: list[tuple[int, EncodedRevision, Literal["this", "previous"] | None]]
    flight: dict[FlightKey, EncodedFlight]
    addresses: dict[Address, int | None]


@dataclass(slots=True)
class MemoryState:
    """The stored tables, each record as JSON text, with the indices that reads need."""

    next_id: int = 1
    next_seq: int = 1
    owners: list[OwnerRow] = field(default_factory=list)
    commits: list[CommitRow] = field(default_factory=list)
    conversations: dict[int, str] = field(default_factory=dict)
    entries: dict[int, tuple[str, int]] = field(default_factory=dict)
    submissions: dict[int, str] = field(default_factory=dict)
    tasks: dict[int, str] = field(default_factory=dict)
    documents: dict[int, str] = field(default_factory=dict)
    revisions: dict[int, list[EncodedRevision]] = field(default_factory=dict)
    flight: dict[FlightKey, EncodedFlight] = field(default_factory=dict)
    entry_ids: dict[int, list[int]] = field(default_factory=dict)
    heads: dict[int, list[int]] = field(default_factory=dict)
    requests: dict[tuple[int, str], int] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    wakes: dict[int, int] = field(default_factory=dict)
    addresses: dict[Address, int] = field(default_factory=dict)

    def check(self, batch: Batch) -> Checked:
        """Encode the batch and refuse what no backend takes; changes nothing. Raises StorageRejected."""
        if batch.seq < self.next_seq:
            raise StorageRejected(f"commit {batch.seq} does not follow commit {self.next_seq - 1}; nothing was stored")
        try:
            checked = Checked(
                batch,
                _texts(batch.conversations),
                _texts(batch.entries),
                _texts(batch.submissions),
                _texts(batch.tasks),
                _texts(batch.documents),
                [
                    (r.document_id, EncodedRevision(batch.seq, r.kind, r.version, dumps(r.content)), r.drop_before)
                    for r in batch.revisions
                ],
                {(r.epoch, r.document_id, r.seq): EncodedFlight(r.at, r.kind, dumps(r.content)) for r in batch.flight},
                {},
            )
        except ValueError as error:
            raise StorageRejected(f"a record is not JSON ({error}); nothing was stored") from error
        if len(checked.entries) < len(batch.entries) or not self.entries.keys().isdisjoint(checked.entries):
            raise StorageRejected("an entry id is already taken; nothing was stored")
        if len(checked.flight) < len(batch.flight) or not self.flight.keys().isdisjoint(checked.flight):
            raise StorageRejected("a recorded revision is already there; nothing was stored")
        self._check_requests(batch)
        self._check_documents(batch, checked)
        return checked

    def _check_requests(self, batch: Batch) -> None:
        taken: dict[tuple[int, str], int] = {}
        for record in batch.submissions:
            if "requestId" in record:
                key = (record["conversationId"], clean_text(record["requestId"]))
                if taken.setdefault(key, self.requests.get(key, record["id"])) != record["id"]:
                    raise StorageRejected(f"request id {key[1]!r} is already taken; nothing was stored")

    def _check_documents(self, batch: Batch, checked: Checked) -> None:
        for record in retired_first(batch.documents):
            address = address_of(record["kind"], record["scope"], record.get("key"))
            holder = checked.addresses.get(address, self.addresses.get(address))
            if "retiredAt" in record:
                if holder == record["id"]:
                    checked.addresses[address] = None
            elif holder is None or holder == record["id"]:
                checked.addresses[address] = record["id"]
            else:
                raise StorageRejected(f"document {record['kind']} already lives at its address; nothing was stored")
        seen: set[int] = set()
        for document_id, _, _ in checked.revisions:
            if document_id in seen:
                raise StorageRejected(f"document {document_id} has two revisions in one commit; nothing was stored")
            if document_id not in self.documents and document_id not in checked.documents:
                raise StorageRejected(f"document {document_id} does not exist; nothing was stored")
            seen.add(document_id)

    def apply(self, checked: Checked, epoch: int, next_id: int) -> None:
        """Take a checked batch; cannot fail."""
        batch = checked.batch
        self.next_id, self.next_seq = max(self.next_id, next_id), batch.seq + 1
        self.commits.append(CommitRow(batch.seq, batch.at, epoch))
        self.conversations.update(checked.conversations)
        for entry in batch.entries:
            entry_id, conversation_id = entry["id"], entry["conversationId"]
            self.entries[entry_id] = (checked.entries[entry_id], batch.seq)
            insort(self.entry_ids.setdefault(conversation_id, []), entry_id)
            if "head" in entry:
                insort(self.heads.setdefault(conversation_id, []), entry_id)
        self.submissions.update(checked.submissions)
        for submission in batch.submissions:
            if "requestId" in submission:
                self.requests[submission["conversationId"], clean_text(submission["requestId"])] = submission["id"]
        self.tasks.update(checked.tasks)
        for task in batch.tasks:
            if task["state"]["status"] == "terminal":
                self.live.discard(task["id"])
            else:
                self.live.add(task["id"])
            at = wake_at(task)
            if at is None:
                self.wakes.pop(task["id"], None)
            else:
                self.wakes[task["id"]] = at
        self.documents.update(checked.documents)
        for address, document_id in checked.addresses.items():
            if document_id is None:
                self.addresses.pop(address, None)
            else:
                self.addresses[address] = document_id
        self._apply_revisions(checked)
        self.flight.update(checked.flight)
        if batch.keep_flights is not None:
            newest = sorted({epoch for epoch, _, _ in self.flight}, reverse=True)[: batch.keep_flights]
            self.flight = {key: row for key, row in self.flight.items() if key[0] in newest}

    def _apply_revisions(self, checked: Checked) -> None:
        for document_id, revision, drop_before in checked.revisions:
            held = self.revisions.setdefault(document_id, [])
            if drop_before == "this":
                held.clear()
            elif drop_before == "previous":
                del held[: max((index for index, row in enumerate(held) if row.kind == "base"), default=0)]
            held.append(revision)


def _texts(records: Sequence[Record]) -> dict[int, str]:
    return {record["id"]: dumps(record) for record in records}
