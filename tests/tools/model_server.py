"""A model server that plays a script in three protocols, breaks on demand and keeps no conversation. Standard library only.

    python tests/tools/model_server.py --port 0 --script FILE.json [--log FILE.jsonl] [--access-log FILE.jsonl]
        [--strict] [--sdk] [--delay S] [--until-eof]

prints `PORT n` on its first line and serves until SIGTERM, SIGINT or the end of its stdin when `--until-eof` is given.
It answers POST /v1/chat/completions, /v1/messages and /v1/responses, GET /v1/models, GET /v1/responses/ID, POST
/v1/responses/ID/cancel, and for tests GET /state: `{counts, jobs, violations}`.

`--log` gets each body of those three POSTs as one JSON line, written before the answer begins; `--access-log` gets one
line for every request, `{at, method, path, key}` (seconds, its Idempotency-Key or null). `--strict` answers 400 when
`tests/tools/strict.py` finds a violation, `--sdk` when the official clients' types do (`tests/tools/sdk.py`).

A script is a list of turns, or `{"turns": [...], "match": {TEXT: [turns], ...}}`, where the first TEXT found in the last
user message chooses its list. The turn is the number of assistant messages since the last user message of the request,
so it does not matter how often a client died in between.

A turn: `{"text"?, "thinking"?, "signature"?, "redacted"?, "refusal"?, "calls"?: [{"name", "args"?, "id"?, "raw"?}],
"blocks"?, "delay"?, "error"?, "failed"?, "usage"?, "finish"?, "done"?, "body"?, "json"?}`. `delay` seconds are spread
over it; `error` is an error object sent inside the stream after the text; `raw` are arguments as they are; `finish`
another finish reason, null for none; `done: false` leaves out [DONE] or message_stop; `body` is the whole body as text,
sent as it is; `json` answers with one JSON object instead of a stream.

`signature` is the thinking's at Anthropic and the `encrypted_content` at Responses (made up when absent, none when
null), `redacted` the data of a block that hides its thinking. `blocks` is another order, or more of each: a list of
`{"thinking", "signature"?}`, `{"redacted"}`, `{"text"}`, `{"refusal"}`, `{"call": {...}}`; a list as `thinking` are the
parts of a summary. `reasoning_text: true` sends reasoning as open models do at Responses. `finish` is the protocol's own
word or one of stop, length, tool_calls, content_filter; at Responses also completed, incomplete, cancelled or failed
with `failed: {"code", "message"}`. `usage` is the wire's own or `{input, output, cacheRead, cacheWrite, reasoning}`.

Background answers (Responses with `background: true`) are queued, then in_progress for the first `polls` GETs and until
`background_delay` seconds are over, then what the turn says. A known Idempotency-Key gets its response again.

Faults of a turn, in the turn itself or, one after the other, in a list `faults`:
`status` with `body` and `headers` (an error answer; `"late": true`: a background answer has begun nevertheless) ·
`cut_after` bytes the body ends in order (`"abrupt": true`: without its last chunk) · `reset_after` bytes the connection
is reset · `stall` seconds of silence (true: for ever) after `stall_after` bytes (default: after the head) · `chunk_bytes`
and `chunk_delay` seconds re-chunk the body · `times`: how many requests meet the fault (a fault of the turn itself: all;
one in `faults`: 1). `poll_faults` and `cancel_faults` are such lists for the GETs and cancellations of a background answer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.tools import wire_anthropic, wire_chat, wire_responses  # noqa: E402
from tests.tools.wire_background import Job, Jobs  # noqa: E402
from tests.tools.wire_transport import Transport  # noqa: E402
from tests.tools.wire_turns import PAST_THE_END, TOOL_IMAGES, choose_turn, is_input, text_of  # noqa: E402

__all__ = ["PAST_THE_END", "TOOL_IMAGES", "ModelServer", "choose_turn", "is_input", "text_of"]

WIRES: dict[str, Any] = {wire.PATH: wire for wire in (wire_chat, wire_anthropic, wire_responses)}
_FAULTS = ("status", "cut_after", "reset_after", "stall", "chunk_bytes", "chunk_delay")
_FAULT_KEYS = (*_FAULTS, "headers", "late", "abrupt", "stall_after", "times")
_CREATED = "2026-01-01T00:00:00Z"


class ModelServer:
    """The server in this process, in threads of its own: `with ModelServer([{"text": "hi"}]) as server: server.base_url`.

    `requests` are the bodies received, `apis` their protocols, `times` when (monotonic seconds), `headers` the headers of
    each; `opened` counts the answers begun and `closed` the ones whose client hung up before their end. `counts` has
    `post`, `get` and `cancel` of /v1/responses and `created` background answers, which are in `jobs`; `accesses` are the
    lines of the access log. `sdk_allow` are extensions that `sdk` lets pass (see sdk.py).
    """

    def __init__(
        self,
        script: Any,
        *,
        port: int = 0,
        log: str | Path | None = None,
        access_log: str | Path | None = None,
        strict: bool = False,
        sdk: bool = False,
        sdk_allow: tuple[str, ...] = (),
        delay: float = 0.0,
        models: tuple[str, ...] = ("scripted-model",),
    ) -> None:
        self.script = script
        self.models = models
        self.requests: list[dict[str, Any]] = []
        self.apis: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.accesses: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.jobs = Jobs()
        self.opened = 0
        self.closed = 0
        self.delay = delay
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self._log = Path(log) if log else None
        self._access_log = Path(access_log) if access_log else None
        self._checks = [*(_strict_checks() if strict else ()), *(_sdk_checks(sdk_allow) if sdk else ())]
        self._sent: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}  # by protocol and model
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

    def accessed(self, method: str, path: str, key: str | None) -> None:
        """Log a request of any kind."""
        row = {"at": time.time(), "method": method, "path": path, "key": key}
        with self.lock:
            self.accesses.append(row)
            if self._access_log is not None:
                with self._access_log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")

    def received(
        self, raw: bytes, headers: dict[str, str], api: str = wire_chat.API
    ) -> tuple[dict[str, Any], list[str]]:
        """Log the body, then judge it."""
        body = json.loads(raw)
        with self.lock:
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(body, ensure_ascii=False) + "\n")
            self.requests.append(body)
            self.apis.append(api)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            sent = self._sent.get((api, body.get("model", "")), [])
            found = [line for check in self._checks for line in check(api, raw, headers, sent)]
            self.violations += found
        return body, found

    def sending(self, api: str, model: str, blocks: list[dict[str, Any]]) -> None:
        """Remember what a model says, for the rule that its signed thinking comes back as it was."""
        with self.lock:
            self._sent.setdefault((api, model), []).append(blocks)

    def count(self, name: str) -> None:
        with self.lock:
            self.counts[name] += 1

    def state(self) -> dict[str, Any]:
        """For a test in another process."""
        with self.lock:
            return {"counts": dict(self.counts), "jobs": self.jobs.report(), "violations": list(self.violations)}

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


class _Handler(Transport):
    owner: ModelServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.owner.accessed("GET", self.path, self.headers.get("idempotency-key"))
        if path == "/v1/models":
            self.send_json(200, self._models())
        elif path == "/health":
            self.send_json(200, {"status": "ok"})
        elif path == "/state":
            self.send_json(200, self.owner.state())
        elif path.startswith(f"{wire_responses.PATH}/"):
            self.owner.count("get")
            job = self._job(path.removeprefix(f"{wire_responses.PATH}/"))
            if job is not None:
                self._about(job, self.owner.jobs.poll, "poll_faults")
        else:
            self.send_json(404, self._wire().error_of(404, f"no {self.path}"))

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client died in the middle of asking
            self.close_connection = True
            return
        path = self.path.partition("?")[0]
        key = self.headers.get("idempotency-key")
        self.owner.accessed("POST", self.path, key)
        if path.startswith(f"{wire_responses.PATH}/") and path.endswith("/cancel"):
            self.owner.count("cancel")
            job = self._job(path.removeprefix(f"{wire_responses.PATH}/").removesuffix("/cancel"))
            if job is not None:
                self._about(job, self.owner.jobs.cancel, "cancel_faults")
            return
        wire = self._wire()
        if path not in WIRES:
            self.send_json(404, wire.error_of(404, f"no {self.path}"))
            return
        if wire is wire_responses:
            self.owner.count("post")
        try:
            body, violations = self.owner.received(raw, {k.lower(): v for k, v in self.headers.items()}, wire.API)
        except ValueError as error:
            self.send_json(400, wire.error_of(400, f"no JSON: {error}"))
            return
        if violations:
            self.send_json(400, wire.error_of(400, "; ".join(violations)))
            return
        messages = wire.messages_of(body)
        number, turn = choose_turn(self.owner.script, messages)
        digest = hashlib.sha256(wire.describe(body).encode()).hexdigest()[:8]
        prefix = f"{len(messages)}_{number}_{digest}"
        fault = self.owner.fault(turn, prefix)
        background = wire is wire_responses and body.get("background") and not body.get("stream")
        if background and ("status" not in fault or fault.get("late")):
            job = self._begin(turn, body, prefix, key or "")
            if job is None:
                return
            if "status" not in fault:
                self.send_whole(job.state(), fault)
                return
        if "status" in fault:
            default = {} if wire is wire_chat else wire.error_of(fault["status"], f"scripted {fault['status']}")
            self.send_json(fault["status"], fault.get("body", default), fault.get("headers"))
            return
        self._answer(wire, turn, fault, body, prefix)

    def _wire(self) -> Any:
        """The protocol that is spoken here: errors have its shape."""
        path = self.path.partition("?")[0]
        if "anthropic-version" in self.headers:
            return WIRES.get(path, wire_anthropic)
        return WIRES.get(path, wire_chat)

    def _models(self) -> dict[str, Any]:
        if self._wire() is wire_anthropic:
            data = [
                {"type": "model", "id": id, "display_name": id, "created_at": _CREATED, "lifecycle": "active"}
                for id in self.owner.models
            ]
            return {
                "data": data,
                "has_more": False,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
            }
        data = [{"id": id, "object": "model", "created": 0, "owned_by": "scripted"} for id in self.owner.models]
        return {"object": "list", "data": data}

    def _begin(self, turn: dict[str, Any], body: dict[str, Any], prefix: str, key: str) -> Job | None:
        """The background answer of this POST, the one it has already with a known key; None when refused."""
        known = self.owner.jobs.known(key)
        if known is not None and known.body != body:
            self.send_json(
                400, wire_responses.error_of(400, f"the idempotency key {key!r} was used for another request")
            )
            return None
        if known is None:
            self.owner.count("created")
        return self.owner.jobs.begin(turn, body, prefix, key)

    def _job(self, job_id: str) -> Job | None:
        """The background answer; None when it is unknown, which is answered here."""
        job = self.owner.jobs.get(job_id)
        if job is None:
            self.send_json(404, wire_responses.error_of(404, f"Response with id {job_id!r} not found."))
        return job

    def _about(self, job: Job, ask: Callable[[Job], dict[str, Any]], faults: str) -> None:
        """Answer with the state of a background answer, or as the fault says."""
        fault = self.owner.fault({"faults": job.turn.get(faults, [])}, f"{job.id} {faults}")
        if "status" in fault:
            default = wire_responses.error_of(fault["status"], f"scripted {fault['status']}")
            self.send_json(fault["status"], fault.get("body", default), fault.get("headers"))
            return
        state = ask(job)
        if state["status"] not in ("queued", "in_progress"):
            self.owner.sending(wire_responses.API, state["model"], state["output"])
        self.send_whole(state, fault)

    def _answer(
        self, wire: Any, turn: dict[str, Any], fault: dict[str, Any], body: dict[str, Any], prefix: str
    ) -> None:
        with self.owner.lock:
            self.owner.opened += 1
        if sent := wire.sent_of(turn, body, prefix):
            self.owner.sending(wire.API, body.get("model", ""), sent)
        delay = float(turn.get("delay", self.owner.delay))
        try:
            if turn.get("json") or not body.get("stream"):
                self.wait(delay)
                given = turn["json"] if isinstance(turn.get("json"), dict) else wire.whole_of(turn, body, prefix)
                self.send_whole(given, fault)
                return
            self.send_head(turn.get("content_type", "text/event-stream"))
            self.send_frames(_raw_body(turn) or wire.stream_of(turn, body, prefix), fault, delay)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            with self.owner.lock:
                self.owner.closed += 1


def _raw_body(turn: dict[str, Any]) -> list[bytes] | None:
    """The whole body when the script writes it itself."""
    if "body" not in turn:
        return None
    return [turn["body"] if isinstance(turn["body"], bytes) else str(turn["body"]).encode()]


def _strict_checks() -> list[Callable[..., list[str]]]:
    """The strict rules of each protocol; their absence is an error, but only for those who ask for strictness."""
    from tests.tools.strict import check_anthropic, check_openai, check_responses

    def check(api: str, raw: bytes, headers: dict[str, str], sent: list[Any]) -> list[str]:
        if api == wire_chat.API:
            return check_openai(raw)
        if api == wire_responses.API:
            return check_responses(raw, sent)
        found = [] if headers.get("anthropic-version") else ["[0] no anthropic-version header"]
        return found + check_anthropic(raw, sent)

    return [check]


def _sdk_checks(allow: tuple[str, ...]) -> list[Callable[..., list[str]]]:
    """The official clients' types, imported now: it takes seconds."""
    from tests.tools.sdk import APIS, check_request

    for api in APIS:
        check_request(api, {})

    def check(api: str, raw: bytes, headers: dict[str, str], sent: list[Any]) -> list[str]:
        return [f"[sdk] {line}" for line in check_request(api, raw, allow)]

    return [check]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a scripted model server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", required=True)
    parser.add_argument("--log")
    parser.add_argument("--access-log")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--sdk", action="store_true")
    parser.add_argument("--sdk-allow", action="append", default=[], metavar="PATH")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--until-eof", action="store_true", help="also end when stdin ends")
    options = parser.parse_args(arguments)
    server = ModelServer(
        json.loads(Path(options.script).read_text("utf-8")),
        port=options.port,
        log=options.log,
        access_log=options.access_log,
        strict=options.strict,
        sdk=options.sdk,
        sdk_allow=tuple(options.sdk_allow),
        delay=options.delay,
    )
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
