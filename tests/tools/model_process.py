"""The scripted model server (model_server.py) as a process of its own: it outlives clients that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = Path(__file__).resolve().parent / "model_server.py"


@contextmanager
def model_process(directory: Path, script: Any, *options: str) -> Iterator[str]:
    """Serve `script`, written into `directory`, with these options of the program; gives `http://127.0.0.1:PORT/v1`."""
    path = directory / "script.json"
    path.write_text(json.dumps(script))
    command = [sys.executable, str(SERVER), "--port", "0", "--script", str(path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=directory) as server:
        assert server.stdout is not None
        word, port = server.stdout.readline().split()
        assert word == "PORT"
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            assert server.wait(10) == 0
