"""`show` and the exports: what a session says, escaped for where it goes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from durable_tui.agent.extension import Registry
from durable_tui.engine.rules import rule_sentence
from durable_tui.forensics import export, report
from durable_tui.forensics import text_report as text
from durable_tui.forensics.blocks import blocks, call_summary
from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.opening import Host, open_session
from durable_tui.host.reading import reading
from durable_tui.views.build import task_report
from durable_tui.views.look import ReaderWords

EVIL = '<script>alert(1)</script> [bold] ``` & "quotes" \u2028 \x1b[31m'


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Path]:
    """A session with a tool call, an answer and nasty text; opened read-only by the tests."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "file.txt").write_text("content\n")
    turns = [{"text": "I read.", "calls": [{"name": "read", "args": {"path": "file.txt"}}]}, {"text": EVIL}]
    (home / "turns.json").write_text(json.dumps(turns))
    (home / "config.toml").write_text('model = "play/x"\n[providers.play]\napi = "scripted"\nscript = "turns.json"\n')
    host = Host.load({"DURABLE_TUI_HOME": str(home)})
    path = tmp_path / "job.sqlite"
    opened = await open_session(host, path, directory=str(tmp_path))
    await (await opened.root.submit(EVIL)).wait()
    await opened.close()
    yield path


async def rendered(path: Path, render: export.Renderer) -> str:
    host = Host.load({"DURABLE_TUI_HOME": str(path.parent / "home")})
    async with reading(path) as storage:
        found = await report.gather(storage, await host.catalogue.describe(path))
        return "".join([piece async for piece in render(storage, found)])


async def test_show_as_text(session: Path) -> None:
    shown = await rendered(session, text.render)
    assert "you   <script>" in shown and "└ read file.txt" in shown and "ai    I read." in shown
    assert "recoveries: none" in shown and "tasks: 3, unfinished: 0" in shown
    assert re.search(r"^  tokens: +[\d ]+ tokens sent, \d+ received\n  cost: +n/a$", shown, re.MULTILINE)


def test_show_tells_cached_tokens_and_whether_the_cost_is_all() -> None:
    usage = {"input": 1200, "output": 85, "cacheRead": 900, "cacheWrite": 0, "totalTokens": 2185, "unpriced": 7,
             "cost": {"total": 0.012}}  # fmt: skip
    info = SessionInfo("s", Path("/s.sqlite"), "clean", "/", 0, 0, usage=usage)
    found = dict(report.header(report.Report(info, [], [], [], {})))
    assert found["tokens"] == "2 100 tokens sent (900 cached), 85 received" and found["cost"] == "≥ $0.012"
    assert (info.json()["cost"], info.json()["unpriced"]) == (0.012, 7)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[Any] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href") or name.startswith("on")]


async def test_html_is_self_contained_and_nothing_of_the_session_is_markup(session: Path) -> None:
    shown = await rendered(session, export.html_page)
    page = Page()
    page.feed(shown)
    assert "script" not in page.tags and page.links == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [bold]" in shown and "\x1b" not in shown
    assert shown.endswith("</body></html>\n")


async def test_markdown_fences_are_longer_than_what_they_hold(session: Path) -> None:
    shown = await rendered(session, export.markdown)
    assert "### you" in shown and "- call `read file.txt`" in shown
    assert export._fence("a\n````\nb").startswith("`````\n")
    assert export._inline("a `b`") == "`` a `b` ``"


async def test_jsonl_is_every_record_one_a_line(session: Path) -> None:
    shown = await rendered(session, export.jsonl)
    rows = [json.loads(line) for line in shown.splitlines()]
    kinds = [row["type"] for row in rows]
    assert kinds[0] == "session" and {"conversation", "entry", "submission", "task"} <= set(kinds)
    entries = [row for row in rows if row["type"] == "entry"]
    assert [entry["id"] for entry in entries] == sorted(entry["id"] for entry in entries)
    assert entries[0]["model"][0]["content"] == EVIL and entries[0]["seq"] > 0


def test_spec_17_4_a_task_row_takes_the_verdict_of_its_newest_death() -> None:
    row = {"taskId": 4, "kind": "pi.tool", "phase": "execute", "doing": "edit a"}
    recovery = {
        "deaths": [
            {"pid": 1, "host": "h", "lastSeq": 3, "lastAt": 1, "foundAt": 2, "tasks": [{**row, "verdict": "rerun"}]},
            {"pid": 2, "host": "h", "tasks": [{**row, "verdict": "interrupted", "rule": "10", "seq": 9}]},
            {"pid": 3, "host": "h", "tasks": []},
        ]
    }
    newest = report.newest_rows(recovery)
    task: Any = {
        "id": 4, "conversationId": 1, "kind": "pi.tool", "background": False, "abortRequested": False, "input": {},
        "state": {"status": "terminal", "outcome": {"status": "failed", "error": {"message": "interrupted"}}},
    }  # fmt: skip
    found = task_report(task, ReaderWords(Registry()), newest[4])
    assert (found["outcome"], found["verdict"], found["seq"], found["detail"]) == (
        "failed",
        "interrupted",
        9,
        "interrupted",
    )
    assert found["taskId"] == 4 and "id" not in found and found["doing"] == "edit a"
    lines = list(report.recovery_lines(recovery))
    assert lines[0].startswith("pid 1 on h died (how it ended is unknown); last commit #3 at ")
    assert lines[3] == f"  T4 edit a (pi.tool execute) → interrupted in #9: {rule_sentence('10')}"
    assert lines[-1] == "  nothing was unfinished"


def test_entries_of_every_kind_have_their_pieces() -> None:
    def of(kind: str, *model: Any, **more: Any) -> list[tuple[str, str, str]]:
        entry: Any = {"id": 1, "conversationId": 1, "kind": kind, "model": list(model), **more}
        return [(block.kind, block.label, block.text) for block in blocks(entry)]

    assert of("pi.reset") == [("mark", "reset", "the context starts anew here")]
    assert of("pi.compaction", data={"reason": "manual"})[0][2] == "older entries were summarised (manual)"
    failed = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}], "stopReason": "error"}
    assert of("pi.assistant", {**failed, "errorMessage": "503"}) == [
        ("thinking", "thinking", "hm"),
        ("error", "error", "503"),
    ]
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert of("pi.user", {"role": "user", "content": [image]}) == [("user", "you", "[image image/png, 3 bytes]")]
    result = {
        "role": "toolResult", "toolName": "edit", "isError": False, "durationMs": 1500,
        "content": [{"type": "text", "text": "ok"}], "details": {"diff": "-a\n+b"},
    }  # fmt: skip
    warned = {"diagnostics": [{"severity": "warn", "message": "cut"}]}
    assert of("pi.tool-result", result, data=warned) == [
        ("result", "edit, 1.5 s", "ok"), ("result", "diff", "-a\n+b"), ("mark", "warn", "cut"),
    ]  # fmt: skip
    assert (
        call_summary({"x": 1}) == '{"x": 1}' and call_summary({}) == "" and call_summary({"command": "a\n b"}) == "a b"
    )
