"""Servers of a few lines, for what else may run at a port: each connection is handed to a function."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any


class TinyServer(socketserver.ThreadingTCPServer):
    """`asked` are the heads of the requests received; `over` is set at the end, for those that hang until then."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, talk: Callable[[TinyServer, socket.socket], None]) -> None:
        self.talk = talk
        self.asked: list[str] = []
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def head(self, connection: socket.socket) -> str:
        """Read the head of a request."""
        head = b""
        while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
            head += piece
        self.asked.append(head.decode("latin-1"))
        return self.asked[-1]


class _Handler(socketserver.BaseRequestHandler):
    server: TinyServer

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client has gone, which is its right
            self.server.talk(self.server, self.request)


@contextlib.contextmanager
def tiny(talk: Callable[[TinyServer, socket.socket], None]) -> Iterator[TinyServer]:
    with TinyServer(talk) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join(10)


def says(body: Any, status: int = 200, kind: str = "application/json") -> Callable[[TinyServer, socket.socket], None]:
    """Answers each request alike; a body that is no bytes becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def talk(server: TinyServer, connection: socket.socket) -> None:
        server.head(connection)
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)

    return talk


def lists(*models: Any) -> Callable[[TinyServer, socket.socket], None]:
    """A model server's list; a text is an id."""
    items = [{"id": model, "object": "model"} if isinstance(model, str) else model for model in models]
    return says({"object": "list", "data": items})


def hangs(server: TinyServer, connection: socket.socket) -> None:
    """Takes the request and says nothing."""
    server.head(connection)
    server.over.wait(60)


def drips(server: TinyServer, connection: socket.socket) -> None:
    """One byte of its answer after the other, for ever."""
    server.head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{")
    while not server.over.wait(0.02):
        connection.sendall(b" ")


def floods(server: TinyServer, connection: socket.socket) -> None:
    """A web page without an end."""
    server.head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
    while not server.over.is_set():
        connection.sendall(b"<p>" + b"x" * 65536)
