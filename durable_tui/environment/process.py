"""The owner's side of a running command: starts the supervisor, reads the output, asks for the end (spec 10, 16).

The supervisor ends the command's processes; when it was killed itself, the marks in their environment lead to them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TypedDict, final

from durable_tui.environment.base import EnvironmentFailed, ProcessResult
from durable_tui.environment.files import reason
from durable_tui.environment.leftovers import kill_marked
from durable_tui.environment.spill import Spill
from durable_tui.environment.variables import MARKS, RUN_MARK
from durable_tui.ground.aio import uninterrupted

SUPERVISOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor.py")
READ_BYTES = 256 * 1024
DRAIN = 0.25  # seconds for output that is still in the pipe at the end, whoever holds it open
PATIENCE = 10.0  # seconds the supervisor gets beyond its own limits before it counts as stuck


def shell(variables: Mapping[str, str]) -> str:
    """The shell for commands: bash, or sh where there is none."""
    path = variables.get("PATH", os.defpath)
    for name in ("bash", "sh"):
        found = shutil.which(name, path=path) or shutil.which(name, path=os.defpath)
        if found:
            return found
    raise EnvironmentFailed("there is no shell on this system: neither bash nor sh was found")


@final
class _Ended(TypedDict):
    """What the supervisor says of a command that ran (`supervisor.py`)."""

    code: int | None
    signal: int | None
    timedOut: bool
    survivors: int
    left: int


@final
class _NotStarted(TypedDict):
    """What it says when nothing ran: the step that failed."""

    failed: str
    errno: int


class Command:
    """One command from start to end; `run` is called once."""

    def __init__(
        self,
        arguments: list[str],
        *,
        cwd: str,
        variables: Mapping[str, str],
        timeout: float | None,
        on_output: Callable[[bytes], None] | None,
        spill: Spill,
    ) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._variables = variables
        self._timeout = timeout
        self._on_output = on_output
        self._spill = spill
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._output = -1
        self._status: _Ended | _NotStarted | None = None
        self._ended = False  # nothing more is written to the pipe by the command
        self._stop_at = 0.0
        self._wake: asyncio.Future[None] | None = None

    async def run(self) -> ProcessResult:
        """Until the command ended. Cancelling it, or a raising `on_output`, first ends every process of the command."""
        order = self._order()
        work: list[asyncio.Task[None]] = []
        try:
            self._start()
            follow = asyncio.create_task(self._follow(order))
            pump = asyncio.create_task(self._pump())
            work = [follow, pump]
            await asyncio.wait(work, timeout=self._limit(), return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()  # it raised, or the command closed its output early
                await asyncio.wait([follow], timeout=self._limit())
            if follow.done():
                follow.result()
                await pump
            return self._result()
        finally:
            # also when all went well: this reaps the supervisor and closes what is open
            finishing, cancelled = await uninterrupted(self._finish(work), self._hurry)
            finishing.result()
            if cancelled:
                raise asyncio.CancelledError

    def _limit(self) -> float | None:
        return None if self._timeout is None else self._timeout + PATIENCE

    def _order(self) -> bytes:
        deadline = "" if self._timeout is None else repr(float(self._timeout))
        fields = [deadline, self._cwd, str(len(self._arguments)), *self._arguments]
        fields += [f"{name}={value}" for name, value in self._variables.items()]
        try:
            encoded = [os.fsencode(field) for field in fields]
        except UnicodeEncodeError:
            raise EnvironmentFailed("the command holds half of a surrogate pair") from None
        if any(b"\0" in field for field in encoded):
            raise EnvironmentFailed("the command holds a NUL character; no program can be given one")
        body = b"\0".join(encoded)
        return b"%d\n" % len(body) + body

    def _start(self) -> None:
        descriptors: list[int] = []
        try:
            control, theirs = socket.socketpair()
            self._control = control
            descriptors.append(theirs.detach())
            self._output, write_end = os.pipe()
            descriptors.append(write_end)
            control.setblocking(False)
            os.set_blocking(self._output, False)
            # the supervisor gets no mark and no secret: its environment is readable for the command
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", SUPERVISOR, *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                cwd="/",
                env={name: value for name, value in self._variables.items() if name not in MARKS},
            )
        except OSError as error:
            raise EnvironmentFailed(f"cannot start a process: {reason(error)}") from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    async def _follow(self, order: bytes) -> None:
        """Give the order and read what the supervisor says, to its last line. Then the pump stops at an empty pipe."""
        assert self._control is not None
        loop = asyncio.get_running_loop()
        text = b""
        try:
            await loop.sock_sendall(self._control, order)
            while piece := await loop.sock_recv(self._control, 4096):
                text += piece
        except ConnectionError:
            pass  # the supervisor is gone; what it said so far decides
        finally:
            self._ended = True
            self._stop_at = loop.time() + DRAIN
            self._poke()
        for line in text.splitlines():
            said = json.loads(line)
            if "started" not in said:
                self._status = said

    async def _pump(self) -> None:
        """Read the pipe until its end, or until it is empty after the command's."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                piece = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                if self._ended:
                    return
                await self._readable()
                continue
            if not piece:
                return
            if self._ended and loop.time() > self._stop_at:
                return  # whoever still writes has left the command
            if self._on_output is not None:
                self._on_output(piece)
            await self._spill.write(piece)
            await asyncio.sleep(0)  # a fast writer must not keep the loop from everyone else

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        loop.add_reader(self._output, self._poke)
        try:
            await self._wake
        finally:
            loop.remove_reader(self._output)
            self._wake = None

    def _poke(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _result(self) -> ProcessResult:
        status = self._status
        if status is None:
            raise EnvironmentFailed("the command was ended: its supervisor died or hung")
        if "failed" in status:
            raise self._refusal(str(status["failed"]), int(status["errno"]))
        detail: dict[str, object] = {}
        if status["left"]:
            detail["left"] = status["left"]
        if self._spill.problem:
            detail["outputProblem"] = self._spill.problem
        return ProcessResult(
            code=status["code"],
            signal=status["signal"],
            timed_out=status["timedOut"],
            output_path=self._spill.path,
            output_bytes=self._spill.total,
            survivors_killed=status["survivors"],
            detail=detail,
        )

    def _refusal(self, stage: str, number: int) -> EnvironmentFailed:
        why = reason(OSError(number, os.strerror(number)))
        if stage == "chdir":
            return EnvironmentFailed(f"cannot run in the directory {self._cwd}: {why}")
        if stage == "exec":
            return EnvironmentFailed(f"cannot run {self._arguments[0]}: {why}")
        return EnvironmentFailed(f"cannot start a process: {why}")

    def _ask(self, letter: bytes) -> None:
        if self._control is not None and not self._ended:
            try:
                self._control.send(letter)
            except OSError:
                return  # it is gone, or about to see our end of file

    def _hurry(self) -> None:
        """Asked again to stop: no grace any more."""
        self._ask(b"k")

    async def _finish(self, work: list[asyncio.Task[None]]) -> None:
        """End what still runs, reap the supervisor, close everything. Takes at most a few seconds."""
        self._on_output = None  # whatever comes now belongs to nobody
        follow = work[0] if work else None
        if follow is not None and not follow.done():
            self._ask(b"c")
            await asyncio.wait([follow], timeout=PATIENCE)
            follow.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        if self._control is not None:
            self._control.close()
        if self._output >= 0:
            os.close(self._output)
        self._spill.close()
        if self._process is not None:
            await self._reap(self._process)

    async def _reap(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        pause = 0.001
        while process.poll() is None:
            if self._status is None and loop.time() > end:
                process.send_signal(signal.SIGKILL)  # it hangs; its processes are found by their mark
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)
        if self._status is None:
            await asyncio.to_thread(kill_marked, RUN_MARK, self._variables[RUN_MARK])
