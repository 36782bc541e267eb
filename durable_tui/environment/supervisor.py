"""Runs one command and outlives its owner just long enough to end all that the command started (spec 16).

Started as `python -I -S supervisor.py CONTROL OUTPUT`, stdlib only, already in a session of its own. CONTROL is one end
of a socket pair, OUTPUT the write end of the pipe that becomes the command's stdout and stderr.

From the owner: `LENGTH\\n`, then LENGTH bytes of NUL-separated fields: deadline in seconds or nothing, the directory,
the number of arguments, the arguments, then `NAME=VALUE` for the command's whole environment. Afterwards one letter a
request: `c` ends the command with a grace, `k` ends it now. End of file: the owner is dead.

To the owner, one JSON object a line: `{"started": pid}`, then `{"code", "signal", "timedOut", "survivors", "left"}`, or
`{"failed": "spawn" | "chdir" | "exec", "errno"}` when nothing ran. By the last line nothing of the command is alive,
except the `left` processes that the system refused to end.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

CANCEL_GRACE = 2.0  # seconds between TERM and KILL when the owner asks
END_GRACE = 1.0  # the same at a deadline or when the owner died
DRAIN = 0.25  # how long background processes may go on after the shell's normal end
LEFTOVER_GRACE = 0.2  # between TERM and KILL for those that are still there then
FREEZE_FOR = 0.5  # processes that fork faster than we stop them for so long are signalled all the same
KILL_FOR = 3.0  # give up on processes that survive KILL for so long (another user's, or stuck in the kernel)
PR_SET_CHILD_SUBREAPER = 36

Process = tuple[int, int, bool]  # parent, process group, zombie


def become_subreaper() -> bool:
    """Orphans of the command become our children, so none can leave the tree (Linux)."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def process_table() -> dict[int, Process]:
    """Every process we can see."""
    if not os.path.exists("/proc/self/stat"):
        return _table_from_ps()
    table: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if len(fields) > 2:
            table[int(name)] = (int(fields[1]), int(fields[2]), fields[0] in (b"Z", b"X"))
    return table


def _table_from_ps() -> dict[int, Process]:
    read_end, write_end = os.pipe()
    arguments = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    listing = os.posix_spawnp("ps", arguments, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)])
    os.close(write_end)
    with open(read_end, encoding="ascii", errors="replace") as pipe:
        rows = [line.split() for line in pipe]
    os.waitpid(listing, 0)
    table = {int(row[0]): (int(row[1]), int(row[2]), row[3].startswith("Z")) for row in rows if len(row) >= 4}
    table.pop(listing, None)  # our own child, but not of the command
    return table


def living(own: int, group: int) -> set[int]:
    """Descendants of `own`, and members of the process group, that are no zombies. Group 0 is nobody's."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = [own]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found:
                found.add(pid)
                queue.append(pid)
    if group:
        found.update(pid for pid, (_, member, _) in table.items() if member == group)
    found.discard(own)
    return {pid for pid in found if not table[pid][2]}


class Supervisor:
    def __init__(self, control: int, output: int) -> None:
        self.control = control
        self.output = output
        self.command = 0
        self.status: int | None = None  # the wait status of the command once it ended
        self.owner_alive = True
        self.subreaper = False
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)

    def main(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.subreaper = become_subreaper()
        order = self._read_order()
        if order is None:
            return
        deadline, directory, arguments, environment = order
        failed = self._spawn(directory, arguments, environment)
        os.close(self.output)
        if failed is not None:
            self._say(f'{{"failed": "{failed[0]}", "errno": {failed[1]}}}')
            return
        self._say(f'{{"started": {self.command}}}')
        try:
            self._supervise(deadline)
        except BaseException:
            self._kill_all()  # whatever went wrong here, the command must not live on
            raise

    def _supervise(self, deadline: float | None) -> None:
        reason = self._wait(None if deadline is None else time.monotonic() + deadline)
        if reason == "exit":
            survivors = self._end_leftovers()
        else:
            survivors = 0
            self._end_command({"cancel": CANCEL_GRACE, "kill": 0.0}.get(reason, END_GRACE))
        left = self._kill_all()
        self._report(reason == "deadline", survivors, left)

    def _read_order(self) -> tuple[float | None, bytes, list[bytes], dict[bytes, bytes]] | None:
        head = b""
        while b"\n" not in head:
            piece = os.read(self.control, 1)  # one at a time: what follows the order must stay in the socket
            if not piece:
                return None
            head += piece
        missing = int(head)
        pieces = []
        while missing:
            piece = os.read(self.control, min(missing, 65536))
            if not piece:
                return None
            pieces.append(piece)
            missing -= len(piece)
        fields = b"".join(pieces).split(b"\0")
        count = int(fields[2])
        pairs = (field.partition(b"=") for field in fields[3 + count :])
        environment = {name: value for name, _, value in pairs if name}
        return (float(fields[0]) if fields[0] else None), fields[1], fields[3 : 3 + count], environment

    def _spawn(
        self, directory: bytes, arguments: list[bytes], environment: dict[bytes, bytes]
    ) -> tuple[str, int] | None:
        """Start the command in a session of its own. Returns the stage and errno of a failure."""
        error_read, error_write = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(error_read)
            os.close(error_write)
            return "spawn", error.errno or 0
        if pid == 0:
            self._become_command(directory, arguments, environment, error_write)
        os.close(error_write)
        with open(error_read, "rb") as pipe:
            problem = pipe.read()
        if problem:
            os.waitpid(pid, 0)
            stage, _, number = problem.decode().partition(" ")
            return stage, int(number)
        self.command = pid
        return None

    def _become_command(
        self, directory: bytes, arguments: list[bytes], environment: dict[bytes, bytes], error_write: int
    ) -> None:
        stage = "spawn"
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            # what is ignored here would stay ignored in the command
            for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGCHLD", "SIGPIPE", "SIGXFSZ"):
                number = getattr(signal, name, None)
                if number is not None:
                    signal.signal(number, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(self.output, 1)
            os.dup2(self.output, 2)
            if self.output > 2:
                os.close(self.output)
            os.close(self.control)
            stage = "chdir"
            os.chdir(directory)
            stage = "exec"
            os.execve(arguments[0], arguments, environment)
        except OSError as error:
            os.write(error_write, b"%s %d" % (stage.encode(), error.errno or 0))
        finally:
            os._exit(127)

    def _wait(self, deadline: float | None) -> str:
        """Until the command ends ("exit"), the owner asks or dies ("cancel", "kill", "owner"), or "deadline"."""
        while True:
            self._reap()
            if self.status is not None:
                return "exit"
            if not self.owner_alive:
                return "owner"
            rest = None if deadline is None else deadline - time.monotonic()
            if rest is not None and rest <= 0:
                return "deadline"
            request = self._listen(rest)
            if request:
                return request

    def _listen(self, seconds: float | None) -> str | None:
        """Wait for the owner or for a child's end, at most so long. Returns what the owner wants."""
        watched = [self.wake_read, self.control] if self.owner_alive else [self.wake_read]
        # select's limit of 1024 descriptors is no matter here: this process has a handful
        ready, _, _ = select.select(watched, [], [], seconds)
        if self.wake_read in ready:
            try:
                os.read(self.wake_read, 512)
            except BlockingIOError:
                pass
        if self.control in ready:
            try:
                letters = os.read(self.control, 64)
            except OSError:
                letters = b""
            if not letters:
                self.owner_alive = False
                return "owner"
            return "kill" if b"k" in letters else "cancel"
        return None

    def _reap(self) -> bool:
        """Collect every ended child, adopted ones included. Says whether there are more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.command:
                self.status = status

    def _living(self) -> set[int]:
        more = self._reap()
        if self.subreaper:
            # whoever lost its parent is our child now: without children there are no descendants
            return living(os.getpid(), 0) if more else set()
        return living(os.getpid(), self.command)

    def _end_leftovers(self) -> int:
        """After the shell's normal end: a short drain for background processes, then they end too."""
        left = self._until_gone(DRAIN)
        if not left:
            return 0
        self._terminate()
        self._until_gone(LEFTOVER_GRACE)
        return len(left)

    def _end_command(self, grace: float) -> None:
        if grace > 0:
            self._terminate()
            self._until_gone(grace)

    def _terminate(self) -> None:
        """TERM to all at one moment: a shell that saw its child die first would go on with the next command."""
        left = self._freeze(time.monotonic() + FREEZE_FOR)
        self._signal(left, signal.SIGTERM)
        self._signal(left, signal.SIGCONT)

    def _freeze(self, end: float) -> set[int]:
        """STOP everything, until a look finds nothing new: from then on none runs, forks or sees another end."""
        stopped: set[int] = set()
        left = self._living()
        while left - stopped and time.monotonic() < end:
            self._signal(left - stopped, signal.SIGSTOP)
            stopped |= left
            left = self._living()
        return left

    def _until_gone(self, seconds: float) -> set[int]:
        """Wait until no process of the command lives, at most so long; `k` from the owner cuts it short."""
        end = time.monotonic() + seconds
        pause = 0.005
        while True:
            left = self._living()
            rest = end - time.monotonic()
            if not left or rest <= 0:
                return left
            if self._listen(min(rest, pause)) == "kill":
                return left
            pause = min(pause * 2, 0.1)

    def _kill_all(self) -> list[int]:
        """KILL, look again, until nothing is left."""
        end = time.monotonic() + KILL_FOR
        while True:
            left = self._freeze(end)
            if not left:
                return []
            self._signal(left, signal.SIGKILL)
            if time.monotonic() > end:
                return sorted(self._living())
            time.sleep(0.002)

    def _signal(self, pids: set[int], number: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _report(self, timed_out: bool, survivors: int, left: list[int]) -> None:
        status = self.status
        code = signal_number = "null"
        if status is not None and not timed_out:
            if os.WIFSIGNALED(status):
                signal_number = str(os.WTERMSIG(status))
            else:
                code = str(os.WEXITSTATUS(status))
        self._say(
            f'{{"code": {code}, "signal": {signal_number}, "timedOut": {str(timed_out).lower()}, '
            f'"survivors": {survivors}, "left": {left}}}'
        )

    def _say(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            return  # the owner is dead: its end of file tells the loops that wait


if __name__ == "__main__":
    Supervisor(int(sys.argv[1]), int(sys.argv[2])).main()
