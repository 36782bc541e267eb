"""Files for `@`: what is listed, with and without git, and how they are found."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ui import file_listing, files
from durable_tui.ui.actions import ACTIONS, BY_ID, fuzzy
from durable_tui.ui.file_listing import list_files, walk
from durable_tui.ui.files import Files
from durable_tui.ui.matching import Query

NEVER = float("inf")


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True)


def put(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


# --- with git -------------------------------------------------------------------------------------------------------


def test_tracked_and_new_files_are_listed_ignored_and_deleted_ones_are_not(repository: Path) -> None:
    put(repository, "kept.py", "gone.py", "forced.log")
    put(repository, ".gitignore", text="*.log\nbuild/\n")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "a")
    (repository / "gone.py").unlink()
    put(repository, "new.py", "other.log", "build/made.o", "node_modules/a.js", "vendor/b.py")
    put(repository / "vendor", ".gitignore", text="*\n!b.py\n")
    assert sorted(list_files(str(repository))) == [
        ".gitignore", "forced.log", "kept.py", "new.py", "node_modules/a.js", "vendor/b.py",
    ]  # fmt: skip


def test_a_folder_of_a_repository_lists_what_is_below_it(repository: Path) -> None:
    put(repository, "above.py", "sub/a.py", "sub/deeper/b.py")
    git(repository, "add", "sub/a.py")
    assert sorted(list_files(str(repository / "sub"))) == ["a.py", "deeper/b.py"]


def test_an_ignored_folder_is_walked(repository: Path) -> None:
    put(repository, ".gitignore", text="scratch/\n")
    put(repository, "scratch/a.py")
    assert list(list_files(str(repository / "scratch"))) == ["a.py"]


def test_repositories_inside_are_listed_too(repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    put(library, "l.py", ".gitignore", text="*.o\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "a")
    git(repository, "submodule", "add", "-q", str(library), "lib")
    put(repository, "lib/new.py", "lib/new.o", "clone/c.py")
    git(repository / "clone", "init", "-q")
    found = sorted(list_files(str(repository)))
    assert found == [".gitmodules", "clone/c.py", "lib/.gitignore", "lib/l.py", "lib/new.py"]
    git(repository, "commit", "-qam", "a")
    git(tmp_path, "clone", "-q", str(repository), "copy")  # with the submodule's folder empty
    assert list(list_files(str(tmp_path / "copy"))) == [".gitmodules"]


def test_a_file_in_conflict_is_listed_once(repository: Path) -> None:
    put(repository, "a.py", text="one")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "a")
    git(repository, "checkout", "-qb", "other")
    put(repository, "a.py", text="two")
    git(repository, "commit", "-qam", "b")
    git(repository, "checkout", "-q", "-")
    put(repository, "a.py", text="three")
    git(repository, "commit", "-qam", "c")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "other")
    assert list(list_files(str(repository))) == ["a.py"]


@pytest.mark.parametrize("with_git", [True, False])
def test_names_no_message_can_hold_are_left_out(tmp_path: Path, with_git: bool) -> None:
    if with_git:
        git(tmp_path, "init", "-q")
    put(tmp_path, "a\nb.py", "a\tb.py", "é ü.py", "-rf", ":(top)x", "quo\"te'.py")
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.py", os.O_CREAT | os.O_WRONLY))
    assert sorted(list_files(str(tmp_path))) == ["-rf", ":(top)x", "quo\"te'.py", "é ü.py"]


def test_git_takes_no_lock_and_runs_nothing_of_the_repository(repository: Path) -> None:
    put(repository, "a.py")
    git(repository, "add", ".")
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    (repository / ".git" / "index.lock").touch()
    assert sorted(list_files(str(repository))) == ["a.py", "hook"]
    assert not (repository / "ran").exists()


def test_variables_of_another_repository_do_not_count(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(repository, "a.py")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert list(list_files(str(repository))) == ["a.py"]


def test_a_git_that_hangs_is_ended_and_the_walk_has_no_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "git"
    put(tmp_path, "bin/git", text="#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    assert list(list_files(str(tmp_path), limit=0.05)) == []


# --- without git ----------------------------------------------------------------------------------------------------


def test_a_walk_honours_ignore_files_on_the_way(tmp_path: Path) -> None:
    put(
        tmp_path,
        "a.py",
        "a.log",
        "sub/b.log",
        "sub/keep.log",
        "sub/out/c.py",
        "out/d.py",
        "node_modules/e.js",
        ".git/f",
    )
    put(tmp_path, ".gitignore", text="*.log\n/out/\n")
    put(tmp_path / "sub", ".gitignore", text="!keep.log\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(walk(str(tmp_path), NEVER)) == [
        ".gitignore", "a.py", "loop", "node_modules/e.js", "sub/.gitignore", "sub/keep.log", "sub/out/c.py",
    ]  # fmt: skip
    assert list(walk(str(tmp_path / "gone"), NEVER)) == []


def test_a_walk_without_git_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.py")
    monkeypatch.setattr(file_listing, "_GIT", ("no-such-git",))
    assert list(list_files(str(tmp_path))) == ["a.py"]


def test_folders_and_ignore_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "b.py", "closed/c.py", "d/e.py")
    put(tmp_path, ".gitignore", text="!\n\\\nb.py\n")
    (tmp_path / "d" / ".gitignore").mkdir()
    (tmp_path / "closed").chmod(0)
    try:
        found = list(walk(str(tmp_path), NEVER))
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert [name for name in found if name != "closed/c.py"] == [".gitignore", "a.py", "d/e.py"]
    assert os.geteuid() == 0 or "closed/c.py" not in found


def test_a_walk_ends_with_its_time(tmp_path: Path) -> None:
    put(tmp_path, "a.py")
    assert list(walk(str(tmp_path), time.monotonic() - 1)) == []


# --- matching -------------------------------------------------------------------------------------------------------


def test_names_of_files_come_before_folders_and_short_ones_first() -> None:
    paths = [
        "main/other.py",
        "src/domain.py",
        "src/main.py",
        "main.py",
        "src/my_main.py",
        "m/a/i/n.py",
        "none.py",
        "mxaxixn.c",
    ]
    assert Query("main").best(paths, 20) == [
        "main.py", "src/main.py", "src/my_main.py", "src/domain.py", "main/other.py", "mxaxixn.c", "m/a/i/n.py",
    ]  # fmt: skip
    assert Query("MA in").best(paths, 2) == ["main.py", "src/main.py"]
    assert Query("src/m").best(paths, 2) == ["src/main.py", "src/my_main.py"]
    assert Query("").best(paths, 3) == ["main.py", "mxaxixn.c", "none.py"]


@given(st.text(alphabet="ab/.A İß", max_size=12), st.text(alphabet="ab/.", max_size=4))
def test_what_matches_holds_the_characters_in_their_order(path: str, typed: str) -> None:
    rest = iter(path.lower())
    holds = all(character in rest for character in typed)
    query = Query(typed)
    assert query.matches(path) is holds
    assert (query.rank(path) is not None) is holds
    positions = query.positions(path)
    assert positions == sorted(set(positions))
    assert not positions or "".join(path[at] for at in positions).lower() == typed


def test_no_text_takes_more_than_one_pass() -> None:
    """The matcher of textual goes through all ways to match, of which this has more than there are atoms."""
    assert Query("a" * 60 + "b").rank("a" * 5000) is None
    assert Query("a" * 60).matches("ab" * 5000)


def test_a_search_nobody_waits_for_ends_early() -> None:
    looked = 0

    def names() -> Iterator[str]:
        nonlocal looked
        while looked < 100_000:
            looked += 1
            yield "name"

    assert Query("n").best(names(), 5, lambda: looked < 5000) is None
    assert looked < 10_000


def test_the_palette_finds_titles_by_their_characters() -> None:
    title = BY_ID["palette"].title
    assert BY_ID["palette"] in fuzzy(title[0] + title[2] + title[-1], ACTIONS)


# --- the picker -----------------------------------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_the_first_look_starts_the_listing_and_tells_when_it_is_there(tmp_path: Path) -> None:
    put(tmp_path, "src/app.py", "apple.txt")
    found, told = Files(str(tmp_path)), []
    found.changed = lambda: told.append(True)
    assert found.find("app") == []
    await until(lambda: bool(told))
    assert found.find("app") == ["apple.txt", "src/app.py"]
    assert found.find("") == ["apple.txt", "src/app.py"]


async def test_a_listing_under_way_shows_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    more = threading.Event()

    def slowly(directory: str) -> Iterator[str]:
        yield from (f"a{n}" for n in range(files.BATCH))
        yield from (f"b{n}" for n in range(files.BATCH))
        more.wait(20)
        yield "last"

    monkeypatch.setattr(files, "AGAIN", 0.0)
    monkeypatch.setattr(files, "list_files", slowly)
    found = Files("/")
    await until(lambda: bool(found.find("b")))
    assert found.find("last") == []
    more.set()
    await until(lambda: found.find("last") == ["last"])


async def test_a_newer_key_ends_the_older_search(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"folder/name{n}.py" for n in range(files.FEW)] + ["folder/wanted.py"]
    monkeypatch.setattr(files, "list_files", lambda directory: iter(names))
    asked: list[tuple[str, threading.Event]] = []
    search = Files._search
    monkeypatch.setattr(Files, "_search", lambda self, *a: (asked.append((a[1].text, a[4])), search(self, *a)))
    found = Files("/")
    found.find("")
    await until(lambda: len(found._names) == len(names))
    found.find("w")
    found.find("wa")
    await until(lambda: found.find("wa") == ["folder/wanted.py"])
    [stopped] = [stop for text, stop in asked if text == "w"]
    assert stopped.is_set()
    assert all(not stop.is_set() for text, stop in asked if text == "wa")


async def test_many_names_are_searched_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"folder{n % 100}/name{n}.py" for n in range(2 * files.FEW)]
    monkeypatch.setattr(files, "list_files", lambda directory: iter(names))
    found = Files("/")
    found.find("")
    await until(lambda: len(found._names) == len(names))
    loop_thread, searched_in = threading.get_ident(), set()
    best = Query.best
    monkeypatch.setattr(Query, "best", lambda *a, **k: (searched_in.add(threading.get_ident()), best(*a, **k))[1])
    await until(lambda: found.find("name77.py")[:1] == ["folder77/name77.py"])
    assert searched_in and loop_thread not in searched_in
    assert found.find("name77.pyx") == []


async def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LIMIT", 2 * files.BATCH)
    monkeypatch.setattr(files, "list_files", lambda directory: (str(n) for n in range(10**9)))
    found = Files("/")
    found.find("")
    await until(lambda: len(found._names) == 2 * files.BATCH)


async def test_a_listing_that_outlives_the_loop_says_nothing(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    put(tmp_path, "a.py")
    Files(str(tmp_path))._list(loop)
