"""What the real screen says and keeps when something is wrong around it (cases D04, T28, UI-D05, UI-K07-UI-K16)."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.model_server import ModelServer
from tests.tools.screen_kit import Seat, Window, draft_of

pytestmark = pytest.mark.terminal

SLOW = [{"text": "A slow answer that grows word by word until it ends.", "delay": 4}]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def quit_by(window: Window, *keys: str) -> int:
    window.press(*keys)
    status = window.wait()
    assert b"Traceback" not in window.raw
    return status


# --- owned elsewhere ----------------------------------------------------------------------------------------


def test_ui_k09_s01_a_second_window_follows_read_only_or_goes_elsewhere(seat: Seat) -> None:
    seat.write(SLOW)
    with seat.open() as owner:
        with seat.open(ready=False) as second:
            second.wait_for("open elsewhere")
            assert str(owner.app) in second.text
            for choice in ("follow", "a new session", "another session"):
                assert choice in second.text, second.text
            second.press("enter")
            second.wait_state("read-only")
            owner.say("grow")
            second.wait_for("▎grow")
            second.wait_for("A slow answer that grows")
            second.wait_for("word by word until it ends.")
            second.type("me too")
            second.press("enter")
            second.wait_for("read-only")
            assert second.composing == "me too", "what was typed stays"
            second.press("ctrl+c")
            second.wait_taken()
            assert seat.said() == ["grow"] and seat.draft() == ""
            assert quit_by(second, "ctrl+q") == 0
        owner.wait_state("ready")
        with seat.open(ready=False) as third:
            third.wait_for("open elsewhere")
            third.press("down", "enter")
            third.wait_state("new session")
            third.say("my own")
            third.wait_for("▎my own")
            assert quit_by(third, "ctrl+q") == 0
        assert len(list((seat.home / "sessions").glob("*.sqlite"))) == 2
        with seat.open("--session", owner_id(seat), ready=False) as fourth:
            fourth.wait_for("open elsewhere")
            fourth.press("escape")
            assert fourth.wait() == 3
            assert "Traceback" not in fourth.text and "owns it" in fourth.text
        owner.say("still here")
        owner.wait_for("▎still here")


def test_ui_k09_who_follows_can_take_over_once_the_owner_has_gone(seat: Seat) -> None:
    with seat.open() as owner:
        owner.say("hello")
        owner.wait_for("It is done.")
        with seat.open(ready=False) as second:
            second.wait_for("open elsewhere")
            second.press("enter")
            second.wait_state("read-only")
            second.wait_for("It is done.")
            owner.press("ctrl+q")
            assert owner.wait() == 0
            second.press("ctrl+o")
            second.wait_line("hello", "this one")
            second.press("enter")
            second.wait_state("ready")
            second.say("mine now")
            second.wait_for("▎mine now")
            second.wait_state("ready")
    assert seat.said() == ["hello", "mine now"]


def owner_id(seat: Seat) -> str:
    """The id of the session whose lock is held: the one opened first."""
    return min((seat.home / "sessions").glob("*.sqlite"), key=lambda path: path.stat().st_ctime_ns and path.stem).stem


def test_ui_d05_two_windows_at_once_on_unfinished_work_make_one_recovery(seat: Seat) -> None:
    script = [{"calls": [{"name": "bash", "args": {"command": "echo once >> made; sleep 60"}}]}, {"text": "Recovered."}]
    with ModelServer(script, strict=True) as server:
        with seat.open_served(server) as window:
            window.say("make it")
            window.wait_for((seat.project / "made").exists)
            window.kill_app()
            seat.wait_gone()
        asked = len(server.requests)
        with seat.open(ready=False) as one, seat.open(ready=False) as two:
            windows = [one, two]
            one.wait_for(lambda: (two.pump(0), any("open elsewhere" in window.text for window in windows))[1])
            owner = one if "open elsewhere" in two.text else two
            owner.wait_for("Recovered.")
            owner.wait_state("ready")
        assert len(server.requests) == asked + 1
    assert (seat.project / "made").read_text() == "once\n"
    assert len(seat.state().session_documents["dt.recovery"]["deaths"]) == 1
    assert not seat.problems()


# --- files that cannot be opened ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["damaged", "newer"])
def test_ui_k07_ui_k16_a_damaged_and_a_newer_file_are_listed_said_and_left_alone(seat: Seat, how: str) -> None:
    with seat.open() as window:
        window.say("hello")
        window.wait_for("It is done.")
        window.wait_state("ready")
        assert quit_by(window, "ctrl+q") == 0
    path = seat.path
    if how == "newer":
        with sqlite3.connect(path) as raw:
            raw.execute("PRAGMA user_version = 77")
        raw.close()
    else:
        path.write_bytes(b"SQLite format 3\0" + os.urandom(20000))
    before = path.read_bytes()
    with seat.open("--session", path.stem, ready=False) as window:
        window.wait_for("cannot open")
        window.wait_for("77" if how == "newer" else path.stem)
        window.press("escape")
        assert window.wait() == 4
        assert b"Traceback" not in window.raw
    with seat.open("--new") as window:
        window.press("ctrl+o")
        window.wait_line("this one")
        window.press("tab")
        window.wait_line("schema version 77" if how == "newer" else "damaged")
        window.press("escape")
        window.wait_for(lambda: "everywhere" not in window.text)
        window.say("another")
        window.wait_for("It is done.")
    assert path.read_bytes() == before


def test_ui_k16_a_directory_that_cannot_be_written_is_named(seat: Seat, tmp_path: Path) -> None:
    with seat.open() as window:
        window.say("hello")
        window.wait_for("It is done.")
        window.wait_state("ready")
        quit_by(window, "ctrl+q")
    folder = seat.home / "sessions"
    with read_only(folder), seat.open(ready=False) as window:
        window.wait_for("cannot open")
        window.wait_for(lambda: "read-only" in window.text.lower() or "permi" in window.text.lower())
        window.press("escape")
        assert window.wait() == 4
        assert b"Traceback" not in window.raw
    with seat.open() as window:
        window.wait_for("It is done.")


class read_only:
    """A folder nothing can be written to while this lasts; for root by a mount, for others by its mode."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        if os.getuid() == 0:
            for options in (["--bind"], ["-o", "remount,bind,ro"]):
                subprocess.run(["mount", *options, str(self.folder), str(self.folder)], check=True)
        else:
            self.folder.chmod(0o500)

    def __exit__(self, *_: object) -> None:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        else:
            self.folder.chmod(0o700)


# --- the directory ------------------------------------------------------------------------------------------


def test_t28_the_directory_goes_while_it_works_and_before_it_opens(seat: Seat) -> None:
    command = {"calls": [{"name": "bash", "args": {"command": "echo hi from $PWD"}}]}
    seat.write([command, {"text": "That was it."}])
    with seat.open() as window:
        shutil.rmtree(seat.project)
        window.say("first")
        window.wait_for("That was it.")
        window.wait_state("ready")
        seat.project.mkdir()
        window.say("second")
        window.wait_for(lambda: window.text.count("That was it.") == 2)
        results = [
            (message["isError"], message["content"][0]["text"])
            for entry in seat.state().entries.values()
            for message in entry.get("model", [])
            if message["role"] == "toolResult"
        ]
        assert results[0][0] and str(seat.project) in results[0][1]
        assert not results[1][0] and "hi from" in results[1][1]
        quit_by(window, "ctrl+q")
    elsewhere = seat.folder / "elsewhere"
    elsewhere.mkdir()
    session = seat.path.stem
    shutil.rmtree(seat.project)
    seat.project = elsewhere
    with seat.open("--session", session, ready=False, size=(120, 30)) as window:
        window.wait_for("does not exist any more")
        window.press("escape")
        assert window.wait() == 2
        assert b"Traceback" not in window.raw


# --- the disk -----------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    point = tmp_path / "small"
    point.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(point)], check=True)
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def fill_up(folder: Path) -> Path:
    """A file that takes all the space there is."""
    file = os.open(folder / "fill", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(file, b"x" * 512)
    os.close(file)
    return folder / "fill"


def test_d04_ui_k15_a_full_disk_is_said_nothing_is_asked_and_it_goes_on_with_space(tmp_path: Path, small: Path) -> None:
    seat = Seat(tmp_path / "person")
    seat.environment["DURABLE_TUI_HOME"] = str(small)
    seat.home = small
    wait = {"name": "bash", "args": {"command": "while [ ! -e go ]; do sleep 0.05; done; echo went"}}
    script = {
        "match": {"later": [{"text": "Answer to the later."}]},
        "turns": [{"calls": [wait]}, {"text": "It went on."}],
    }
    with ModelServer(script, strict=True) as server, seat.open_served(server, size=(120, 30)) as window:
        window.say("wait for go")
        window.wait_line("bash", "while")
        asked = len(server.requests)
        fill = fill_up(small)
        shown = seat.state().seqs[-1]
        (seat.project / "go").touch()
        window.wait_for("not saved: disk full")
        window.wait_state("not saved")
        window.wait_for(str(small)[:60])  # it names the place
        window.type("later")
        window.press("enter")
        window.wait_for("not sent")
        assert window.composing == "later", "what cannot be saved stays in the composer"
        assert len(server.requests) == asked, "no model is asked while nothing can be saved"
        assert seat.state().seqs[-1] >= shown
        fill.unlink()
        window.wait_for("It went on.")
        window.wait_for(lambda: "not saved" not in window.text)
        window.press("enter")
        window.wait_for("Answer to the later.")
        window.wait_state("ready")
        assert quit_by(window, "ctrl+q") == 0
    assert not server.violations
    assert seat.said() == ["wait for go", "later"]
    assert not seat.problems()
    seat.wait_gone()


# --- what the person got wrong ------------------------------------------------------------------------------


def ended(seat: Seat, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Open, leave the dialog if there is one, and give the status and what stands on the terminal."""
    with seat.open(*words, ready=False, env=env) as window:
        window.wait_for(lambda: "cannot open" in window.text or window._process.poll() is not None)
        if window._process.poll() is None:
            window.press("escape")
        status = window.wait()
        assert b"Traceback" not in window.raw
        return status, window.text


def test_a_wrong_configuration_names_file_line_and_key_and_draws_no_screen(seat: Seat) -> None:
    (seat.home / "config.toml").write_text("model = 'play/one'\n[settings]\nrestart_limt = 3\n")
    status, text = ended(seat)
    assert status == 2
    flat = text.replace("\n", "")
    assert "config.toml, line 3: settings.restart_limt: is not known; did you mean restart_limit?" in flat


@pytest.mark.parametrize(
    ("model", "says"), [("nobody/none", "there is no provider 'nobody'"), ("openai/gpt-5", "OPENAI_API_KEY")]
)
def test_an_unknown_model_and_a_missing_key_are_said(seat: Seat, model: str, says: str) -> None:
    status, text = ended(seat, "--model", model, env={"OPENAI_API_KEY": ""})
    assert status == 2 and says in text.replace("\n", ""), text
    assert not list(seat.home.glob("sessions/*.sqlite")), "no session that could never be asked anything"


def test_an_unreachable_server_is_said_once_and_the_work_can_go_on(seat: Seat) -> None:
    with ModelServer([{"text": "Here now."}], strict=True) as server:
        port = server.port
    seat.served_by(f"http://127.0.0.1:{port}/v1", extra="")
    with seat.open() as window:
        window.say("anyone there")
        window.wait_for(f"127.0.0.1:{port}", 30)
        window.wait_state("ready", 30)
        assert "Traceback" not in window.text
        with ModelServer([{"text": "Here now."}], port=port, strict=True):
            window.say("and now")
            window.wait_for("Here now.")
    assert not seat.problems()


def test_a_session_that_is_not_there_is_said(seat: Seat) -> None:
    status, text = ended(seat, "--session", "nobody")
    assert status == 2 and "no session is called 'nobody'" in text


def test_the_draft_is_kept_when_the_disk_was_full_for_it(tmp_path: Path, small: Path) -> None:
    seat = Seat(tmp_path / "person")
    seat.environment["DURABLE_TUI_HOME"] = str(small)
    seat.home = small
    seat.write([{"text": "It is done."}])
    with seat.open(size=(120, 30)) as window:
        fill = fill_up(small)
        text = "a draft that finds no room " + "x" * 5000
        window.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")
        window.wait_for("disk full")
        fill.unlink()
        window.wait_store(lambda state: draft_of(state) == text, "the draft, once there is room, by itself")
    seat.wait_gone()


def test_what_cannot_be_saved_at_the_end_is_printed(tmp_path: Path, small: Path) -> None:
    seat = Seat(tmp_path / "person")
    seat.environment["DURABLE_TUI_HOME"] = str(small)
    seat.home = small
    seat.write([{"text": "It is done."}])
    with seat.open(size=(120, 30)) as window:
        fill_up(small)
        window.write(b"\x1b[200~" + b"words nobody may lose " * 300 + b"to the end\x1b[201~")
        window.wait_for("disk full")
        window.press("ctrl+q")
        window.wait()
        after = window.raw.partition(b"\x1b[?1049l")[2].decode()
    assert "could not be saved" in after and after.count("words nobody may lose") == 300 and "to the end" in after
    seat.wait_gone()
