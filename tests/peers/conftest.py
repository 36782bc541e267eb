"""The servers, each started once and only when a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.kit import APIS, HERE, Server, aimock_folder, free_port, llama, peers, ready

TEMPLATES = HERE / "templates"


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def folder() -> Path:
    return peers()


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def calling(folder: Path, logs: Path) -> Iterator[Server]:
    """A model that calls a tool when it is offered one, then says what the tool answered."""
    with ready(llama(folder, logs / "calling", "--template", TEMPLATES / "tools.jinja")) as server:
        yield server


@pytest.fixture(scope="session")
def thinking(folder: Path, logs: Path) -> Iterator[Server]:
    """A model that thinks before it answers."""
    with ready(llama(folder, logs / "thinking", "--template", TEMPLATES / "think.jinja")) as server:
        yield server


@pytest.fixture(scope="session")
def endless(folder: Path, logs: Path) -> Iterator[Server]:
    """A model that talks until it is stopped."""
    options = ("--template", TEMPLATES / "tools.jinja", "--endless")
    with ready(llama(folder, logs / "endless", *options)) as server:
        yield server


@pytest.fixture(scope="session")
def judging(folder: Path, logs: Path) -> Iterator[Server]:
    """llmock, which breaks as it is told to and judges its client.

    It speaks at a pace, so that it sees when a client stops reading. Prompts of over 8000 tokens are too long for it.
    """
    port = free_port()
    options = ("--context-window", "8000", "--stream-chunk-delay-ms", "10", "--response-style", "hello")
    command = (folder / "venv" / "bin" / "llmock", "serve", "--port", str(port), *options)
    with ready(Server(command, port, logs / "llmock", "/health")) as server:
        yield server


@pytest.fixture(scope="session")
def aimock_bin(folder: Path) -> Path:
    """Where aimock's commands are. Without it the test is skipped with prepare.py's reason."""
    return aimock_folder(folder) / ".bin"


@pytest.fixture(scope="session")
def acting(aimock_bin: Path, logs: Path) -> Iterator[Server]:
    """aimock, which plays our fixtures three characters at a time."""
    port = free_port()
    options = ("--fixtures", HERE / "fixtures", "--latency", "5", "--chunk-size", "3", "--log-level", "warn")
    with ready(
        Server((aimock_bin / "llmock", "--port", str(port), *options), port, logs / "aimock", "/health")
    ) as server:
        yield server
