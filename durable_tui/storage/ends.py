"""How a process that owned a session ended, told in a file by the launcher that saw it (spec 17.1, 17.4).

Standard library only and cheap to import: the launcher writes the file, the next opening reads it and takes it away.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard

FOLDER = "ends"  # in NAME.files
LIMIT = 4096  # bytes of one file
MOST = 100  # files looked at
_NAME = re.compile(r"([1-9][0-9]{0,17})\.json", re.ASCII)
_HALF_WRITTEN = re.compile(r"[1-9][0-9]{0,17}\.json\.[0-9]{1,10}", re.ASCII)
_SIGNAL = re.compile(r"SIG[A-Z0-9+]{1,20}|signal [0-9]{1,3}", re.ASCII)


class LauncherEnd(TypedDict):
    """What a launcher saw: the `signal` that ended the process, by name, or the `status` it ended with, and when."""

    by: Literal["launcher"]
    signal: NotRequired[str]
    status: NotRequired[int]
    at: int


@dataclass(slots=True)
class Ends:
    """What was found in the folder: the ends by epoch, the files of launchers, and sentences about broken ones."""

    by_epoch: dict[int, LauncherEnd] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def end_path(files: str, epoch: int) -> str:
    """The file that tells how the opening `epoch` ended; `files` is the session's folder `NAME.files`."""
    return os.path.join(files, FOLDER, f"{epoch}.json")


def write_end(path: str, end: LauncherEnd) -> None:
    """Put the file in place whole. Raises OSError; makes the session's folder, but no folder above that."""
    folder, name = os.path.split(path)
    for made in (os.path.dirname(folder), folder):
        with contextlib.suppress(FileExistsError):
            os.mkdir(made, 0o700)
    temporary = f"{name}.{os.getpid()}"
    with _opened(folder) as ends:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=ends
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(end).encode())
            os.rename(temporary, name, src_dir_fd=ends, dst_dir_fd=ends)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=ends)
            raise


def read_ends(files: str) -> Ends:
    """What launchers have told. A broken file is a problem and no error; touches files: call it in a thread."""
    found = Ends()
    folder = os.path.join(files, FOLDER)
    with contextlib.suppress(OSError), _opened(folder) as ends:
        for name in sorted(os.listdir(ends))[:MOST]:
            match = _NAME.fullmatch(name)
            if match is None and _HALF_WRITTEN.fullmatch(name) is None:
                continue  # somebody else's
            found.names.append(name)
            if match is None:
                continue  # a launcher that was killed while it wrote
            try:
                found.by_epoch[int(match[1])] = _checked(_content(name, ends))
            except (OSError, ValueError) as error:
                path = os.path.join(folder, name)
                found.problems.append(f"{path} does not tell how the program ended ({error}); it was ignored")
    return found


def remove_ends(files: str, found: Ends) -> None:
    """Take away what was read, and the folders that are empty then. Raises nothing; call it in a thread."""
    with contextlib.suppress(OSError), _opened(os.path.join(files, FOLDER)) as ends:
        for name in found.names:
            for remove in (os.unlink, os.rmdir):
                with contextlib.suppress(OSError):
                    remove(name, dir_fd=ends)
    for folder in (os.path.join(files, FOLDER), files):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    """The folder itself as a descriptor: whatever a link in its place leads to is nobody's business here."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _content(name: str, folder: int) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no file")
        data = os.read(descriptor, LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > LIMIT:
        raise ValueError(f"it has more than {LIMIT} bytes")
    return data


def _checked(data: bytes) -> LauncherEnd:
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(value, dict) or value.get("by") != "launcher" or not _is_count(value.get("at"), 1 << 53):
        raise ValueError("it names no launcher and time")
    end: LauncherEnd = {"by": "launcher", "at": value["at"]}
    signal, status = value.get("signal"), value.get("status")
    if isinstance(signal, str) and _SIGNAL.fullmatch(signal) and status is None:
        end["signal"] = signal
    elif _is_count(status, 256) and signal is None:
        end["status"] = status
    else:
        raise ValueError("it names no signal and no status")
    return end


def _is_count(value: object, limit: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit
