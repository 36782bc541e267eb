"""How the scripted server puts bytes on the wire, and breaks them (see model_server.py for faults). Standard library only."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol


class HungUp(OSError):
    """The client closed its end, or the server stops."""


class Owner(Protocol):
    stopping: threading.Event


class Transport(BaseHTTPRequestHandler):
    """Bodies in chunks, with a fault. Raises OSError."""

    owner: Owner
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def send_whole(self, value: Any, fault: dict[str, Any]) -> None:
        """One JSON object, broken as the fault says."""
        if not fault:
            self.send_json(200, value)
            return
        self.send_head("application/json")
        self.send_frames([json.dumps(value).encode()], fault, 0.0)
        self.wfile.write(b"0\r\n\r\n")

    def send_head(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def send_frames(self, frames: list[bytes], fault: dict[str, Any], delay: float) -> None:
        size = fault.get("chunk_bytes")
        pause = fault.get("chunk_delay", 0.0) if size else delay / max(1, len(frames))
        data = b"".join(frames)
        pieces = [data[i : i + size] for i in range(0, len(data), size)] if size else frames
        marks = {name: int(fault[name]) for name in ("cut_after", "reset_after") if name in fault}
        if "stall" in fault:
            marks["stall"] = int(fault.get("stall_after", 0))
        sent = 0
        for piece in pieces:
            for name, mark in sorted(marks.items(), key=lambda item: item[1]):
                if sent <= mark <= sent + len(piece):
                    self._send(piece[: mark - sent])
                    piece, sent = piece[mark - sent :], mark
                    del marks[name]
                    if self._break(name, fault):
                        return
            self._send(piece)
            sent += len(piece)
            self.wait(pause)

    def _break(self, name: str, fault: dict[str, Any]) -> bool:
        """Do what the fault says; true when the body ends here."""
        if name == "stall":
            self.wait(1e9 if fault["stall"] is True else float(fault["stall"]))
            return False
        if name == "reset_after":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            raise ConnectionResetError
        if fault.get("abrupt"):
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        return True

    def _send(self, piece: bytes) -> None:
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def wait(self, seconds: float) -> None:
        """Wait, noticing at once when the client hangs up or the server stops."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.owner.stopping.is_set():
                raise HungUp
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.05))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise HungUp

    def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        given = {key.lower(): text for key, text in (headers or {}).items()}
        kind = "text/plain" if isinstance(value, str) else "application/json"
        for key, text in {"content-type": kind, "content-length": str(len(data)), **given}.items():
            self.send_header(key, text)
        self.end_headers()
        self.wfile.write(data)
