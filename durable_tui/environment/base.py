"""The files and processes a tool may touch (spec 1, 10). Built per call by the host's factory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol


class EnvironmentFailed(Exception):
    """The environment refused: no such directory, no permission, no space. The message is fit for the model."""


@dataclass(slots=True, frozen=True)
class EnvironmentScope:
    """For what an environment is built. `files` is the session's folder for command output, or None."""

    cwd: str
    files: str | None = None
    conversation_id: int = 1
    task_id: int = 0
    session: str = ""  # a mark found in the environment of processes, to list leftovers


@dataclass(slots=True, frozen=True)
class FileInfo:
    """The answer of `stat`; `kind` follows links. Times in nanoseconds; `links` counts the names of the file."""

    path: str  # canonical
    kind: Literal["file", "directory", "other"]
    size: int
    mode: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    links: int = 1


@dataclass(slots=True, frozen=True)
class ProcessResult:
    """The end of a command. Exactly one of `code` and `signal` is set, unless it timed out.

    `survivors_killed` counts background processes that were still there after the shell's normal end. `detail` may hold
    `left` (pids the system refused to end) and `outputProblem` (why `output_path` does not hold everything).
    """

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    output_path: str | None = None  # the file with the whole output, when there is a place for it
    output_bytes: int = 0
    survivors_killed: int = 0
    detail: dict[str, object] = field(default_factory=dict)


class Environment(Protocol):
    """Paths may be relative to `cwd`. Every method raises EnvironmentFailed with a clear message."""

    id: str
    cwd: str

    def resolve(self, path: str) -> str:
        """The absolute path, `~` expanded, not following links."""

    async def stat(self, path: str) -> FileInfo | None:
        """None when nothing is there."""

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """At most `limit` bytes of a regular file from `offset`, fewer only at its end. Refuses anything else at once."""

    async def write_bytes(self, path: str, content: bytes) -> None:
        """Replace a file atomically, through symbolic links, keeping its mode; makes missing parents.

        Another hard link of the file keeps the old content. Cancelling it leaves the old or the new content, and
        nothing goes on behind.
        """

    async def list_names(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ProcessResult:
        """Run a shell command under its supervisor; output arrives in pieces. Cancelling ends every descendant first."""


EnvironmentFactory = Callable[[EnvironmentScope], Environment]
