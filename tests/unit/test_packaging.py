"""What a newcomer gets: the two commands, the lock, the entry point (design 1)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import durable_tui

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked() -> dict[str, str]:
    """Package name to locked version."""
    text = (ROOT / "requirements.lock").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ]+)", text, re.MULTILINE))


def test_the_version_is_said_once() -> None:
    assert project()["version"] == durable_tui.__version__


def test_every_dependency_is_locked_with_hashes() -> None:
    wanted = [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~;\[ ]", line)[0].lower() for line in wanted}
    assert names <= set(locked())
    blocks = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_lock_names_no_host_and_no_path() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|/", text)


def test_the_readme_holds_two_commands_that_stand_alone() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    run, test = commands
    assert run.endswith("durable-tui demo")
    assert test.endswith("pytest")
    assert all("~/.venvs/" in command for command in commands), "an environment has no place in the tree"


def test_files_the_readme_shows_or_links_are_there() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]
