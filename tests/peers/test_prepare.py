"""What brings the servers: pinned, without a host's name, done once, and never into the work tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.kit import HERE

pytestmark = pytest.mark.peers


def prepare(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HERE / "prepare.py", folder],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("name", ["requirements.lock", "weights.lock"])
def test_every_package_is_pinned_by_hashes_and_no_host_is_named(name: str) -> None:
    text = (HERE / name).read_text()
    packages = re.split(r"\n(?=\S)", text)
    assert packages and all(re.match(r"[a-z0-9-]+==\S+", package) for package in packages)
    assert all("--hash=sha256:" in package for package in packages)
    assert not re.search(r"://|--(extra-)?index-url|--find-links|/", text)


def test_the_packages_of_node_are_pinned_by_hashes_and_no_host_is_named() -> None:
    text = (HERE / "package-lock.json").read_text()
    packages = {name: item for name, item in json.loads(text)["packages"].items() if name}
    assert packages and all(re.match(r"sha512-", item["integrity"]) for item in packages.values())
    assert "://" not in text and "resolved" not in text


def test_the_work_tree_is_no_place_for_them() -> None:
    wrong = HERE / "brought"
    done = prepare(wrong)
    assert done.returncode == 2 and "outside" in done.stderr and not wrong.exists()


def test_what_is_there_is_left_alone(folder: Path, tmp_path: Path) -> None:
    """Also says so when the folder was made from other locks than these."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    done = prepare(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "venv: is there" in done.stdout and "model.gguf: is there" in done.stdout
    assert (tmp_path / "venv").is_symlink() and (tmp_path / "model.gguf").is_symlink()
