"""A chat-completions server that plays a script, breaks on demand and keeps no conversation. Standard library only.

    python tests/tools/model_server.py --port 0 --script FILE.json [--log FILE.jsonl] [--strict] [--delay S]

prints `PORT n` on its first line and serves until SIGTERM, SIGINT or the end of its stdin when `--until-eof` is given.
`--log` gets each request body as one JSON line, written before the answer begins. `--strict` answers 400 when
`tests/tools/strict.py` finds a violation.

A script is a list of turns, or `{"turns": [...], "match": {TEXT: [turns], ...}}`, where the first TEXT found in the last
user message chooses its list. The turn is the number of assistant messages since the last user message of the request,
so it does not matter how often a client died in between.

A turn: `{"text"?, "thinking"?, "calls"?: [{"name", "args"?, "id"?, "raw"?}], "delay"?, "error"?, "usage"?, "finish"?,
"done"?, "body"?, "json"?}`. `delay` seconds are spread over it; `error` is an error object sent inside the stream after
the text; `raw` are arguments as they are; `finish` another finish reason, null for none; `done: false` leaves out
[DONE]; `body` is the whole body as text, sent as it is; `json` answers with one JSON object instead of a stream.

Faults of a turn, in the turn itself or, one after the other, in a list `faults`:
`status` with `body` and `headers` (an error answer) · `cut_after` bytes the body ends in order (`"abrupt": true`:
without its last chunk) · `reset_after` bytes the connection is reset · `stall` seconds of silence (true: for ever) after
`stall_after` bytes (default: after the head) · `chunk_bytes` and `chunk_delay` seconds re-chunk the body · `times`: how
many requests meet the fault (a fault of the turn itself: all; one in `faults`: 1).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import select
import signal
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

PAST_THE_END = "The script has no more turns."
TOOL_IMAGES = "Images from the tool results above:"
_FAULTS = ("status", "cut_after", "reset_after", "stall", "chunk_bytes", "chunk_delay")
_FAULT_KEYS = (*_FAULTS, "headers", "abrupt", "stall_after", "times")


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def is_input(message: dict[str, Any]) -> bool:
    """Whether a user message is a person's: images of tools come in one too."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def choose_turn(script: Any, messages: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """The number of the turn and the turn, from the request alone."""
    last = max((i for i, message in enumerate(messages) if is_input(message)), default=-1)
    turns = script
    if isinstance(script, dict):
        text = text_of(messages[last]) if last >= 0 else ""
        matches = (turns for key, turns in script.get("match", {}).items() if key in text)
        turns = next(matches, script.get("turns", []))
    number = sum(message.get("role") == "assistant" for message in messages[last + 1 :])
    return number, turns[number] if number < len(turns) else {"text": PAST_THE_END}


def deltas(turn: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The deltas of a turn, in small pieces as a model sends them."""
    out: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for key, field in (("thinking", "reasoning_content"), ("text", "content")):
        text = turn.get(key, "")
        out += [{field: text[i : i + 6]} for i in range(0, len(text), 6)]
    for index, call in enumerate(turn.get("calls", [])):
        raw = call.get("raw", json.dumps(call.get("args", {})))
        head = {"index": index, "id": call.get("id", f"call_{prefix}_{index}"), "type": "function"}
        out.append({"tool_calls": [{**head, "function": {"name": call["name"], "arguments": ""}}]})
        out += [
            {"tool_calls": [{"index": index, "function": {"arguments": raw[i : i + 12]}}]}
            for i in range(0, len(raw), 12)
        ]
    return out


def frame(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def stream_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[bytes]:
    """The frames of a streamed answer."""
    if "body" in turn:
        return [turn["body"] if isinstance(turn["body"], bytes) else str(turn["body"]).encode()]
    head = {"id": f"chatcmpl-{prefix}", "object": "chat.completion.chunk", "created": 0, "model": body.get("model", "")}
    frames = [
        frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas(turn, prefix)
    ]
    if turn.get("error"):
        error = turn["error"] if isinstance(turn["error"], dict) else {"message": turn["error"], "type": "server_error"}
        return [*frames, frame({"error": error})]
    finish = turn.get("finish", "tool_calls" if turn.get("calls") else "stop")
    if finish is not None:
        frames.append(frame({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
        frames.append(frame({**head, "choices": [], "usage": usage_of(turn, body)}))
        if turn.get("done", True):
            frames.append(b"data: [DONE]\n\n")
    return frames


def usage_of(turn: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if "usage" in turn:
        return dict(turn["usage"])
    prompt, output = len(json.dumps(body)) // 4, len(json.dumps([turn.get("text"), turn.get("calls")])) // 4
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def whole_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The answer as one `chat.completion` object."""
    calls = [
        {
            "id": call.get("id", f"call_{prefix}_{index}"),
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("raw", json.dumps(call.get("args", {})))},
        }
        for index, call in enumerate(turn.get("calls", []))
    ]
    message: dict[str, Any] = {"role": "assistant", "content": turn.get("text") or None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": turn.get("finish", "tool_calls" if calls else "stop")}
    return {
        "id": f"chatcmpl-{prefix}", "object": "chat.completion", "created": 0, "model": body.get("model", ""),
        "choices": [choice], "usage": usage_of(turn, body),
    }  # fmt: skip


class ModelServer:
    """The server in this process, in threads of its own: `with ModelServer([{"text": "hi"}]) as server: server.base_url`.

    `requests` are the bodies received, `times` when (monotonic seconds), `headers` the headers of each; `opened` counts
    the answers begun and `closed` the ones whose client hung up before their end.
    """

    def __init__(
        self, script: Any, *, port: int = 0, log: str | Path | None = None, strict: bool = False, delay: float = 0.0
    ) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.violations: list[str] = []
        self.opened = 0
        self.closed = 0
        self.delay = delay
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self._log = Path(log) if log else None
        self._check = _strict_check() if strict else None
        self._met: dict[str, int] = {}
        server = self

        class Handler(_Handler):
            owner = server

        self._server = _Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve, name="model server", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def received(self, raw: bytes, headers: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
        """Log the body, then judge it."""
        body = json.loads(raw)
        with self.lock:
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(body, ensure_ascii=False) + "\n")
            self.requests.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            found = self._check(raw) if self._check is not None else []
            self.violations += found
        return body, found

    def fault(self, turn: dict[str, Any], key: str) -> dict[str, Any]:
        """The fault this request meets; {} for none."""
        own = {name: turn[name] for name in _FAULT_KEYS if name in turn}
        if "status" in turn and "body" in turn:
            own["body"] = turn["body"]
        faults = [{"times": 1, **fault} for fault in turn.get("faults", [])]
        if any(name in own for name in _FAULTS):
            faults.append(own)
        with self.lock:
            count = self._met.get(key, 0)
            self._met[key] = count + 1
        for fault in faults:
            times = fault.get("times")
            if times is None or count < times:
                return fault
            count -= times
        return {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is expected here."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _HungUp(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    owner: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": "scripted-model", "object": "model"}]})
        elif self.path == "/health":
            self._json(200, {"status": "ok"})
        else:
            self._json(404, {"error": {"message": f"no {self.path}", "type": "not_found_error"}})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client died in the middle of asking
            self.close_connection = True
            return
        if self.path != "/v1/chat/completions":
            self._json(404, {"error": {"message": f"no {self.path}", "type": "not_found_error"}})
            return
        try:
            body, violations = self.owner.received(raw, {k.lower(): v for k, v in self.headers.items()})
        except ValueError as error:
            self._json(400, {"error": {"message": f"no JSON: {error}", "type": "invalid_request_error"}})
            return
        if violations:
            self._json(400, {"error": {"message": "; ".join(violations), "type": "invalid_request_error"}})
            return
        messages = body.get("messages", [])
        number, turn = choose_turn(self.owner.script, messages)
        digest = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:8]
        prefix = f"{len(messages)}_{number}_{digest}"
        fault = self.owner.fault(turn, prefix)
        if "status" in fault:
            self._json(fault["status"], fault.get("body", {}), fault.get("headers"))
            return
        self._answer(turn, fault, body, prefix)

    def _answer(self, turn: dict[str, Any], fault: dict[str, Any], body: dict[str, Any], prefix: str) -> None:
        with self.owner.lock:
            self.owner.opened += 1
        try:
            if turn.get("json") or not body.get("stream"):
                self._wait(float(turn.get("delay", self.owner.delay)))
                self._json(200, turn["json"] if isinstance(turn.get("json"), dict) else whole_of(turn, body, prefix))
                return
            self.send_response(200)
            self.send_header("content-type", turn.get("content_type", "text/event-stream"))
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._frames(stream_of(turn, body, prefix), fault, float(turn.get("delay", self.owner.delay)))
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, _HungUp):
            self.close_connection = True
            with self.owner.lock:
                self.owner.closed += 1

    def _frames(self, frames: list[bytes], fault: dict[str, Any], delay: float) -> None:
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
            self._wait(pause)

    def _break(self, name: str, fault: dict[str, Any]) -> bool:
        """Do what the fault says; true when the body ends here."""
        if name == "stall":
            self._wait(1e9 if fault["stall"] is True else float(fault["stall"]))
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

    def _wait(self, seconds: float) -> None:
        """Wait, noticing at once when the client hangs up or the server stops."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.owner.stopping.is_set():
                raise _HungUp
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.05))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _HungUp

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        given = {key.lower(): text for key, text in (headers or {}).items()}
        kind = "text/plain" if isinstance(value, str) else "application/json"
        for key, text in {"content-type": kind, "content-length": str(len(data)), **given}.items():
            self.send_header(key, text)
        self.end_headers()
        self.wfile.write(data)


def _strict_check() -> Any:
    """`check_openai`; its absence is an error, but only for those who ask for strictness."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    from tests.tools.strict import check_openai

    return check_openai


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a scripted chat-completions server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", required=True)
    parser.add_argument("--log")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--until-eof", action="store_true", help="also end when stdin ends")
    options = parser.parse_args(arguments)
    script = json.loads(Path(options.script).read_text("utf-8"))
    server = ModelServer(script, port=options.port, log=options.log, strict=options.strict, delay=options.delay)
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    with server:
        print(f"PORT {server.port}", flush=True)
        if options.until_eof:
            threading.Thread(target=lambda: (sys.stdin.buffer.read(), done.set()), daemon=True).start()
        done.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
