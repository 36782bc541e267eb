"""What the store asks of the disk below it: space, and whether memory can be shared over it (spec 3.6, 4)."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
import tempfile

from durable_tui.storage.errors import StorageRejected

NETWORK = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "drvfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "prl_fs",
        "smb2",
        "smb3",
        "smbfs",
        "v9fs",
        "vboxsf",
        "webdav",
    }
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def free_bytes(path: str) -> int:
    """Bytes this user may still write beside `path`; 0 when nobody can say."""
    try:
        return shutil.disk_usage(os.path.dirname(path) or ".").free
    except OSError:
        return 0


def lacks_space(path: str) -> bool:
    """Whether a small write beside `path` fails for lack of space or quota, tried with a file of its own."""
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(path) or ".") as probe:
            probe.write(b"\0" * 65536)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in _NO_SPACE
    return False


def is_full(error: Exception, path: str) -> bool:
    """Whether `error` is SQLite's and means that there is no space for `path`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and lacks_space(path))


def no_space(path: str, so: str) -> StorageRejected:
    """Return the refusal of a full disk; `so` says what did not happen."""
    return StorageRejected(f"no space left for {path} ({free_bytes(path):,} bytes free); {so}", full=True)


def is_network(path: str) -> bool:
    """Whether `path` lies on a network file system, over which WAL's shared memory does not work."""
    return file_system(path) in NETWORK


def file_system(path: str) -> str:
    """The type of the file system that holds `path`, "" when unknown."""
    best, found = "", ""
    for point, kind in _mounts():
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, kind
    return found


def _mounts() -> list[tuple[str, str]]:
    if sys.platform == "linux":
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
                lines = table.readlines()
        except OSError:
            return []
        rows = []
        for line in lines:
            left, _, right = line.partition(" - ")
            point = left.split()[4]
            for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                point = point.replace(code, char)
            rows.append((point, right.split()[0]))
        return rows
    else:
        import psutil

        return [(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True)]
