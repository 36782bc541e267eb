"""What an import may load (spec 18, 23): the launcher and a headless embedder must not pay for the screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"aiosqlite", "httpx", "psutil", "pydantic", "pygments", "rich", "sqlite3", "textual", "watchfiles"}
# What the launcher may have loaded beside the interpreter's own start-up modules.
LIGHT = {"contextlib", "collections", "functools", "keyword", "operator", "reprlib", "select", "signal", "termios"}
LIGHT |= {"time", "types", "typing", "enum", "itertools", "warnings", "heapq", "errno", "copyreg", "re", "importlib"}


def loaded(statement: str) -> set[str]:
    """The modules in `sys.modules` after the statement, less those a bare interpreter has."""
    code = f"import sys; start = set(sys.modules); {statement}\nprint(*sorted(set(sys.modules) - start), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_importing_the_package_loads_nothing_else() -> None:
    modules = loaded("import durable_tui")
    assert {name for name in modules if name.startswith("durable_tui")} == {
        "durable_tui",
        "durable_tui.ground",
        "durable_tui.ground.lazy",
    }
    assert not packages(modules) & HEAVY
    foreign = packages(modules) - LIGHT - {"durable_tui"}
    assert not {name for name in foreign if not name.startswith("_")}


def test_the_screen_reads_markdown_and_ignore_files_only_when_there_are_some() -> None:
    loaded_by_the_screen = packages(
        loaded("import durable_tui.ui.app, durable_tui.ui.text.layout, durable_tui.ui.files")
    )
    assert "textual" in loaded_by_the_screen
    assert not loaded_by_the_screen & {"markdown_it", "pathspec", "pygments"}


def test_every_public_name_loads_when_it_is_asked_for() -> None:
    code = (
        "import durable_tui\n"
        "for name in durable_tui.__all__:\n"
        "    assert name in dir(durable_tui), name\n"
        "    assert getattr(durable_tui, name) is getattr(durable_tui, name), name\n"
        "try:\n"
        "    durable_tui.nothing\n"
        "except AttributeError as error:\n"
        "    assert 'nothing' in str(error)\n"
        "else:\n"
        "    raise SystemExit('an unknown name was found')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_documented_names_stand_in_the_root() -> None:
    import durable_tui

    documented = "Harness Registry Extension tool SessionLocked StorageRejected ReadAfterWrite ConversationBusy"
    assert set(documented.split()) <= set(durable_tui.__all__)


def test_the_launcher_is_standard_library_only_and_starts_no_loop() -> None:
    modules = loaded("import durable_tui.cli.launcher")
    ours = {name for name in modules if name.startswith("durable_tui.")}
    assert ours == {
        "durable_tui.cli",
        "durable_tui.cli.launcher",
        "durable_tui.host",
        "durable_tui.host.terminal",
        "durable_tui.ground",
        "durable_tui.ground.lazy",
    }
    assert not {name for name in packages(modules) - LIGHT - {"durable_tui"} if not name.startswith("_")}
    assert "asyncio" not in modules
    assert "subprocess" not in modules


def test_the_entry_point_is_light_until_it_knows_what_to_run() -> None:
    assert not packages(loaded("import durable_tui.__main__")) & HEAVY


@pytest.mark.parametrize(
    "floor", ["delta", "storage", "session", "models", "environment", "harness", "tools", "host", "forensics"]
)
def test_floors_below_the_screen_import_light(floor: str) -> None:
    assert not packages(loaded(f"import durable_tui.{floor}")) & {"textual", "rich", "httpx", "watchfiles", "pygments"}


def test_the_harness_facade_brings_neither_http_nor_screen() -> None:
    assert not packages(loaded("from durable_tui import Harness")) & {"textual", "rich", "httpx", "watchfiles"}
