"""What model servers on this machine or near it have: each is asked for its list of models, all at once and briefly.

The list is `GET {base}/models` as OpenAI has it: `{data: [{id, …}]}`. llama.cpp tells the context of one request in
`meta.n_ctx`, vLLM in `max_model_len`, others in `context_length` or `context_window`. Whatever else runs at a usual port
is told from a model server, however long it makes its answer or takes for it.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from durable_tui.models.json_text import Wire, WireObject, as_object, as_objects, as_text, decode

CONNECT_TIMEOUT = 0.2
TIMEOUT = 1.0  # for a whole answer
_LIMIT = 4 * 1024 * 1024
# These do not chat, but stand in the same lists.
_NO_CHAT = re.compile(r"embed|rerank", re.IGNORECASE)

State = Literal["lists", "empty", "absent", "silent", "loading", "refused", "foreign"]


@dataclass(slots=True, frozen=True)
class Server:
    """Whom to ask: the whole URL of the list, and the headers that its requests have."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True, frozen=True)
class Outcome:
    """The outcome of asking. `models` are ids with their context windows in tokens (None when it is not told).

    `state`: it lists models; it lists none that chats; nothing accepts connections there; it did not answer in time; it
    is still loading; it wants a key or another one; what answers there is no model server.
    """

    state: State
    models: Mapping[str, int | None] = field(default_factory=dict)


def ask(servers: Sequence[Server], timeout: float = TIMEOUT) -> list[Outcome]:
    """Ask all servers for their models, each in a thread of its own. Waits at most `timeout` seconds for all together."""
    asked = [_Asking(server, timeout) for server in servers]
    end = time.monotonic() + timeout
    for one in asked:
        one.start()
    for one in asked:
        one.join(max(end - time.monotonic(), 0.0))
    return [one.end() for one in asked]


class _Asking(threading.Thread):
    """One question. A thread that is late is left alone; its connection is cut, so that it ends soon."""

    def __init__(self, server: Server, timeout: float) -> None:
        super().__init__(name="models of a local server", daemon=True)
        self._server = server
        self._timeout = timeout
        self._outcome = Outcome("silent")
        self._socket: socket.socket | None = None
        self._over = False

    def run(self) -> None:
        self._outcome = self._ask()

    def end(self) -> Outcome:
        outcome, self._over = self._outcome, True
        if self.is_alive() and self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        return outcome

    def _ask(self) -> Outcome:
        try:
            parts = urlsplit(self._server.url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_TIMEOUT)
        except (ValueError, http.client.InvalidURL):
            return Outcome("absent")
        try:
            connection.connect()
        except OSError:
            return Outcome("absent" if connection.sock is None else "foreign")
        try:
            self._socket = connection.sock
            connection.sock.settimeout(self._timeout)
            if self._over:
                return Outcome("silent")
            headers = {"accept": "application/json", "user-agent": "durable-tui", **self._server.headers}
            connection.request("GET", parts._replace(scheme="", netloc="").geturl(), headers=headers)
            answer = connection.getresponse()
            return _read(answer.status, answer.read(_LIMIT))
        except TimeoutError:
            return Outcome("silent")
        except (OSError, http.client.HTTPException, ValueError):
            return Outcome("foreign")
        finally:
            connection.close()


def _read(status: int, body: bytes) -> Outcome:
    if status in (401, 403):
        return Outcome("refused")
    try:
        value = decode(body)
    except (ValueError, RecursionError):
        return Outcome("foreign")
    if status == 503 and isinstance(value, dict) and "error" in value:  # llama.cpp, until its model is there
        return Outcome("loading")
    models = listed(value) if status == 200 else None
    if models is None:
        return Outcome("foreign")
    return Outcome("lists" if models else "empty", models)


def listed(value: Wire) -> dict[str, int | None] | None:
    """The models of a list, as in Outcome; None for what is no such list."""
    entries = value.get("data") if isinstance(value, dict) else value
    if entries is None and as_object(value).get("object") == "list":  # Ollama without any model
        entries = []
    if not isinstance(entries, list):
        return None
    models: dict[str, int | None] = {}
    for entry in as_objects(entries):
        name = as_text(entry.get("id"))
        if name.strip() and name.isprintable() and not _NO_CHAT.search(name):
            models.setdefault(name, _window(entry))
    return models


def _window(entry: WireObject) -> int | None:
    sizes = [as_object(entry.get("meta")).get("n_ctx")]
    sizes += [entry.get(name) for name in ("max_model_len", "context_length", "context_window")]
    return next((size for size in sizes if type(size) is int and size > 0), None)


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    address = _address(url)
    return address is not None and address.is_loopback


def is_near(url: str) -> bool:
    """Whether the URL's host is this machine or one with an address of a private network."""
    address = _address(url)
    return address is not None and address.is_private


def same_place(one: str | None, other: str | None) -> bool:
    """Whether two URLs lead to the same server."""
    first, second = (re.sub(r"^(https?://)localhost(?=[:/]|$)", r"\g<1>127.0.0.1", url or "") for url in (one, other))
    return first.rstrip("/") == second.rstrip("/")


def _address(url: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        host = urlsplit(url).hostname or ""
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None
