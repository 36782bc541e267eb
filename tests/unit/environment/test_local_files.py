"""Files of the local environment: spec 10, cases T33, T35, T36, T37."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from durable_tui.environment import EnvironmentFailed, EnvironmentScope, LocalEnvironment, files
from tests.tools.waiting import a_while


def at(path: Path) -> LocalEnvironment:
    return LocalEnvironment.at(str(path))


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_a_scope_and_a_plain_directory_give_the_same_place(tmp_path: Path) -> None:
    left = LocalEnvironment.at(EnvironmentScope(str(tmp_path)))
    right = LocalEnvironment.at(str(tmp_path))
    assert (left.cwd, left.id) == (right.cwd, right.id) == (str(tmp_path), left.id)
    assert left.id.startswith("local:")


def test_resolve_keeps_dotdot_and_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    environment = at(tmp_path)
    assert environment.resolve("./a//b") == f"{tmp_path}/a/b"
    assert environment.resolve("link/../x") == f"{tmp_path}/link/../x"
    assert environment.resolve("/etc/./hosts") == "/etc/hosts"
    assert environment.resolve("~/x") == os.path.expanduser("~/x")


async def test_stat_tells_kinds_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.link(tmp_path / "file", tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    environment = at(tmp_path)
    info = await environment.stat("link")
    assert info is not None
    assert (info.kind, info.size, info.path, info.links) == ("file", 3, str(tmp_path / "file"), 2)
    directory, pipe = await environment.stat("."), await environment.stat("pipe")
    assert directory is not None and directory.kind == "directory"
    assert pipe is not None and pipe.kind == "other"
    assert await environment.stat("dangling") is None
    assert await environment.stat("file/below") is None
    assert await environment.stat("missing") is None


async def test_t33_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    environment = at(tmp_path)
    threads = threading.active_count()
    for path, what in (("pipe", "named pipe"), ("/dev/zero", "device"), (".", "directory")):
        started = time.monotonic()
        with pytest.raises(EnvironmentFailed, match=what):
            await environment.read_bytes(path)
        assert time.monotonic() - started < 0.2
    # the executor's idle threads may have been started, none is stuck in an open()
    assert threading.active_count() <= threads + 3
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 5) == 1


async def test_read_takes_a_window(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    environment = at(tmp_path)
    assert await environment.read_bytes("f") == b"0123456789"
    assert await environment.read_bytes("f", offset=3, limit=4) == b"3456"
    assert await environment.read_bytes("f", offset=8, limit=100) == b"89"
    assert await environment.read_bytes("f", offset=50) == b""
    assert await environment.read_bytes("f", limit=0) == b""


@pytest.mark.parametrize("path", ["a\0b", "half \ud800 pair"])
async def test_impossible_paths_are_refused(tmp_path: Path, path: str) -> None:
    environment = at(tmp_path)
    with pytest.raises(EnvironmentFailed):
        await environment.stat(path)
    with pytest.raises(EnvironmentFailed):
        await environment.read_bytes(path)
    with pytest.raises(EnvironmentFailed):
        await environment.write_bytes(path, b"x")
    assert names(tmp_path) == []


async def test_errors_name_path_and_reason(tmp_path: Path) -> None:
    environment = at(tmp_path)
    with pytest.raises(EnvironmentFailed, match=r"missing.*no such file"):
        await environment.read_bytes("missing")
    with pytest.raises(EnvironmentFailed, match=r"missing.*no such file"):
        await environment.list_names("missing")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(EnvironmentFailed, match="symbolic links"):
        await environment.stat("loop")
    with pytest.raises(EnvironmentFailed, match="symbolic links"):
        await environment.write_bytes("loop", b"x")
    with pytest.raises(EnvironmentFailed, match="too long"):
        await environment.write_bytes("n" * 300, b"x")
    assert names(tmp_path) == ["loop"]


async def test_t35_writes_go_through_links(tmp_path: Path) -> None:
    (tmp_path / "real.cfg").write_bytes(b"old")
    (tmp_path / "link.cfg").symlink_to("real.cfg")
    (tmp_path / "second.cfg").symlink_to("link.cfg")
    (tmp_path / "dangling").symlink_to("target")
    environment = at(tmp_path)
    for name in ("link.cfg", "second.cfg"):
        await environment.write_bytes(name, name.encode())
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real.cfg").read_bytes() == name.encode()
        assert not (tmp_path / "real.cfg").is_symlink()
    await environment.write_bytes("dangling", b"made")
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"made"
    assert names(tmp_path) == ["dangling", "link.cfg", "real.cfg", "second.cfg", "target"]


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640, 0o4755])
async def test_t36_the_mode_stays(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(mode)
    old = os.umask(0o022)
    try:
        await at(tmp_path).write_bytes("run.sh", b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
async def test_t36_a_new_file_follows_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    old = os.umask(umask)
    try:
        await at(tmp_path).write_bytes("new", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


async def test_t36_a_second_hard_link_keeps_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old")
    os.link(tmp_path / "one", tmp_path / "two")
    await at(tmp_path).write_bytes("one", b"new")
    assert (tmp_path / "one").read_bytes() == b"new"
    assert (tmp_path / "two").read_bytes() == b"old"


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_t36_t37_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, nameless: bool
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    if not nameless:
        monkeypatch.setattr(os, "O_TMPFILE", 0)

    def full(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentFailed, match="intact"):
        await at(tmp_path).write_bytes("f", b"new" * 1000)
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_t37_a_real_limit_in_the_middle_of_a_write(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    script = (
        "import asyncio, resource, signal, sys\n"
        "from durable_tui.environment import EnvironmentFailed, LocalEnvironment\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))\n"
        "try:\n"
        "    asyncio.run(LocalEnvironment.at(sys.argv[1]).write_bytes('f', b'x' * 5_000_000))\n"
        "except EnvironmentFailed as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "too large" in run.stdout and "intact" in run.stdout, run.stderr
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


async def test_writing_works_where_files_cannot_be_nameless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", 0)
    await at(tmp_path).write_bytes("f", b"one")
    await at(tmp_path).write_bytes("f", b"two")
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"two"


async def test_t37_only_the_temporary_files_of_dead_writers_are_swept(tmp_path: Path) -> None:
    dead, living, other = (tmp_path / f".durable-tui-{letter * 32}.tmp" for letter in "0ab")
    for path in (dead, living):
        path.write_bytes(b"half")
    other.symlink_to("target")
    similar = tmp_path / ".durable-tui-notes.tmp"
    similar.write_bytes(b"a user's")
    with open(living, "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        await at(tmp_path).write_bytes("f", b"x")
        assert names(tmp_path) == sorted([living.name, other.name, similar.name, "f"])
    await at(tmp_path).write_bytes("f", b"y")
    assert names(tmp_path) == sorted([other.name, similar.name, "f"])


@pytest.mark.parametrize("nameless", [True, False])
async def test_writers_in_one_directory_do_not_sweep_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    content = {f"f{n}": b"%d" % n * 50_000 for n in range(40)}
    await asyncio.gather(*(at(tmp_path).write_bytes(name, data) for name, data in content.items()))
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == content


async def test_t37_parents_are_made_or_refused(tmp_path: Path) -> None:
    environment = at(tmp_path)
    await environment.write_bytes("a/b/c.txt", b"x")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"x"
    (tmp_path / "plain").write_bytes(b"")
    for path in ("plain/x", "plain/deeper/x"):
        with pytest.raises(EnvironmentFailed, match="plain is a file, not a directory"):
            await environment.write_bytes(path, b"x")
    with pytest.raises(EnvironmentFailed, match="a directory, not a file"):
        await environment.write_bytes("a", b"x")


async def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EnvironmentFailed, match="named pipe"):
        await at(tmp_path).write_bytes("pipe", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(EnvironmentFailed, match="device"):
        await at(tmp_path).write_bytes("/dev/null", b"x")


async def test_a_directory_that_cannot_be_flushed_is_told_truly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    with pytest.raises(EnvironmentFailed, match="was written, but its directory not flushed"):
        await at(tmp_path).write_bytes("f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


async def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        assert os.listxattr(path) == []  # a file system without them: then there is nothing to keep
    before = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    await at(tmp_path).write_bytes("f", b"new")
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == before
    assert path.read_bytes() == b"new"


async def test_a_cancelled_write_leaves_old_or_new_and_nothing_behind(tmp_path: Path) -> None:
    old, new = b"o" * 4_000_000, b"n" * 4_000_000
    path = tmp_path / "f"
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.005, 0.02):
        path.write_bytes(old)
        task = asyncio.create_task(at(tmp_path).write_bytes("f", new))
        await asyncio.sleep(delay)
        done = task.done()
        task.cancel()
        if done:
            await task
        else:
            with pytest.raises(asyncio.CancelledError):
                await task
        found = path.read_bytes()
        assert found in (old, new)
        await a_while()
        assert path.read_bytes() == found
        assert names(tmp_path) == ["f"]


def test_a_writer_told_to_stop_before_the_rename_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    stop = threading.Event()
    stop.set()
    files.write_atomic(str(path), b"new", stop)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["f"]
