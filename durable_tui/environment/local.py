"""The files and processes of this machine."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterable

from durable_tui.environment import files
from durable_tui.environment.base import (
    EnvironmentFactory,
    EnvironmentFailed,
    EnvironmentScope,
    FileInfo,
    ProcessResult,
)
from durable_tui.environment.process import Command, shell
from durable_tui.environment.spill import Spill
from durable_tui.environment.variables import RUN_MARK, SESSION_MARK, TASK_MARK, command_variables
from durable_tui.ground.aio import uninterrupted


class LocalEnvironment:
    """Files and processes as this process's user sees them.

    Commands run in `bash -c` (sh without bash), in a session of their own, stdin empty, with stdout and stderr merged.
    Decided for background processes (`server &`): they may go on for a quarter of a second after the shell's normal
    end, then they are ended and counted in `survivors_killed`; a command that should stay has to be waited for.
    When this process dies, the command and all its descendants are ended within three seconds (spec 16, "kill").
    """

    def __init__(self, scope: EnvironmentScope, *, secrets: Iterable[str] = ()) -> None:
        self.id = f"local:{socket.gethostname()}"
        self.cwd = files.resolve(os.getcwd() if not os.path.isabs(scope.cwd) else "/", scope.cwd)
        self._scope = scope
        self._secrets = tuple(secrets)

    @classmethod
    def at(cls, scope: EnvironmentScope | str) -> LocalEnvironment:
        """The environment for a scope, or for a plain directory."""
        return cls(EnvironmentScope(scope) if isinstance(scope, str) else scope)

    @classmethod
    def hiding(cls, secrets: Iterable[str]) -> EnvironmentFactory:
        """A factory like `at` whose commands do not see these variables either (keys named in the configuration)."""
        hidden = tuple(secrets)
        return lambda scope: cls(scope, secrets=hidden)

    def resolve(self, path: str) -> str:
        return files.resolve(self.cwd, path)

    async def stat(self, path: str) -> FileInfo | None:
        return await asyncio.to_thread(files.stat_path, self.resolve(path))

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await asyncio.to_thread(files.read_bytes, self.resolve(path), offset, limit)

    async def list_names(self, path: str) -> list[str]:
        return await asyncio.to_thread(files.list_names, self.resolve(path))

    async def write_bytes(self, path: str, content: bytes) -> None:
        stop = threading.Event()
        work = asyncio.to_thread(files.write_atomic, self.resolve(path), content, stop)
        # the thread cannot be cancelled: it is told to give up, and nothing may go on behind the caller's back
        writing, cancelled = await uninterrupted(work, stop.set)
        if cancelled:
            raise asyncio.CancelledError
        writing.result()

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ProcessResult:
        info = await self.stat(self.cwd)
        if info is None:
            raise EnvironmentFailed(f"the working directory {self.cwd} does not exist")
        if info.kind != "directory":
            raise EnvironmentFailed(f"the working directory {self.cwd} is a file, not a directory")
        nonce = uuid.uuid4().hex
        marks = {TASK_MARK: str(self._scope.task_id), SESSION_MARK: self._scope.session, RUN_MARK: nonce}
        variables = command_variables(os.environ, cwd=self.cwd, marks=marks, secrets=self._secrets)
        return await Command(
            [shell(variables), "-c", command],
            cwd=self.cwd,
            variables=variables,
            timeout=timeout,
            on_output=on_output,
            spill=Spill(self._scope.files, f"command-{self._scope.task_id}-{nonce[:12]}.log"),
        ).run()
