"""Commits to a session, flushed and not, and says after each what was acknowledged: power_worker PATH DURABILITY."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, cast

from durable_tui.session import DocumentDefinition, Session
from durable_tui.storage import SqliteStorage

NOTES = DocumentDefinition("test.notes", "session", lambda: {"text": ""})
COMMITS = 60


async def main(path: str, durability: Any) -> None:
    storage = await SqliteStorage.open(path, durability)
    session = await Session.open(storage)
    acknowledged = os.open(path + "-ack", os.O_WRONLY | os.O_CREAT, 0o600)
    for number in range(COMMITS):
        flush = number % 3 == 0
        async with session.commit(flush=flush) as tx:
            tx.append(1, "test.entry", data={"number": number, "text": "x" * (number * 40 % 5000)})
            (await tx.document(NOTES)).value["text"] += f"{number} "
        os.write(acknowledged, f"{session.seq} {int(flush)}\n".encode())
        if number % 20 == 19:
            await storage.checkpoint()
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], cast(Any, sys.argv[2])))
