"""The supervisor where there is no /proc and no subreaper: by parents and process group only (spec 16)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from durable_tui.environment import EnvironmentScope, LocalEnvironment, process, supervisor
from tests.tools.fake_call import marked
from tests.tools.waiting import until

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import supervisor
supervisor.become_subreaper = lambda: False
supervisor.process_table = supervisor._table_from_ps
supervisor.Supervisor(int(sys.argv[1]), int(sys.argv[2])).main()
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEnvironment:
    script = tmp_path / "elsewhere.py"
    script.write_text(SCRIPT.format(folder=str(Path(supervisor.__file__).parent)))
    monkeypatch.setattr(process, "SUPERVISOR", str(script))
    return LocalEnvironment.at(
        EnvironmentScope(str(tmp_path), session=f"elsewhere-{os.getpid()}-{time.monotonic_ns()}")
    )


def mark_of(environment: LocalEnvironment) -> str:
    return environment._scope.session


def test_both_tables_agree() -> None:
    left, right = supervisor.process_table(), supervisor._table_from_ps()
    for pid in (os.getpid(), os.getppid()):
        assert left[pid] == right[pid]
    assert left[os.getpid()][0] == os.getppid()


def test_descendants_are_found_by_parents_and_by_group() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "30"], dict(os.environ))
    try:
        assert child in supervisor.living(os.getpid(), 0)
        assert supervisor.living(child, 0) == set()
        assert os.getpid() in supervisor.living(child, os.getpgid(0))
        assert os.getpid() not in supervisor.living(os.getpid(), 0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


async def test_background_processes_of_the_group_are_ended(elsewhere: LocalEnvironment) -> None:
    result = await elsewhere.run("nohup sleep 50 > /dev/null 2>&1 & echo started; exit 2")
    assert (result.code, result.survivors_killed) == (2, 1)
    assert marked(mark_of(elsewhere)) == []


async def test_a_timeout_and_a_cancel_end_the_group(elsewhere: LocalEnvironment) -> None:
    command = f"{sys.executable} -c \"import subprocess,time; subprocess.Popen(['sleep','120']); time.sleep(120)\""
    assert (await elsewhere.run(command, timeout=1)).timed_out
    assert marked(mark_of(elsewhere)) == []
    task = asyncio.create_task(elsewhere.run(command))
    await until(lambda: len(marked(mark_of(elsewhere))) >= 2, pause=0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marked(mark_of(elsewhere)) == []
