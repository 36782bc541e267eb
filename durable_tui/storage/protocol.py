"""What every backend promises: atomic batches, ids and seqs of its own, detached reads, reads after commit (spec 4)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from durable_tui.storage.records import (
    Batch,
    CommitRow,
    ConversationRecord,
    EntryRecord,
    FlightRow,
    Liveness,
    OwnerRow,
    Scope,
    StoredDocument,
    StoredEntry,
    StoredRevision,
    SubmissionRecord,
    TaskRecord,
)

Durability: TypeAlias = Literal["intents", "process", "power"]
"""Which commits wait for the disk: those of spec 4.1, only openings and closings, or all (spec 4)."""


@runtime_checkable
class Reader(Protocol):
    """One session's store, to read from, whoever owns it. Every async method may be awaited from one loop only."""

    @property
    def read_only(self) -> bool: ...

    @property
    def label(self) -> str:
        """A name for messages: the path, or "memory"."""

    @property
    def files(self) -> str | None:
        """The folder `NAME.files` for output of commands, or None where there is none."""

    @property
    def warnings(self) -> list[str]:
        """What a person should know about this opening, as sentences."""

    async def close(self) -> None:
        """Release the store; an owner marks its opening closed in order first, flushed. Idempotent."""

    async def conversation(self, conversation_id: int) -> ConversationRecord | None: ...

    async def conversations(self, *, after: int = 0, limit: int = 1000) -> list[ConversationRecord]: ...

    async def entry(self, entry_id: int) -> StoredEntry | None: ...

    async def entries(
        self,
        conversation_id: int,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 1000,
        reverse: bool = False,
    ) -> list[StoredEntry]:
        """Entries with after < id < before, in id order (newest first with `reverse`), at most `limit`."""

    async def newest_head(self, conversation_id: int, *, upto: int | None = None) -> EntryRecord | None:
        """The newest entry with a `head` and id <= upto (spec 11)."""

    async def submission(self, submission_id: int) -> SubmissionRecord | None: ...

    async def submission_by_request(self, conversation_id: int, request_id: str) -> SubmissionRecord | None: ...

    async def submissions(
        self, conversation_id: int | None = None, *, status: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[SubmissionRecord]: ...

    async def task(self, task_id: int) -> TaskRecord | None: ...

    async def tasks(
        self, conversation_id: int | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[TaskRecord]: ...

    async def live_tasks(self) -> list[TaskRecord]:
        """All tasks that are not terminal, by index, in id order."""

    async def least_wake(self) -> int | None:
        """Return when the first time gate of any task opens, in milliseconds, by index; None without one (spec 6.12)."""

    async def document(self, kind: str, scope: Scope, key: str | None = None) -> StoredDocument | None:
        """The live (not retired) document at an address."""

    async def documents(self, scope: Scope) -> list[StoredDocument]:
        """The live documents of one scope, in id order."""

    async def document_as_of(self, document_id: int, seq: int) -> StoredDocument | None:
        """A document as it stood after commit `seq`; for `latest` ones only as far as revisions remain."""

    async def documents_as_of(self, scope: Scope, seq: int) -> list[StoredDocument]:
        """Return the documents of one scope that were live after commit `seq`, as they stood then, in id order.

        One that was made later is left out, one that was retired later is not. Left out too is a `latest` one whose
        revisions from then are dropped.
        """

    async def revisions(self, document_id: int, *, bases: int = 1) -> list[StoredRevision]:
        """Return a document's newest base and the deltas after it, in order; [] when it is not known.

        With more `bases`, everything from an earlier base on, so many counted from the newest, as far as they remain.
        """

    async def flight(self, epoch: int) -> list[FlightRow]:
        """Return what the flight recorder kept of the end of an opening, by document and seq; [] when nothing."""

    async def commits(
        self, *, after: int = 0, before: int | None = None, limit: int = 1000, reverse: bool = False
    ) -> list[CommitRow]: ...

    async def owners(self, *, limit: int = 200) -> list[OwnerRow]:
        """The newest openings, oldest first; this opening is the last."""

    async def poll_seq(self) -> int:
        """The newest stored seq, cheaply; for one that follows another owner."""


class Follower(Reader, Protocol):
    """A reader beside whoever owns the session."""

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Every read inside sees the same commits, however many are made meanwhile. For short looks, one at a time.

        Raises SnapshotLost when that cannot be kept up.
        """


@runtime_checkable
class Owner(Reader, Protocol):
    """The one opening of a session's store that may write to it (spec 4.2)."""

    @property
    def epoch(self) -> int:
        """The number of this opening (spec 4.2)."""

    @property
    def previous(self) -> OwnerRow | None:
        """The opening before this one."""

    @property
    def former_owner(self) -> Liveness:
        """Whether anything of `previous` may still be at work outside the store (spec 4.2).

        "dead": surely not, for it closed in order, its process is gone from this host, or there was none. "alive": its
        process is. "unknown": nobody here can say.
        """

    def mint_id(self) -> int:
        """A fresh id, never handed out again once a batch holding a later or equal id was committed. The first is 1."""

    def mint_seq(self) -> int:
        """The seq for the batch being prepared; strictly increasing, gaps allowed."""

    async def commit(self, batch: Batch) -> None:
        """Store the batch as one transaction, or raise StorageRejected, StorageUncertain or Fenced.

        Cancelling the caller does not interrupt it: the outcome is awaited first (spec 3.5). The CancelledError then
        means that the batch is stored, or has the failure as its `__cause__`.
        """

    async def abandon(self) -> None:
        """Release the store without the close mark, as a death would leave it (a poisoned session; spec 15)."""

    async def checkpoint(self) -> None:
        """Tidy up while nothing happens, so that no commit has to (SQLite: a passive WAL checkpoint)."""
