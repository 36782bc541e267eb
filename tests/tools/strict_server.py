"""A chat-completions server in its own process that judges every body by the strict rules and needs no memory.

What it answers is found from the request alone, so it does not matter how often a client died in between:

- a user message that begins with `SCRIPT ` goes on with JSON, a list of turns
  `{"text"?, "calls"?: [[name, arguments]], "chunks"?, "pace"?, "delay"?, "until"?: path, "status"?}`; the turn is the
  number of assistant messages after that message, and it waits until its file exists;
- one that begins with `STEPS ` goes on with `{"count", "seconds", "tool"?}`: make step1.txt … in order, one call each;
  an interrupted step is looked at first and made only when it is missing.

Run as a program it prints `{"port": N}` and serves until its stdin closes. Every request is one line of the log file:
`{"number", "at", "turn", "violations", "body"}`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.tools.strict import check_openai  # noqa: E402


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, whichever form its content has."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)


def next_turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer to a conversation, from the newest user message that gives orders."""
    for position in range(len(messages) - 1, -1, -1):
        text = text_of(messages[position])
        if messages[position]["role"] != "user":
            continue
        if text.startswith("SCRIPT "):
            turns = json.loads(text[len("SCRIPT ") :])
            index = sum(1 for message in messages[position:] if message["role"] == "assistant")
            turn: dict[str, Any] = turns[index] if index < len(turns) else {"text": "nothing more"}
            return {"prefix": f"m{position}t{index}", **turn}
        if text.startswith("STEPS "):
            return _steps(json.loads(text[len("STEPS ") :]), messages[position:])
    return {"text": "hello"}


def _steps(order: dict[str, Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Which step comes next: done ones are believed, interrupted ones are looked at."""
    done: set[int] = set()
    doubtful: set[int] = set()
    asked: dict[str, tuple[str, int]] = {}
    calls = 0
    for message in messages:
        for call in message.get("tool_calls") or []:
            calls += 1
            arguments = json.loads(call["function"]["arguments"])
            step = int(arguments["command"].split("#step")[1])
            asked[call["id"]] = ("look" if arguments["command"].startswith("test") else "make", step)
        if message["role"] == "tool":
            kind, step = asked[message["tool_call_id"]]
            text = text_of(message)
            if kind == "make":
                if "made it" in text and "interrupted" not in text:
                    done.add(step)
                else:
                    doubtful.add(step)
            elif "is there" in text:
                done.add(step)
                doubtful.discard(step)
            elif "is missing" in text:
                doubtful.discard(step)
    for step in range(1, order["count"] + 1):
        if step in done:
            continue
        name = f"step{step}.txt"
        if step in doubtful:
            command = f"test -e {name} && echo is there || echo is missing #step{step}"
        else:
            command = f"sleep {order['seconds']}; echo $$ >> {name}; echo made it #step{step}"
        return {"prefix": f"s{calls}", "calls": [["bash", {"command": command}]], "text": f"Now step {step}."}
    return {"text": "All steps are done."}


@dataclass
class Log:
    path: Path | None
    lock: threading.Lock
    number: int = 0

    def write(self, row: dict[str, Any]) -> None:
        with self.lock:
            self.number += 1
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps({"number": self.number, "at": time.time(), **row}) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "strict", "object": "model"}]})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client died in the middle of asking
            self.close_connection = True
            return
        violations = check_openai(raw)
        if violations:
            self.log.write({"turn": None, "violations": violations, "body": raw.decode("utf-8", "replace")})
            self._json(400, {"error": {"message": "strict: " + "; ".join(violations), "type": "invalid_request_error"}})
            return
        body = json.loads(raw)
        turn = next_turn(body["messages"])
        self.log.write({"turn": turn, "violations": [], "body": body})
        if turn.get("delay"):
            time.sleep(turn["delay"])
        while "until" in turn and not Path(turn["until"]).exists():
            time.sleep(0.02)
        if turn.get("status"):
            self._json(turn["status"], {"error": {"message": f"status {turn['status']}", "type": "server_error"}})
            return
        try:
            self._stream(turn)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, turn: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        text, calls = turn.get("text", ""), turn.get("calls", [])
        pace = turn.get("pace", 0)
        self._event({"role": "assistant", "content": ""})
        chunks = max(1, min(turn.get("chunks", 1), len(text) or 1))
        size = -(-len(text) // chunks) or 1
        for at in range(0, len(text), size):
            self._event({"content": text[at : at + size]})
            if pace:
                time.sleep(pace)
        for index, (name, arguments) in enumerate(calls):
            whole = json.dumps(arguments)
            head = {"index": index, "id": f"call_{turn['prefix']}_{index}", "type": "function"}
            self._event({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
            for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
                self._event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        self._event({}, finish="tool_calls" if calls else "stop")
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self._chunk(b"data: " + json.dumps({"id": "x", "choices": [], "usage": usage}).encode() + b"\n\n")
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        value = {"id": "x", "object": "chat.completion.chunk", "model": "strict", "choices": [choice]}
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


class StrictServer:
    """The server as a child process: `with StrictServer(log_path) as server: server.url`."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> StrictServer:
        command = [sys.executable, str(Path(__file__).resolve()), "--log", str(self.log)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = json.loads(self._process.stdout.readline())["port"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def requests(self) -> list[dict[str, Any]]:
        """All requests so far, in order."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().split("\n")[:-1]]

    def violations(self) -> list[str]:
        """Of the strict rules, and of the official client's types."""
        from tests.tools.sdk import check_request

        rows = self.requests()
        found = [line for row in rows for line in row["violations"]]
        return found + [line for row in rows for line in check_request("openai-chat", row["body"])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    Handler.log = Log(options.log, threading.Lock())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
