"""Document definitions and their addresses (spec 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from durable_tui.delta import DraftRoot, FrozenDict, Json, Op, apply_ops, freeze
from durable_tui.session.session_errors import DocumentRefused, TransactionClosed
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import DocumentRecord, Scope, StoredDocument

ScopeKind = Literal["session", "conversation", "task"]
Address = tuple[str, str, int, str | None]
T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class DocumentDefinition(Generic[T]):
    """A kind of document whose value has the shape `T`.

    `initial()` gives the value of a new one; `migrate(value, version)` takes an older value to this version, purely.
    `checkpoint(value, deltas)` asks for a base instead of a delta; `deltas` counts those since the last base.
    `base_bytes` asks for one when the deltas since hold so much text. `keep_previous` keeps what lies between the base
    before and a new one, for those who ask what happened. `history` and `fork` exist on conversation documents only
    (spec 5.3).
    """

    kind: str
    scope: ScopeKind
    initial: Callable[[], T]
    version: int = 1
    history: Literal["latest", "rewindable"] | None = None
    fork: Literal["asOf", "current", "initial"] | None = None
    checkpoint: Callable[[T, int], bool] | None = None
    migrate: Callable[[Json, int], T] | None = None
    base_bytes: int | None = None
    keep_previous: bool = False

    def __post_init__(self) -> None:
        if self.scope != "conversation" and (self.history or self.fork):
            raise ValueError(f"document {self.kind}: history and fork exist on conversation documents only")
        if self.fork == "asOf" and self.history != "rewindable":
            raise ValueError(f"document {self.kind}: fork asOf needs history rewindable")

    def address(self, owner_id: int = 0, key: str | None = None) -> Address:
        if (self.scope == "session") != (owner_id == 0):
            raise ValueError(f"document {self.kind}: a {self.scope} document needs {'no' if owner_id else 'an'} owner")
        return (self.kind, self.scope, owner_id, key)

    def scope_of(self, owner_id: int) -> Scope:
        if self.scope == "session":
            return {"kind": "session"}
        if self.scope == "conversation":
            return {"kind": "conversation", "conversationId": owner_id}
        return {"kind": "task", "taskId": owner_id}


SomeDefinition: TypeAlias = DocumentDefinition[Any]  # for those who take documents of every shape


@dataclass(slots=True, frozen=True)
class DocumentState:
    """A document as committed: its record, the version and value stored, and the deltas since its last base.

    `size` is about how many bytes those of this process hold.
    """

    record: DocumentRecord
    version: int
    value: Any  # of the shape that the kind at its address has
    deltas: int
    size: int = 0


@dataclass(slots=True, frozen=True)
class DocumentChange:
    """One document's part in a commit. `value` is None and `retired` True when it ended."""

    address: Address
    record: DocumentRecord
    ops: Sequence[Op]
    value: Any
    previous: Any
    retired: bool = False
    created: bool = False


def value_of(definition: DocumentDefinition[T], state: DocumentState) -> T:
    """A document's value as its definition has it, migrated when it is older. Raises DocumentRefused (spec 5.4)."""
    if state.version == definition.version:
        return cast(T, state.value)
    name = f"document {definition.kind}"
    if state.version > definition.version:
        raise DocumentRefused(
            f"{name} is stored with version {state.version}; this program knows version {definition.version}"
        )
    if definition.migrate is None:
        raise DocumentRefused(f"{name} is stored with version {state.version} and cannot be migrated")
    return freeze(definition.migrate(state.value, state.version))


class DocumentDraft(Generic[T]):
    """A document inside a transaction: read and change `.value`; `retire()` ends this incarnation."""

    __slots__ = ("_retired", "_root", "definition", "key", "migrated", "owner_id", "state")

    def __init__(
        self, definition: DocumentDefinition[T], owner_id: int, key: str | None, state: DocumentState | None, base: T
    ) -> None:
        self.definition = definition
        self.owner_id = owner_id
        self.key = key
        self.state = state
        self.migrated = state is not None and state.version < definition.version
        self._root = DraftRoot(base)
        self._retired = False

    @property
    def value(self) -> T:
        if self._retired:
            raise TransactionClosed(f"document {self.definition.kind} was retired in this commit")
        return cast(T, self._root.value)

    @value.setter
    def value(self, value: T) -> None:
        if self._retired:
            raise TransactionClosed(f"document {self.definition.kind} was retired in this commit")
        self._root.value = value

    @property
    def retired(self) -> bool:
        return self._retired

    def retire(self) -> None:
        self._retired = True

    def seal(self) -> tuple[Json, Sequence[Op]]:
        return self._root.seal()

    def close(self) -> None:
        self._root.close()


def empty_object() -> FrozenDict:
    """The initial value of a document whose shape requires nothing."""
    return FrozenDict()


def folded(stored: StoredDocument) -> Json:
    """The value of a document as it is stored: its newest base with the deltas after it."""
    value = stored.base
    for ops in stored.deltas:
        value = apply_ops(value, ops)
    return value


async def stored_value(storage: Reader, definition: DocumentDefinition[T], owner_id: int = 0) -> T | None:
    """The value of a live document for who only reads the store, as it was stored; None when there is none."""
    stored = await storage.document(definition.kind, definition.scope_of(owner_id))
    return cast(T, folded(stored)) if stored is not None else None
