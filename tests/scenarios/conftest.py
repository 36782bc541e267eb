"""Scenarios run on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.scenario import BACKENDS, Rig
from tests.tools.strict_provider import Script

Open = Callable[..., Awaitable[Rig]]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def opened(backend: str, tmp_path: Path) -> AsyncIterator[Open]:
    """`rig = await opened(script, **options)`; closed and checked for refused requests at the end."""
    rigs: list[Rig] = []

    async def open_rig(script: Script, **options: Any) -> Rig:
        rig = Rig(script, backend, tmp_path / f"session-{len(rigs)}.sqlite", **options)
        rigs.append(rig)
        return await rig.open()

    yield open_rig
    for rig in rigs:
        await rig.close()
        assert not rig.provider.violations, rig.provider.violations
