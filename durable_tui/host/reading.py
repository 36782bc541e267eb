"""Facts of a session file, read without owning it, through a Reader only (spec 4.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.storage.errors import StorageDamaged, StorageError, StorageForeign, StorageNewer
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import ROOT, StoredEntry

if TYPE_CHECKING:
    from durable_tui.agent.shapes import SessionFacts
    from durable_tui.host.session_facts import Facts, Unreadable
    from durable_tui.models.messages import UsageTable

PAGE = 500


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[Reader]:
    """The store of a session, read-only and closed at the end. Raises what the storage raises."""
    from durable_tui.storage import SqliteReader

    storage = await SqliteReader.open(path)
    try:
        yield storage
    finally:
        await storage.close()


async def all_entries(storage: Reader, conversation_id: int) -> AsyncIterator[StoredEntry]:
    """The entries of a conversation in id order, page by page; no cursor stays open between pages."""
    after = 0
    while True:
        page = await storage.entries(conversation_id, after=after, limit=PAGE)
        for entry in page:
            yield entry
        if len(page) < PAGE:
            return
        after = page[-1].record["id"]


async def facts(path: Path) -> Facts | Unreadable:
    """Return the facts a listing shows of one session, without its state: that depends on who lives (see `catalogue`)."""
    try:
        async with reading(path) as storage:
            found = await _facts(storage)
            if storage.warnings:  # the one thing a reader is warned of: a newer schema, which is only read
                found["newer"] = storage.warnings[0]
            return found
    except StorageNewer as error:
        return {"problem": "newer", "message": str(error)}
    except (StorageDamaged, StorageForeign, StorageError) as error:
        return {"problem": "damaged", "message": str(error)}


async def _facts(storage: Reader) -> Facts:
    from durable_tui.agent.documents import AGENT, INBOX, SESSION, USAGE
    from durable_tui.models.usage import total_usage
    from durable_tui.session import stored_value

    session: SessionFacts = await stored_value(storage, SESSION) or {"cwd": "", "createdAt": 0}
    newest = await storage.commits(limit=1, reverse=True)
    owners = await storage.owners(limit=1)
    updated_at = newest[0].at if newest else session["createdAt"]
    found: Facts = {
        "cwd": session["cwd"],
        "createdAt": session["createdAt"] or (owners[0].opened_at if owners else updated_at),
        "updatedAt": updated_at,
        "unfinished": len(await storage.live_tasks()),
        "queued": 0,
    }
    title = session.get("title") or await _first_words(storage)
    if title:
        found["title"] = title
    model = (await stored_value(storage, AGENT, ROOT) or {}).get("model")
    if model is not None:
        found["model"] = f"{model['provider']}/{model['modelId']}"
    tables: list[UsageTable | None] = []
    for conversation in await storage.conversations():
        inbox = await stored_value(storage, INBOX, conversation["id"])
        found["queued"] += len(inbox["items"]) if inbox is not None else 0
        table = await stored_value(storage, USAGE, conversation["id"])
        tables.append(table)
    usage = total_usage(tables)
    if any(usage.values()):
        found["usage"] = usage
    if owners and owners[-1].closed_at is None:
        owner = owners[-1]
        found["opening"] = {
            "epoch": owner.epoch, "pid": owner.pid, "host": owner.host, "bootId": owner.boot_id,
            "startedAt": owner.process_started_at, "openedAt": owner.opened_at,
        }  # fmt: skip
    return found


async def _first_words(storage: Reader) -> str | None:
    """The beginning of the first input: what an untitled session is called."""
    from durable_tui.models.messages import message_text

    for entry in await storage.entries(ROOT, limit=20):
        if entry.record["kind"] == "pi.user":
            for message in entry.record.get("model") or ():
                return short_title(message_text(message)) or None
    return None


def short_title(text: str, width: int = 60) -> str:
    """The first line of a text, cut to `width` characters."""
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    line = "".join(character if character.isprintable() else " " for character in line)
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
