"""One process owns a store: an OS lock on `NAME.lock` that dies with the process (spec 4.2).

The kernel's lock decides, never the file's content, which only tells a second opener who the first one is. The lock is
an flock on a descriptor that is not inherited by programs started here and is closed in forked children.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import weakref
from typing import cast

from durable_tui.storage.errors import LockHolder, SessionLocked, StorageError
from durable_tui.storage.records import OwnerRow

_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()

# A look at the lock by another process holds it for microseconds: a busy lock is asked again for this long.
PATIENCE = 0.3


def resolve(path: str | os.PathLike[str]) -> str:
    """Return the one name of a session: through symbolic links, so that every way to a file meets the same lock."""
    return os.path.realpath(os.fspath(path))


def sibling(path: str, suffix: str) -> str:
    """`NAME.lock` or `NAME.files` for the session file at the resolved `path`."""
    return path.removesuffix(".sqlite") + suffix


class OwnerLock:
    """The held lock of one session. `release()` frees it; so does the end of the process, however it ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def acquire(cls, path: str, owner: OwnerRow, *, label: str) -> OwnerLock:
        """Take the lock file at `path` for `owner`; blocks up to PATIENCE seconds.

        Raises SessionLocked with the holder, or StorageError when the lock cannot be used at all.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StorageError(_unusable(path, label, error)) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The former owner removes the file while it holds it: a lock on a removed file is none.
                if _same_file(descriptor, path):
                    _describe(descriptor, owner)
                    return cls(path, descriptor)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN):
                    os.close(descriptor)
                    raise StorageError(_unusable(path, label, error)) from error
                holder = _read(descriptor)
                if time.monotonic() >= until:
                    os.close(descriptor)
                    raise SessionLocked(_locked(label, holder), holder) from None
            os.close(descriptor)
            time.sleep(0.02)

    def release(self) -> None:
        """Remove the lock file and free the lock. Idempotent."""
        if self._descriptor is not None:
            try:
                if _same_file(self._descriptor, self.path):
                    os.unlink(self.path)
            except OSError:
                pass  # a folder that became unwritable: the file stays, the lock goes
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def owner_of(path: str | os.PathLike[str]) -> LockHolder | None:
    """Return who owns the session file at `path` now, {} when it does not say.

    None when no live process does. Only looks; never creates or keeps anything.
    """
    try:
        descriptor = os.open(sibling(resolve(path), ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return {}
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _same_file(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _describe(descriptor: int, owner: OwnerRow) -> None:
    content: LockHolder = {
        "pid": owner.pid,
        "host": owner.host,
        "startedAt": owner.opened_at,
        "bootId": owner.boot_id,
        "processStartedAt": owner.process_started_at,
    }
    data = json.dumps(content).encode()
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    except OSError:
        pass  # a full disk: the lock is held all the same, only nobody learns by whom


def _read(descriptor: int) -> LockHolder:
    for _ in range(5):
        try:
            content = json.loads(os.pread(descriptor, 4096, 0))
        except (OSError, ValueError):
            time.sleep(0.01)
            continue
        return cast(LockHolder, content) if isinstance(content, dict) else {}
    return {}


def _locked(label: str, holder: LockHolder) -> str:
    if not isinstance(holder.get("pid"), int):
        return f"{label} is open in another process"
    since = ""
    if isinstance(holder.get("startedAt"), int):
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(holder["startedAt"] / 1000))
    return f"{label} is open in pid {holder['pid']} on {holder.get('host', 'another host')}{since}"


def _unusable(path: str, label: str, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission to write {path}; {label} can only be opened read-only"
    return f"{path} cannot be locked ({os.strerror(error.errno or 0)})"


def _close_in_child() -> None:
    for lock in list(_held):
        lock._close()


os.register_at_fork(after_in_child=_close_in_child)
