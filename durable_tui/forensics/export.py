"""A session as Markdown, as one self-contained HTML page, or as JSON lines: whole, nothing shortened."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Callable, Mapping

from durable_tui.forensics.blocks import Block, blocks
from durable_tui.forensics.report import Report, header, recovery_lines, title_of
from durable_tui.host.jsonlines import json_line
from durable_tui.host.reading import all_entries
from durable_tui.storage.protocol import Reader

Renderer = Callable[[Reader, Report], AsyncIterator[str]]


async def markdown(storage: Reader, report: Report) -> AsyncIterator[str]:
    """Markdown. Inputs and answers as they are, everything else fenced so that no content becomes structure."""
    yield f"# {_inline(title_of(report.info))}\n\n"
    for name, value in header(report):
        yield f"- {name}: {_inline(value)}\n"
    for conversation in report.conversations:
        if len(report.conversations) > 1:
            yield f"\n## Conversation {conversation['id']}\n"
        async for item in all_entries(storage, conversation["id"]):
            for block in blocks(item.record):
                yield _markdown_block(block)
    lines = list(recovery_lines(report.recovery))
    if lines:
        yield "\n## Recoveries\n\n" + _fence("\n".join(lines))


def _markdown_block(block: Block) -> str:
    if block.kind == "user":
        return f"\n### you\n\n{block.text}\n"
    if block.kind == "ai":
        return f"\n### ai\n\n{block.text}\n"
    if block.kind == "call":
        return f"\n- call {_inline(block.text)}\n"
    if block.kind in ("mark", "system"):
        return f"\n*{block.label}*: {_inline(block.text)}\n"
    if block.kind == "thinking":
        return "\n" + "".join(f"> {line}\n" for line in block.text.split("\n"))
    mark = "error, " if block.kind == "error" else ""
    return f"\n{mark}{_inline(block.label)}\n\n{_fence(block.text, 'diff' if block.diff else '')}"


def _fence(text: str, language: str = "") -> str:
    """A fence longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _inline(text: str) -> str:
    """One line of code, so that nothing in it is markup."""
    line = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else ""


_STYLE = """\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
pre{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}
section{border-left:3px solid #8886;padding:.1rem .9rem;margin:.8rem 0}.user{border-color:#2a7de1}
.ai{border-color:#2e9e5b}.error{border-color:#d33}.call,.mark,.system,.thinking{opacity:.75}b{font-weight:600}dt{float:left;width:8rem;opacity:.7}
dd{margin:0 0 0 8rem}"""


async def html_page(storage: Reader, report: Report) -> AsyncIterator[str]:
    """One page that loads nothing: no script, no link, every character of the session escaped."""
    title = html.escape(_printable(title_of(report.info)))
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f'<meta name="viewport" content="width=device-width">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n<dl>\n"
    )
    for name, value in header(report):
        yield f"<dt>{html.escape(name)}</dt><dd>{html.escape(_printable(value))}</dd>\n"
    yield "</dl>\n"
    for conversation in report.conversations:
        if len(report.conversations) > 1:
            yield f"<h2>Conversation {conversation['id']}</h2>\n"
        async for item in all_entries(storage, conversation["id"]):
            for block in blocks(item.record):
                label, text = html.escape(_printable(block.label)), html.escape(_printable(block.text))
                yield f'<section class="{block.kind}"><b>{label}</b><pre>{text}</pre></section>\n'
    lines = list(recovery_lines(report.recovery))
    if lines:
        text = html.escape(_printable("\n".join(lines)))
        yield f"<h2>Recoveries</h2>\n<pre>{text}</pre>\n"
    yield "</body></html>\n"


def _printable(text: str) -> str:
    """Without the control characters HTML forbids."""
    return "".join(character if character >= " " or character in "\n\t" else "\ufffd" for character in text)


async def jsonl(storage: Reader, report: Report) -> AsyncIterator[str]:
    """One record a line with its `type`: session, conversation, entry (with `seq`), submission, task, death."""
    yield _line("session", report.info.json())
    for conversation in report.conversations:
        yield _line("conversation", dict(conversation))
        async for item in all_entries(storage, conversation["id"]):
            yield _line("entry", {**item.record, "seq": item.seq})
    for submission in report.submissions:
        # A submission's own type is kept beside the line's.
        yield _line("submission", {"record": submission})
    for task in report.tasks:
        yield _line("task", task)
    for death in report.recovery.get("deaths") or ():
        yield _line("death", death)


def _line(kind: str, value: Mapping[str, object]) -> str:
    return json_line({"type": kind, **value})


FORMATS: dict[str, Renderer] = {"md": markdown, "html": html_page, "jsonl": jsonl}
