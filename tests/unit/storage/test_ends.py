"""The files by which a launcher tells how an owner ended (spec 17.1)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from durable_tui.storage.ends import LIMIT, LauncherEnd, end_path, read_ends, remove_ends, write_end

KILLED: LauncherEnd = {"by": "launcher", "signal": "SIGKILL", "at": 5}
ENDED: LauncherEnd = {"by": "launcher", "status": 1, "at": 6}


def test_spec_17_1_what_launchers_told_is_read_by_epoch_and_then_gone(tmp_path: Path) -> None:
    files = str(tmp_path / "a.files")
    assert read_ends(files).by_epoch == {}
    write_end(end_path(files, 3), ENDED)
    write_end(end_path(files, 12), ENDED)
    write_end(end_path(files, 12), KILLED)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a.files", tmp_path / "a.files/ends")} == {0o700}
    found = read_ends(files)
    assert found.by_epoch == {3: ENDED, 12: KILLED} and not found.problems
    remove_ends(files, found)
    assert os.listdir(tmp_path) == [], "no empty folder is left"


def test_spec_17_1_other_files_of_the_session_stay(tmp_path: Path) -> None:
    files = str(tmp_path / "a.files")
    write_end(end_path(files, 3), ENDED)
    (tmp_path / "a.files/command-1.log").write_text("output")
    remove_ends(files, read_ends(files))
    assert os.listdir(files) == ["command-1.log"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 4000,
        '{"by": "launcher", "at": 1}',
        '{"by": "runner", "at": 1, "status": 0}',
        '{"by": "launcher", "status": 0}',
        '{"by": "launcher", "at": "now", "status": 0}',
        '{"by": "launcher", "at": true, "status": 0}',
        '{"by": "launcher", "at": 1, "status": 256}',
        '{"by": "launcher", "at": 1, "status": -9}',
        '{"by": "launcher", "at": 1, "signal": "SIGKILL\\n\\u001b[2J"}',
        '{"by": "launcher", "at": 1, "signal": 9}',
        '{"by": "launcher", "at": 1, "signal": "SIGKILL", "status": 1}',
        json.dumps({**KILLED, "more": "x" * LIMIT}),
    ],
)
def test_spec_17_4_a_broken_file_is_named_ignored_and_taken_away(tmp_path: Path, text: str) -> None:
    files = str(tmp_path / "a.files")
    write_end(end_path(files, 3), ENDED)
    path = Path(end_path(files, 4))
    path.write_text(text)
    found = read_ends(files)
    assert found.by_epoch == {3: ENDED}
    assert len(found.problems) == 1 and str(path) in found.problems[0] and len(found.problems[0]) < 400
    remove_ends(files, found)
    assert not path.exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_spec_17_4_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    files = str(tmp_path / "a.files")
    write_end(end_path(files, 3), ENDED)
    make(Path(end_path(files, 4)))
    found = read_ends(files)
    assert found.by_epoch == {3: ENDED} and len(found.problems) == 1


def test_spec_17_1_what_a_launcher_left_half_written_is_no_news_and_goes(tmp_path: Path) -> None:
    files = str(tmp_path / "a.files")
    write_end(end_path(files, 3), ENDED)
    Path(f"{end_path(files, 3)}.77").write_text('{"by"')
    found = read_ends(files)
    assert found.by_epoch == {3: ENDED} and not found.problems
    remove_ends(files, found)
    assert not os.path.exists(files)


def test_spec_17_1_a_launcher_makes_no_folder_for_a_session_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_end(end_path(str(tmp_path / "gone" / "a.files"), 3), ENDED)
    assert os.listdir(tmp_path) == []


def test_spec_17_1_a_link_in_the_folders_place_leads_to_nobodys_files(tmp_path: Path) -> None:
    others = tmp_path / "documents"
    others.mkdir()
    for name in ("thesis.doc", "7.json", "7.json.12"):
        (others / name).write_text("mine")
    files = tmp_path / "a.files"
    files.mkdir()
    (files / "ends").symlink_to(others)
    found = read_ends(str(files))
    assert not found.by_epoch and not found.names
    remove_ends(str(files), found)
    with pytest.raises(OSError):
        write_end(end_path(str(files), 9), ENDED)
    assert sorted(os.listdir(others)) == ["7.json", "7.json.12", "thesis.doc"]


def test_spec_17_1_a_stranger_in_the_folder_stays_and_a_folder_there_takes_no_descriptor(tmp_path: Path) -> None:
    files = str(tmp_path / "a.files")
    write_end(end_path(files, 3), ENDED)
    Path(files, "ends", "notes.txt").write_text("mine")
    os.mkdir(end_path(files, 5))
    open_before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    found = read_ends(files)
    remove_ends(files, found)
    if open_before:
        assert len(os.listdir("/proc/self/fd")) == open_before
    assert os.listdir(Path(files, "ends")) == ["notes.txt"]
