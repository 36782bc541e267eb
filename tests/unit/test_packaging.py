"""What a newcomer gets: the two commands, the lock, the entry point (spec 18)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import durable_tui
from durable_tui.host.settings import load_config
from tests.tools.model_server import ModelServer
from tests.tools.processes import clean_environment

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
    assert test.endswith("bin/pytest -n auto")
    assert all("~/.venvs/" in command for command in commands), "an environment has no place in the tree"


def test_every_tool_of_the_tests_has_its_line() -> None:
    text = (ROOT / "tests/tools/README.md").read_text()
    named = {*re.findall(r"([a-z0-9_]+\.(?:py|c))\b", text)} | {
        f"{name}.py" for name in re.findall(r"tests\.tools\.(\w+)", text)
    }
    there = {path.name for path in (ROOT / "tests/tools").iterdir() if path.suffix in (".py", ".c")}
    assert named == {name for name in there if not name.startswith(("__", "test_"))}


def test_files_the_readme_shows_or_links_are_there() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def readme_block(language: str) -> str:
    """The one code block of the README in that language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_configuration_in_the_readme_is_accepted_and_has_the_defaults_it_tells(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(readme_block("toml"))
    shown = load_config(path)
    assert shown.model == "local/qwen3" and shown.keys == {"help": "ctrl+g"}
    assert set(shown.settings) >= {"durability", "restart_limit", "retry", "limits"}
    path.write_text("")
    default = load_config(path)
    assert (shown.durability, shown.harness_settings()) == (default.durability, default.harness_settings())


def test_the_library_example_in_the_readme_works_and_submits_once(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(readme_block("python"))
    turns = [{"calls": [{"name": "add", "args": {"a": 2, "b": 3}}]}, {"text": "It is 5."}]
    with ModelServer(turns, strict=True) as server:
        environment = clean_environment(
            tmp_path, {"DEEPSEEK_API_KEY": "test-key", "DEEPSEEK_BASE_URL": server.base_url}
        )
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "example.py"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert (done.returncode, done.stdout) == (0, "done None\n"), done
        assert len(server.requests) == 2 and not server.violations
