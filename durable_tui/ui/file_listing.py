"""The files below a directory that git would show: asked of git in a repository, else walked by the same rules.

Everything here blocks: call it in a thread. Names that cannot be written in a message are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

TIME_LIMIT = 30.0  # seconds a listing may take; what was found until then counts
READ = 1 << 16  # bytes
DEEPEST = 8  # repositories inside each other
IGNORE_FILE_LIMIT = 1 << 20  # bytes
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_GIT = ("git", "--literal-pathspecs", "-c", "core.fsmonitor=false", "ls-files", "-z")
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


def list_files(directory: str, limit: float = TIME_LIMIT) -> Iterator[str]:
    """Paths relative to the directory, each once, as they are found."""
    deadline = time.monotonic() + limit
    empty = True
    for path in _from_git(directory, "", deadline):
        empty = False
        yield path
    if empty:  # no git, no repository, or a folder of one that is ignored as a whole
        yield from walk(directory, deadline)


# --- git ----------------------------------------------------------------------------------------------------------


def _from_git(directory: str, prefix: str, deadline: float, depth: int = 0) -> Iterator[str]:
    """What git lists of a repository and of those inside it; nothing where there is none."""
    gone = set(_names(directory, deadline, "--deleted"))
    inner: list[str] = []
    former = ""
    for record in _names(directory, deadline, "--stage"):
        facts, _, name = record.partition("\t")
        if facts.startswith("160000"):
            inner.append(name)
        elif name not in gone and name != former:  # one in conflict comes up to three times
            former = name
            if not _UNWRITABLE.search(name):
                yield prefix + name
    for name in _names(directory, deadline, "--others", "--exclude-standard"):
        if name.endswith("/"):
            inner.append(name.rstrip("/"))
        elif not _UNWRITABLE.search(name):
            yield prefix + name
    for name in inner if depth < DEEPEST else ():
        folder = os.path.join(directory, name)
        # A submodule not checked out has no repository of its own: git would list the one around it.
        if not _UNWRITABLE.search(name) and os.path.lexists(os.path.join(folder, ".git")):
            yield from _from_git(folder, f"{prefix}{name}/", deadline, depth + 1)


def _names(directory: str, deadline: float, *options: str) -> Iterator[str]:
    with _git(directory, deadline, options) as process:
        rest = b""
        while process is not None and process.stdout is not None and (data := process.stdout.read(READ)):
            *whole, rest = (rest + data).split(b"\0")
            yield from map(os.fsdecode, whole)


@contextmanager
def _git(directory: str, deadline: float, options: Sequence[str]) -> Iterator[subprocess.Popen[bytes] | None]:
    """A listing by git that takes no locks, runs nothing the repository names, and is over by the deadline."""
    environment = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        process = subprocess.Popen(
            [*_GIT, *options],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        yield None
        return
    timer = threading.Timer(max(deadline - time.monotonic(), 0), process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


# --- without git --------------------------------------------------------------------------------------------------


def walk(directory: str, deadline: float) -> Iterator[str]:
    """Relative paths of files, shallow ones first, less what `.gitignore` files on the way leave out."""
    level: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", ())]
    while level:
        deeper = []
        for folder, rules in level:
            if time.monotonic() > deadline:
                return
            try:
                with os.scandir(os.path.join(directory, folder)) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            if any(entry.name == ".gitignore" for entry in found):
                rules = (*rules, (folder, _rules_of(os.path.join(directory, folder, ".gitignore"))))
            for entry in found:
                path = folder + entry.name
                if entry.name == ".git" or _UNWRITABLE.search(entry.name):
                    continue
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)  # a link is a file: it may lead back
                except OSError:
                    continue
                path += "/" if is_folder else ""
                if _ignored(path, rules):
                    continue
                if is_folder:
                    deeper.append((path, rules))
                else:
                    yield path
        level = deeper


def _rules_of(path: str) -> GitIgnoreSpec:
    """The rules of an ignore file; lines that are none do not count."""
    from pathspec import GitIgnoreSpec

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(IGNORE_FILE_LIMIT).splitlines()
    except OSError:
        lines = []
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_rule(line))


def _is_rule(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _ignored(path: str, rules: Sequence[tuple[str, GitIgnoreSpec]]) -> bool:
    """What the deepest file with an opinion says."""
    for folder, spec in reversed(rules):
        said = spec.check_file(path[len(folder) :]).include
        if said is not None:
            return said
    return False
