"""Blocking file work of the local environment. Each function is called in a thread and raises EnvironmentFailed."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Literal

from durable_tui.environment.base import EnvironmentFailed, FileInfo

_CHUNK = 1 << 20
_TEMPORARY = re.compile(r"\.durable-tui-[0-9a-f]{32}\.tmp")

_REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EISDIR: "is a directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ELOOP: "too many symbolic links",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be too large",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "too many open files",
    errno.EAGAIN: "nothing can be read from it now",
}


class _Cancelled(Exception):
    """The writer was asked to stop before it replaced the file."""


def reason(error: OSError) -> str:
    """A system error in plain words."""
    return _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()


def refusal(path: str, error: OSError | ValueError) -> EnvironmentFailed:
    if isinstance(error, OSError):
        return EnvironmentFailed(f"{path}: {reason(error)}")
    return EnvironmentFailed(f"{path!r} is no valid path")  # holds NUL or half a surrogate pair


def resolve(cwd: str, path: str) -> str:
    """Absolute, `~` expanded, without `.` and doubled slashes. `..` stays: what it means depends on links."""
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)
    parts = os.path.join(cwd, path).split("/")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def kind_of(mode: int) -> Literal["file", "directory", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def describe(mode: int) -> str:
    """Return what a thing is that is no regular file."""
    for test, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return name
    return "no regular file"


def stat_path(path: str) -> FileInfo | None:
    """None when nothing is there, also behind a dangling link or below a file."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise refusal(path, error) from None
    return FileInfo(
        path=os.path.realpath(path),
        kind=kind_of(found.st_mode),
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        inode=found.st_ino,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
        links=found.st_nlink,
    )


def read_bytes(path: str, offset: int, limit: int | None) -> bytes:
    try:
        mode = os.stat(path).st_mode  # before opening: opening a pipe or a device may block or have effects
        if not stat.S_ISREG(mode):
            raise EnvironmentFailed(f"{path} is {describe(mode)}, not a file")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise EnvironmentFailed(f"{path} is {describe(mode)}, not a file")
            if offset:
                file.seek(offset)
            pieces: list[bytes] = []
            left = limit
            while left is None or left > 0:
                piece = file.read(_CHUNK if left is None else min(left, _CHUNK))
                if piece is None:
                    raise OSError(errno.EAGAIN, "")
                if not piece:
                    break
                pieces.append(piece)
                left = None if left is None else left - len(piece)
            return b"".join(pieces)
    except (OSError, ValueError) as error:
        raise refusal(path, error) from None


def list_names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError) as error:
        raise refusal(path, error) from None


def write_atomic(path: str, content: bytes, cancelled: threading.Event) -> None:
    """Put `content` in place of the file at `path` in one step: readers and a crash see the old or the new file, whole.

    Symbolic links are followed (a dangling one gets its target made), mode, owner and extended attributes are kept, a
    new file's mode follows the umask, missing parents are made, file and directory are flushed. Another hard link of
    the file keeps the old content: a replacement in one step cannot reach it. A read-only file is refused.

    A kill between the last two steps, naming the new file and renaming it, can leave the temporary name; the next write
    in that directory removes it.
    """
    target = path
    replaced = False
    try:
        target = os.path.realpath(path)
        before = _existing(target)
        folder = os.path.dirname(target)
        _make_folders(folder)
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sweep(folder_fd)
            _replace(folder_fd, os.path.basename(target), content, before, target, cancelled)
            replaced = True
            _flush(folder_fd)
        finally:
            os.close(folder_fd)
    except _Cancelled:
        return
    except OSError as error:
        if replaced:
            raise EnvironmentFailed(f"{path} was written, but its directory not flushed: {reason(error)}") from None
        intact = "; its old content is intact" if os.path.lexists(target) else ""
        raise EnvironmentFailed(f"cannot write {path}: {reason(error)}{intact}") from None
    except ValueError as error:
        raise refusal(path, error) from None


def _existing(target: str) -> os.stat_result | None:
    try:
        found = os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "")  # realpath leaves a link only where links form a circle
    if not stat.S_ISREG(found.st_mode):
        raise EnvironmentFailed(f"cannot write {target}: it is {describe(found.st_mode)}, not a file")
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "")
    return found


def _make_folders(folder: str) -> None:
    """Make what is missing, each flushed into its parent."""
    missing = []
    while not os.path.isdir(folder):
        if os.path.lexists(folder):
            raise EnvironmentFailed(f"{folder} is a file, not a directory")
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            continue  # another writer was faster
        parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _flush(parent)
        finally:
            os.close(parent)


def _replace(
    folder_fd: int,
    name: str,
    content: bytes,
    before: os.stat_result | None,
    target: str,
    cancelled: threading.Event,
) -> None:
    temporary = f".durable-tui-{uuid.uuid4().hex}.tmp"
    descriptor, named = _open_temporary(folder_fd, temporary, 0o666 if before is None else 0o600)
    try:
        _fill(descriptor, content, cancelled)
        if before is not None:
            _keep_attributes(descriptor, target, before)
        os.fsync(descriptor)
        if cancelled.is_set():
            raise _Cancelled
        if not named:
            # the flag behind dst_dir_fd makes link() follow the descriptor's magic link
            os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=folder_fd)
            named = True
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        if named:
            _remove(temporary, folder_fd)
        raise
    finally:
        os.close(descriptor)  # not before the rename: its lock says that the temporary name has an owner


def _open_temporary(folder_fd: int, name: str, mode: int) -> tuple[int, bool]:
    """A new, locked file to fill, nameless where the system can: a kill while it fills then leaves nothing behind.

    Says whether it has the name. The lock goes with the descriptor or the process; see _sweep.
    """
    nameless = getattr(os, "O_TMPFILE", 0)
    if nameless and os.path.exists("/proc/self/fd"):
        try:
            descriptor = os.open(".", os.O_WRONLY | nameless | os.O_CLOEXEC, mode, dir_fd=folder_fd)
            _lock(descriptor)
            return descriptor, False
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(name, flags, mode, dir_fd=folder_fd)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, True
        os.close(descriptor)  # swept away before it was locked


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock a temporary file. False when another has it, or (both sides see the same) where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _sweep(folder_fd: int) -> None:
    """Remove temporary names whose writer is dead: nobody holds their lock any more."""
    try:
        found = [name for name in os.listdir(folder_fd) if _TEMPORARY.fullmatch(name)]
    except OSError:
        return  # a directory that cannot be listed can still be written to
    for name in found:
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        except OSError:
            continue  # gone, or another user's
        try:
            if _lock(descriptor, wait=False):
                _remove(name, folder_fd)
        finally:
            os.close(descriptor)


def _fill(descriptor: int, content: bytes, cancelled: threading.Event) -> None:
    view = memoryview(content)
    while view:
        if cancelled.is_set():
            raise _Cancelled
        view = view[os.write(descriptor, view[:_CHUNK]) :]


def _keep_attributes(descriptor: int, target: str, before: os.stat_result) -> None:
    """Owner and extended attributes where allowed, then the mode (changing the owner would clear its set-id bits)."""
    mode = stat.S_IMODE(before.st_mode)
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid) and not _allowed(
        lambda: os.fchown(descriptor, before.st_uid, before.st_gid)
    ):
        mode &= 0o777  # set-id bits must not pass to another owner
    if sys.platform == "linux":
        _allowed(lambda: _copy_extended(descriptor, target))
    os.fchmod(descriptor, mode)


def _copy_extended(descriptor: int, target: str) -> None:
    if sys.platform == "linux":
        for attribute in os.listxattr(target):
            os.setxattr(descriptor, attribute, os.getxattr(target, attribute))


def _allowed(action: Callable[[], None]) -> bool:
    """Do it, unless the system does not let us."""
    try:
        action()
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA, errno.EINVAL):
            raise
        return False
    return True


def _remove(name: str, folder_fd: int) -> None:
    try:
        os.unlink(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return  # renamed or swept meanwhile


def _flush(folder_fd: int) -> None:
    try:
        os.fsync(folder_fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush a directory
            raise
