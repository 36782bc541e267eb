"""Listing sessions (spec 17.7; cases S02, D07, UI-K07, UI-R19, UI-S08)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable_tui.host import catalogue as module
from durable_tui.host.catalogue import Catalogue, looks_like_path, new_id
from durable_tui.host.host_errors import ModelMissing, SessionUnknown
from durable_tui.host.opening import Host, Opened, open_session
from durable_tui.host.paths import Paths
from durable_tui.models.provider import ThinkingLevel


@pytest.fixture
def host(tmp_path: Path) -> Host:
    home = tmp_path / "home"
    home.mkdir()
    (home / "turns.json").write_text('[{"text": "It is done."}]')
    (home / "config.toml").write_text('model = "play/x"\n[providers.play]\napi = "scripted"\nscript = "turns.json"\n')
    return Host.load({"DURABLE_TUI_HOME": str(home)})


async def made(host: Host, directory: Path, prompt: str | None = "fix it") -> Path:
    path = host.catalogue.new_path()
    opened = await open_session(host, path, directory=str(directory))
    if prompt is not None:
        await (await opened.root.submit(prompt)).wait()
    await opened.close()
    return path


async def test_spec_17_7_a_clean_session_in_full(host: Host, tmp_path: Path) -> None:
    path = await made(host, tmp_path, "first line\nsecond")
    (info,) = await host.catalogue.list(str(tmp_path))
    found = info.json()
    assert found.pop("createdAt") <= found.pop("updatedAt")
    assert found == {
        "id": path.stem, "path": str(path), "title": "first line", "cwd": str(tmp_path), "state": "clean",
        "model": "play/x", "unfinished": 0, "queued": 0,
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600


async def test_spec_17_7_running_unfinished_damaged_and_newer(host: Host, tmp_path: Path) -> None:
    (host.paths.config.parent / "turns.json").write_text('[{"text": "slow", "delay": 30}]')
    path = host.catalogue.new_path()
    opened = await open_session(host, path, directory=str(tmp_path))
    await opened.root.submit("go")

    async def listed() -> dict[Path, Any]:
        return {info.path: info for info in await Catalogue(host.paths).list()}

    running = (await listed())[path]
    assert running.state == "running" and running.owner is not None
    assert running.owner["pid"] == os.getpid() and running.owner.keys() == {"pid", "host", "startedAt"}
    await opened.close()
    unfinished = (await listed())[path]
    assert (unfinished.state, unfinished.unfinished, unfinished.owner) == ("unfinished", 1, None)
    torn, newer = host.paths.sessions / "torn.sqlite", host.paths.sessions / "newer.sqlite"
    torn.write_bytes(b"\0" * 100)
    (host.paths.config.parent / "turns.json").write_text('[{"text": "quick"}]')
    newer.write_bytes((await made(host, tmp_path)).read_bytes())
    with sqlite3.connect(newer) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    found = await listed()
    assert found[torn].state == "damaged" and found[torn].message
    assert found[newer].state == "newer" and "99" in (found[newer].message or "")
    assert torn.read_bytes() == b"\0" * 100
    newest = await host.catalogue.newest(str(tmp_path))
    assert newest is not None and newest.state not in ("damaged", "newer")


async def test_s02_a_dead_owner_is_not_running_whoever_has_its_pid(host: Host, tmp_path: Path) -> None:
    path = await made(host, tmp_path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE owners SET closed_at = NULL, process_started_at = process_started_at - 1000000")
    raw.close()
    (info,) = await host.catalogue.list()
    assert (info.state, info.owner) == ("clean", None)


async def test_ui_r19_a_session_without_any_input_is_listed_and_opens(host: Host, tmp_path: Path) -> None:
    path = await made(host, tmp_path, prompt=None)
    (info,) = await host.catalogue.list(str(tmp_path))
    assert info.title is None and info.state == "clean"
    opened = await open_session(host, path, directory="/elsewhere", create=False)
    assert not opened.created and opened.session["cwd"] == str(tmp_path)
    await opened.close()


async def test_spec_17_1_the_index_is_only_a_cache(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await made(host, tmp_path)
    read: list[Path] = []
    facts = module.facts

    async def counted(path: Path) -> dict[str, Any]:
        read.append(path)
        return await facts(path)

    monkeypatch.setattr(module, "facts", counted)
    before = await host.catalogue.list()
    assert read == [], "closing remembered it"
    for damage in (lambda index: index.unlink(), lambda index: index.write_bytes(b"no database " * 100)):
        damage(host.paths.index)
        read.clear()
        assert await host.catalogue.list() == before and len(read) == 1
        read.clear()
        assert await host.catalogue.list() == before and read == []
    with sqlite3.connect(host.paths.index) as raw:
        raw.execute("UPDATE sessions SET facts = '{'")
    raw.close()
    assert await host.catalogue.list() == before
    os.chmod(host.paths.index, 0o600)
    lock = sqlite3.connect(host.paths.index, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    assert await host.catalogue.list() == before, "another process holds it"
    lock.close()


async def test_ui_s08_many_sessions_are_listed_without_opening_any(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = host.paths.make_sessions()
    rows = {}
    for number in range(2000):
        path = folder / f"{number:06}.sqlite"
        path.write_bytes(b"")
        item = {"cwd": str(tmp_path), "unfinished": 0, "queued": 0, "createdAt": number, "updatedAt": number}
        rows[str(path)] = (module.stamp_of(path) or "", item)
    host.catalogue._store(rows, set())

    async def forbidden(path: Path) -> dict[str, Any]:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(module, "facts", forbidden)
    found = await host.catalogue.list(str(tmp_path))
    assert [info.id for info in found[:2]] == ["001999", "001998"] and len(found) == 2000


async def test_spec_17_7_sessions_elsewhere_are_known_once_opened_and_forgotten_with_their_file(
    host: Host, tmp_path: Path
) -> None:
    path = tmp_path / "job.sqlite"
    opened = await open_session(host, path, directory=str(tmp_path))
    await opened.close()
    assert [info.path for info in await host.catalogue.list(str(tmp_path))] == [path]
    assert host.catalogue.find("job") == path
    path.unlink()
    assert await host.catalogue.list() == []


def test_spec_20_finding_by_id_part_and_path(host: Host, tmp_path: Path) -> None:
    folder = host.paths.make_sessions()
    for name in ("20260101-000000-aaaa1111", "20260102-000000-aaaa2222"):
        (folder / f"{name}.sqlite").write_bytes(b"")
    (folder / ".hidden.sqlite").write_bytes(b"")
    find = host.catalogue.find
    assert find("aaaa1111").stem == "20260101-000000-aaaa1111"
    assert find("20260102-000000-aaaa2222").stem.endswith("2222")
    with pytest.raises(SessionUnknown, match=r"2 sessions: 20260101-000000-aaaa1111, 20260102-000000-aaaa2222"):
        find("aaaa")
    with pytest.raises(SessionUnknown, match=r"\./zzz\.sqlite makes one there"):
        find("zzz")
    with pytest.raises(SessionUnknown, match="is a directory"):
        find(str(tmp_path))
    link = tmp_path / "link.sqlite"
    link.symlink_to(folder / "20260101-000000-aaaa1111.sqlite")
    assert find(str(link)) == (folder / "20260101-000000-aaaa1111.sqlite").resolve()
    assert looks_like_path("./a") and looks_like_path("a.sqlite") and not looks_like_path("aaaa1111")


def test_ids_sort_by_age_and_end_in_eight_random_characters() -> None:
    older, newer = new_id(1_700_000_000), new_id(1_700_000_002)
    assert older < newer and len(older.rpartition("-")[2]) == 8
    assert len({new_id(0) for _ in range(50)}) == 50


async def test_spec_20_the_model_by_its_order(host: Host, tmp_path: Path) -> None:
    async def model(env: dict[str, str], asked: str | None = None, path: Path | None = None) -> str:
        other = Host.load({**host.env, **env})
        opened = await open_session(other, path or other.catalogue.new_path(), directory=str(tmp_path), model=asked)
        await opened.close()
        return opened.model

    assert await model({}) == "play/x"
    assert await model({"DURABLE_TUI_MODEL": "play/env"}) == "play/env"
    assert await model({"DURABLE_TUI_MODEL": "play/env"}, "play/a/b") == "play/a/b"
    path = host.catalogue.new_path()
    assert await model({}, "play/kept", path) == "play/kept"
    assert await model({"DURABLE_TUI_MODEL": "play/env"}, None, path) == "play/kept", "the session's goes first"
    assert await model({}, "play/new", path) == "play/new"
    assert await model({}, None, path) == "play/new", "and is changed by asking"
    with pytest.raises(ModelMissing, match="DURABLE_TUI_MODEL, gone/m: there is no provider 'gone'"):
        await model({"DURABLE_TUI_MODEL": "gone/m"})


async def test_the_thinking_level_is_the_configured_one_at_first_and_then_the_one_asked_for(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('model = "scripted/tour"\nthinking = "medium"\n')
    host = Host.load({"DURABLE_TUI_HOME": str(home)})

    async def level(path: Path, asked: ThinkingLevel | None = None) -> str | None:
        opened = await open_session(host, path, directory=str(tmp_path), thinking=asked)
        agent = await opened.root.agent()
        await opened.close()
        return agent.get("thinkingLevel")

    path, other = host.catalogue.new_path(), host.catalogue.new_path()
    assert await level(path) == "medium"
    assert await level(path, "high") == "high" and await level(path) == "high"
    assert await level(path, "off") == "off"
    assert await level(other, "low") == "low"
    host = Host.load({"DURABLE_TUI_HOME": str(tmp_path / "elsewhere"), "DURABLE_TUI_MODEL": "scripted/tour"})
    path = host.catalogue.new_path()
    assert await level(path) is None and await level(path, "off") is None


async def test_spec_20_without_any_model_nothing_is_made(tmp_path: Path) -> None:
    host = Host.load({"DURABLE_TUI_HOME": str(tmp_path / "home")})
    with pytest.raises(ModelMissing, match="--model PROVIDER/MODEL"):
        await open_session(host, host.catalogue.new_path(), directory=str(tmp_path))
    assert list((tmp_path / "home" / "sessions").iterdir()) == []
    opened: Opened = await open_session(
        host, host.catalogue.new_path(), directory=str(tmp_path), fallback_model="scripted/tour"
    )
    assert opened.model == "scripted/tour" and opened.created
    await opened.close()


async def test_concurrent_listings_do_not_disturb_each_other(host: Host, tmp_path: Path) -> None:
    for _ in range(3):
        await made(host, tmp_path)
    host.paths.index.unlink()
    program = (
        "import asyncio, sys; from pathlib import Path; from durable_tui.host.catalogue import Catalogue;"
        "from durable_tui.host.paths import Paths;"
        "print(len(asyncio.run(Catalogue(Paths.under(Path(sys.argv[1]))).list())))"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(host.paths.home), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [out for out, _ in outputs] == [b"3\n"] * 3


def test_ui_k16_a_folder_that_cannot_be_read_says_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Any) -> Callable[..., Any]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.os, "listdir", refused)
    with pytest.raises(module.HostError, match=r"sessions: cannot be read \(Permission denied\)"):
        host.catalogue.find("x")


def test_paths_are_what_a_host_uses(host: Host) -> None:
    assert host.paths == Paths.under(host.paths.config.parent)


async def test_s02_a_home_behind_a_link_lists_each_session_once(host: Host, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(host.paths.config.parent)
    other = Host.load({"DURABLE_TUI_HOME": str(link)})
    path = await made(other, tmp_path)
    assert [info.path for info in await other.catalogue.list()] == [path]
    assert [info.path for info in await host.catalogue.list()] == [path]
    assert other.catalogue.find(path.stem[-8:]) == path
