"""What must stay cheap: the package, and the command line up to the launcher."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "httpx", "pydantic", "textual", "rich", "sqlite3", "platformdirs")


@pytest.mark.parametrize("module", ["durable_tui", "durable_tui.cli.main", "durable_tui.cli.launcher"])
def test_spec_18_nothing_heavy_comes_with_it(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_spec_19_every_public_name_is_there() -> None:
    import durable_tui

    for name in durable_tui.__all__:
        assert getattr(durable_tui, name) is not None
    assert not hasattr(durable_tui, "nothing")
