"""Whole functions on the thread of aiosqlite, and the private names that lead there (spec 23)."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path

import aiosqlite
import pytest

from durable_tui.storage.errors import StorageError
from durable_tui.storage.sqlite.inspection import connect
from durable_tui.storage.sqlite.thread import ConnectionThread, Handle


def test_the_private_names_are_those_of_the_pinned_aiosqlite() -> None:
    assert aiosqlite.__version__ == "0.22.1"
    assert list(inspect.signature(aiosqlite.Connection._execute).parameters) == ["self", "fn", "args", "kwargs"]
    assert inspect.iscoroutinefunction(aiosqlite.Connection._execute)
    assert list(inspect.signature(aiosqlite.Connection.__init__).parameters)[:3] == [
        "self",
        "connector",
        "iter_chunk_size",
    ]
    connection = aiosqlite.Connection(lambda: None, 64)  # type: ignore[arg-type, return-value]
    assert isinstance(connection._thread, threading.Thread)
    assert not connection._thread.is_alive() and not connection._thread.daemon


async def opened(path: Path) -> ConnectionThread:
    connection = ConnectionThread(lambda: Handle(connect(str(path), "mode=rwc")))
    await connection.open()
    return connection


async def test_jobs_run_whole_in_order_on_one_daemon_thread(tmp_path: Path) -> None:
    connection = await opened(tmp_path / "a")
    seen: list[tuple[int, int]] = []

    def job(number: int) -> int:
        seen.append((number, threading.get_ident()))
        return number

    results = await asyncio.gather(
        *(
            connection.finish(lambda _, n=n: job(n)) if n % 2 else connection.run(lambda _, n=n: job(n))
            for n in range(20)
        )
    )
    assert results == list(range(20))
    assert [number for number, _ in seen] == results
    assert len({thread for _, thread in seen}) == 1 and seen[0][1] != threading.get_ident()
    assert connection._connection._thread.daemon
    await connection.close()
    await connection.close()
    connection._connection._thread.join(10)
    assert not connection._connection._thread.is_alive()
    with pytest.raises(StorageError):
        await connection.run(lambda _: None)


async def test_spec_3_5_finish_awaits_its_job_however_often_it_is_cancelled(tmp_path: Path) -> None:
    connection = await opened(tmp_path / "a")
    may_end = threading.Event()
    done: list[int] = []

    def slow(_: Handle) -> None:
        may_end.wait(30)
        done.append(1)

    waiting = asyncio.ensure_future(connection.finish(slow))
    for _ in range(20):
        await asyncio.sleep(0)
        waiting.cancel()
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await waiting
    assert done == [1] and cancelled.value.__cause__ is None
    await connection.close()


async def test_spec_3_5_a_failure_behind_a_cancellation_is_its_cause(tmp_path: Path) -> None:
    connection = await opened(tmp_path / "a")

    may_end = threading.Event()

    def fails(_: Handle) -> None:
        may_end.wait(30)
        raise StorageError("no")

    waiting = asyncio.ensure_future(connection.finish(fails))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await waiting
    assert isinstance(cancelled.value.__cause__, StorageError)
    with pytest.raises(StorageError, match="no"):
        await connection.finish(fails)
    await connection.close()


async def test_a_connect_that_fails_ends_its_thread(tmp_path: Path) -> None:
    def connect_badly() -> Handle:
        raise StorageError("no")

    connection = ConnectionThread(connect_badly)
    with pytest.raises(StorageError, match="no"):
        await connection.open()
    connection._connection._thread.join(10)
    assert not connection._connection._thread.is_alive()
    with pytest.raises(StorageError, match="closed"):
        await connection.run(lambda _: None)


def test_a_loop_that_closes_under_a_job_shows_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[object] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    release = threading.Event()

    async def leave() -> ConnectionThread:
        connection = await opened(tmp_path / "a")
        reading = asyncio.ensure_future(connection.run(lambda _: release.wait(30)))
        await asyncio.sleep(0.01)
        reading.cancel()
        return connection

    connection = asyncio.run(leave())
    release.set()
    connection._connection._thread.join(10)
    assert not connection._connection._thread.is_alive() and not hooked


async def test_a_cancelled_read_leaves_at_once(tmp_path: Path) -> None:
    connection = await opened(tmp_path / "a")
    release = threading.Event()
    waiting = asyncio.ensure_future(connection.run(lambda _: release.wait(30)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(waiting), 5)
    release.set()
    await connection.close()
