"""The entries committed lately, so that a running conversation need not read them back (spec 9, 10)."""

from __future__ import annotations

from collections import OrderedDict

from durable_tui.session import Commit, Session
from durable_tui.storage.records import EntryRecord

KEPT = 512


class RecentEntries:
    """Finds committed entries, from memory when they are recent."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._entries: OrderedDict[int, EntryRecord] = OrderedDict()
        session.observe(self._observe)

    def get(self, entry_id: int) -> EntryRecord | None:
        """An entry, when it is in memory."""
        return self._entries.get(entry_id)

    async def find(self, entry_id: int) -> EntryRecord | None:
        """An entry from memory or from the store, which is remembered then."""
        known = self._entries.get(entry_id)
        if known is None:
            stored = await self._session.storage.entry(entry_id)
            if stored is None:
                return None
            known = stored.record
            self._remember(known)
        return known

    def _observe(self, commit: Commit) -> None:
        for entry in commit.entries:
            self._remember(entry)

    def _remember(self, entry: EntryRecord) -> None:
        self._entries[entry["id"]] = entry
        if len(self._entries) > KEPT:
            self._entries.popitem(last=False)
