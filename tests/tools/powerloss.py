"""What a power cut would leave of the files a process wrote: everything synced, and any part of the rest.

    log = record(worker_arguments, folder)     # runs the worker under the recorder
    for cut in ...: restore(log[:cut], rng)    # path → bytes after a cut there

Folder entries (creation, rename, removal) count as durable at once, as on a journaling file system.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
HEAD = struct.Struct("<4Q")
SECTOR = 512


@dataclass(frozen=True)
class Event:
    """One recorded call. `kind`: W write, S sync, T truncate, R rename (data is the new path), U unlink."""

    kind: str
    path: str
    offset: int
    data: bytes


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)


def build(folder: Path) -> Path:
    """Compile the recorder; raises when there is no C compiler, which the crash group needs."""
    library = folder / "powerlog.so"
    source = HERE / "powerlog.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def record(arguments: list[str], folder: Path, match: str) -> list[Event]:
    """Run `python ARGUMENTS` under the recorder and read what it wrote to paths that contain `match`."""
    log = folder / "power.log"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build(folder)),
        "POWERLOG": str(log),
        "POWERLOG_MATCH": match,
        "PYTHONPATH": str(HERE.parent.parent),
    }
    subprocess.run([sys.executable, *arguments], check=True, env=environment, timeout=120)
    return _parse(log.read_bytes())


def _parse(data: bytes) -> list[Event]:
    events: list[Event] = []
    at = 0
    while at < len(data):
        kind, path_length, offset, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        path = data[at : at + path_length].decode()
        at += path_length
        events.append(Event(chr(kind), path, offset, data[at : at + size]))
        at += size
    return events


def restore(events: list[Event], rng: random.Random) -> dict[str, bytes]:
    """The files after a cut at the end of `events`: unsynced writes survive at random, by sectors, in any order."""
    files: dict[str, _File] = {}
    for event in events:
        if event.kind == "R":
            moved = files.pop(event.path, None)
            if moved is not None:
                files[event.data.decode()] = moved
            continue
        if event.kind == "U":
            files.pop(event.path, None)
            continue
        file = files.setdefault(event.path, _File())
        if event.kind == "S":
            for pending in file.pending:
                _apply(file.durable, pending)
            file.pending.clear()
        else:
            file.pending.append(event)
    return {path: _survivor(file, rng) for path, file in files.items()}


def _survivor(file: _File, rng: random.Random) -> bytes:
    content = bytearray(file.durable)
    chance = rng.choice((0.0, 0.5, 0.9, 1.0))
    for event in file.pending:
        if event.kind == "T":
            if rng.random() < chance:
                _apply(content, event)
            continue
        for start in range(0, len(event.data), SECTOR):
            if rng.random() < chance:
                piece = event.data[start : start + SECTOR]
                _apply(content, Event("W", event.path, event.offset + start, piece))
    return bytes(content)


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "T":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    if len(content) < event.offset:
        content.extend(bytes(event.offset - len(content)))
    content[event.offset : event.offset + len(event.data)] = event.data
