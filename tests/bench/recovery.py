"""Process start to the first commit of recovered work: `durable-tui resume` on a session left by a SIGKILL.

Interleaved with a bare interpreter importing sqlite3 and with a bare import of all the modules the command had loaded.
The kill is real, in the middle of an answer; every round resumes a fresh copy of what it left. The moment is the time
stored with the verdict of the recovered task (spec 25: p95 at most 1 s).

    python tests/bench/recovery.py [--quick]
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, alone, median, percentile, show
from tests.bench.screens import Place

SLOW = [{"text": "word " * 400, "delay": 60}]
IMPORTS = """\
import contextlib, importlib
for name in {modules!r}:
    with contextlib.suppress(ImportError):  # some were only looked for
        importlib.import_module(name)
"""
QUICK = [{"text": "It is done."}]


def killed(place: Place, session: Path) -> None:
    """Leave a session whose answer was being streamed when its process was killed."""
    place.script(SLOW)
    command = [sys.executable, "-m", "durable_tui", "run", "--session", str(session), "Fix the configuration"]
    process = subprocess.Popen(
        command, env=place.env, cwd=place.project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not streaming(session):
        assert time.monotonic() < deadline and process.poll() is None, "the answer never began"
        time.sleep(0.02)
    process.kill()
    process.wait()


def streaming(session: Path) -> bool:
    if not session.exists():
        return False
    reader = sqlite3.connect(f"file:{session}?mode=ro", uri=True, timeout=5)
    try:
        contents = reader.execute("SELECT content FROM document_revisions").fetchall()
        return any('"word' in content for (content,) in contents)
    except sqlite3.OperationalError:
        return False
    finally:
        reader.close()


def resume(place: Place, session: Path) -> float:
    """Seconds from the start of the process to the commit that decided about the found task."""
    began = time.time()
    command = [sys.executable, "-m", "durable_tui", "resume", str(session)]
    done = subprocess.run(command, env=place.env, cwd=place.project, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return verdict_at(session) / 1000 - began


def verdict_at(session: Path) -> int:
    """When the first verdict about found work was committed, in milliseconds."""
    reader = sqlite3.connect(session)
    try:
        found = "SELECT min(seq) FROM document_revisions WHERE content LIKE '%\"verdict\"%'"
        return int(reader.execute(f"SELECT at FROM commits WHERE seq = ({found})").fetchone()[0])
    finally:
        reader.close()


def bare(place: Place, *words: str) -> float:
    """Seconds until a bare interpreter has run something."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], env=place.env, cwd=place.project, check=True, timeout=60)
    return time.perf_counter() - began


def modules(place: Place, session: Path) -> Sequence[str]:
    """What the command had imported in the end, in order."""
    command = [sys.executable, "-X", "importtime", "-m", "durable_tui", "resume", str(session)]
    done = subprocess.run(command, env=place.env, cwd=place.project, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return [name for line in lines[1:] if "__main__" not in (name := line.rpartition("|")[2].strip())]


def bench(quick: bool = False) -> list[Result]:
    rounds = 4 if quick else 30
    times: dict[str, list[float]] = {"resume": [], "sqlite3": [], "imports": []}
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        left = Path(name) / "left.sqlite"
        killed(place, left)
        place.script(QUICK)

        def copy(number: int) -> Path:
            path = Path(name) / f"copy-{number}.sqlite"
            for suffix in ("", "-wal"):
                if Path(f"{left}{suffix}").exists():
                    shutil.copy(f"{left}{suffix}", f"{path}{suffix}")
            return path

        resume(place, copy(0))  # writes the byte code
        names = modules(place, copy(1))
        same = Path(name) / "same.py"
        same.write_text(IMPORTS.format(modules=list(names)))
        bare(place, str(same))
        for number in range(2, rounds + 2):
            times["resume"].append(resume(place, copy(number)))
            times["sqlite3"].append(bare(place, "-c", "import sqlite3"))
            times["imports"].append(bare(place, str(same)))
    p50, p95 = median(times["resume"]), percentile(times["resume"], 95)
    base, imports = median(times["sqlite3"]), median(times["imports"])
    detail = f"p50 {show(p50)} p95 {show(p95)}, {rounds} resumes"
    return [
        Result("recovery: start to the first commit of recovered work, p95", p95, 1.0, detail, "s"),
        Result("recovery / a bare `import sqlite3`", p50 / base, None, f"bare {show(base)}"),
        Result("recovery / a bare import of the same modules", p50 / imports, None, f"bare {show(imports)}"),
    ]


if __name__ == "__main__":
    alone(bench, __doc__)
