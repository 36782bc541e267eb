"""Transcript blocks as lines: the one place that decides how a message, a tool call or a mark looks (spec 21)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from durable_tui.ground.clock import clock
from durable_tui.ground.text import clean, one_line
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.blocks import Block, Head, Marker, Note, Prose, Said, Thinking, Tool
from durable_tui.ui.adapter.recovery_cards import VERDICTS
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.text.diff_lines import counts, diff_lines
from durable_tui.ui.text.markdown import markdown, settled
from durable_tui.ui.text.runs import Line, Run, clip, width
from durable_tui.ui.text.safe import output_lines
from durable_tui.ui.text.wrap import wrap

if TYPE_CHECKING:
    from durable_tui.delta import Json

PEEK = 4  # lines of output shown under a call without unfolding it
PEEK_DIFF = 16
FULL = 2000
LINE_LIMIT = 2000  # characters of one output line shown

STATES: dict[str, tuple[str, str]] = {  # glyph, tone
    "writing": ("pending", "dim"),
    "pending": ("pending", "dim"),
    "running": ("busy", "live"),
    "unfinished": ("pending", "attention"),
    "done": ("done", "good"),
    "failed": ("failed", "failed"),
    "interrupted": ("interrupted", "attention"),
    "aborted": ("aborted", "dim"),
    "blocked": ("blocked", "attention"),
}


def layout(block: Block, cells: int, glyphs: Glyphs, now: int = 0) -> list[Line]:
    """The lines of a block, its blank line above included. `now` is for the elapsed time of a running call."""
    cells = max(cells, 1)
    data = block.data
    if isinstance(data, Head):
        lines = [_head(data, glyphs)]
    elif isinstance(data, Said):
        bar: list[Run] = [(glyphs["bar"], "live")]
        lines = [
            line
            for text in clean(data.text).split("\n")
            for line in wrap([(text.expandtabs(4), "")] if text else [], cells, first=bar, rest=bar)
        ]
    elif isinstance(data, Prose):
        lines = _prose(data, cells, glyphs)
    elif isinstance(data, Thinking):
        lines = _thinking(data, cells, glyphs)
    elif isinstance(data, Tool):
        lines = _tool(data, cells, glyphs, now)
    elif isinstance(data, Note):
        head: list[Run] = [(f"  {glyphs[data.glyph]} ", data.tone)]
        rest: list[Run] = [("    ", "")]
        lines = []
        for index, text in enumerate(clean(data.text).split("\n")):
            tone = data.tone if data.tone != "failed" or index == 0 else "dim"
            lines += wrap([(text, tone)], cells, first=rest if index else head, rest=rest)
    else:
        lines = _marker(data, cells, glyphs)
    return [Line(), *lines] if block.gap else lines


def estimate(block: Block, cells: int) -> int:
    """A cheap guess at the number of lines, for blocks not laid out yet."""
    data = block.data
    if isinstance(data, Prose):
        text = data.chunk.text
    elif isinstance(data, Said):
        text = data.text
    else:
        return 1 + block.gap
    breaks = text.count("\n")
    return max(1, breaks + len(text) // max(cells, 1) + (0 if text.endswith("\n") else 1)) + block.gap


def _head(data: Head, glyphs: Glyphs) -> Line:
    time = clock(data.at)
    tail = f"  {time}" if time else ""
    tail += (f" {glyphs['dot']} " if tail else "  ") + data.facts if data.facts else ""
    if data.role == "user":
        return Line(
            [(glyphs["bar"], "live"), ("you", "bold live"), (tail, "faint")], width(f"{glyphs['bar']}you{tail}")
        )
    return Line([("assistant", "bold identity"), (tail, "faint")], width(f"assistant{tail}"))


def _prose(data: Prose, cells: int, glyphs: Glyphs) -> list[Line]:
    text = clean(data.chunk.text)
    chunk = data.chunk
    shown = settled(text) if data.live else text
    lines = markdown(shown, cells, opening=clean(chunk.opening), continues=chunk.continues, glyphs=glyphs)
    if chunk.continues and lines:
        lines[0].join = " " if text.startswith(" ") else ""
    if data.live:
        cursor: Run = (glyphs["cursor"], "live")
        if lines and width(lines[-1].text) + 1 < cells and not shown.endswith("\n"):
            lines[-1].runs = [*lines[-1].runs, (" " if lines[-1].text else "", ""), cursor]
        else:
            lines.append(Line([cursor], 1))
    return lines


def _thinking(data: Thinking, cells: int, glyphs: Glyphs) -> list[Line]:
    text = clean(data.text).strip()
    rail: list[Run] = [(f"  {glyphs['rail']} ", "faint")]
    fold = glyphs["folded" if data.folded else "unfolded"]
    if data.folded:
        first = one_line(text, 300)
        label = f"  {fold} thinking  "
        return [
            Line([(label, "faint"), (clip(first, max(cells - width(label), 0), glyphs["ellipsis"]), "faint italic")], 4)
        ]
    lines = [Line([(f"  {fold} thinking", "faint")], 4)]
    source = text.split("\n")
    if data.live and len(source) > 12:
        source = source[-12:]
    for line in source:
        lines += wrap([(line, "dim italic")] if line else [], cells, first=rail, rest=rail)
    return lines


def _marker(data: Marker, cells: int, glyphs: Glyphs) -> list[Line]:
    rule = glyphs["rule"] * 2
    fold = f" {glyphs['folded' if data.folded else 'unfolded']}" if data.body else ""
    label = clip(f"{rule}{fold} {one_line(data.text)} ", cells, glyphs["ellipsis"])
    lines = [Line([(label, "faint"), (glyphs["rule"] * max(0, min(cells, 60) - width(label)), "faint")], cells)]
    if data.body and not data.folded:
        rail: list[Run] = [(f"  {glyphs['rail']} ", "faint")]
        for text in clean(data.body).split("\n"):
            lines += wrap([(text, "dim")] if text else [], cells, first=rail, rest=rail)
    return lines


# --- tool calls -----------------------------------------------------------------------------------------------


def _tool(tool: Tool, cells: int, glyphs: Glyphs, now: int) -> list[Line]:
    glyph, tone = STATES[tool.state]
    dot = f" {glyphs['dot']} "
    facts = _facts(tool, glyphs, now)
    head: list[Run] = [(f"  {glyphs[glyph]} ", tone), (one_line(tool.name, 60), "bold")]
    fixed = sum(width(text) for text, _ in head) + sum(width(text) + width(dot) for text, _ in facts)
    summary = one_line(tool.summary, 400)
    room = max(cells - fixed - 1, 16)
    if summary and cells > 12:
        head += [(" ", ""), (clip(summary, room, glyphs["ellipsis"]), "live")]
    for text, style in facts:
        head += [(dot if text != facts[-1][0] or style != "removed" else " ", "faint"), (text, style)]
    lines = wrap(head, cells, rest=[("    ", "")])
    lines[0].gutter = 4
    lines += _body(tool, cells, glyphs)
    return lines


def _facts(tool: Tool, glyphs: Glyphs, now: int) -> list[Run]:
    """What stands behind the call: the outcome in words, then sizes and times."""
    out: list[Run] = []
    verdict = VERDICTS.get(tool.verdict)
    if tool.state == "interrupted":
        died = clock(tool.died_at, seconds=True)
        by = f" by {tool.occasion} at {died}" if died else ""
        out.append((f"{glyphs['recovered']} interrupted{by}", "attention"))
    elif verdict and tool.state not in ("pending",):
        out.append((f"{glyphs['recovered']} {verdict.word} after {tool.occasion}", "recovered"))
    if tool.state == "failed":
        out.append(("failed", "failed"))
    elif tool.state == "aborted":
        out.append(("aborted", "dim"))
    elif tool.state == "blocked":
        out.append(("not allowed", "attention"))
    elif tool.state == "unfinished":
        out.append(("unfinished", "attention"))
    elif tool.state == "writing":
        out.append(("being written", "dim"))
    if tool.diff:
        added, removed = counts(tool.diff)
        out.append((f"+{added}", "added"))
        out.append((f"{glyphs['minus']}{removed}", "removed"))
    elif tool.settled and tool.state == "done":
        size = tool.result.rstrip("\n").count("\n") + 1 if tool.result.strip() else 0
        if tool.images:
            out.append((words.plural(tool.images, "image"), "dim"))
        elif size:
            out.append((words.plural(size, "line"), "dim"))
    if tool.duration_ms is not None and tool.duration_ms >= 1000:
        out.append((words.elapsed(tool.duration_ms), "faint"))
    elif tool.state == "running" and tool.started_at and now:
        out.append((words.elapsed(now - tool.started_at), "dim"))
    return out


def _body(tool: Tool, cells: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    if not tool.folded:
        lines += _details(tool, cells, glyphs)
    if tool.diff:
        lines += diff_lines(tool.diff, cells, indent=6, limit=PEEK_DIFF if tool.folded else FULL, glyphs=glyphs)
    elif tool.settled:
        if not tool.folded:
            lines += output(tool.result, cells, glyphs, limit=FULL)
        elif tool.state in ("failed", "interrupted", "aborted"):
            lines += output(tool.result, cells, glyphs, limit=PEEK, tail=True)
    elif tool.output:
        lines += output(tool.output, cells, glyphs, limit=FULL if not tool.folded else PEEK, tail=True)
    for item in tool.diagnostics:
        severity = str(item.get("severity", "info"))
        if severity == "info" and tool.folded:
            continue
        tone = {"error": "failed", "warn": "attention"}.get(severity, "dim")
        if tool.state in ("interrupted", "aborted"):
            tone = "dim"
        pad: list[Run] = [("    ", "")]
        lines += wrap([(one_line(str(item.get("message", "")), 600), tone)], cells, first=pad, rest=pad)
    return lines


def _details(tool: Tool, cells: int, glyphs: Glyphs) -> list[Line]:
    """What an unfolded call shows first: its arguments and how it may be repeated."""
    rail: list[Run] = [(f"    {glyphs['rail']} ", "faint")]
    lines: list[Line] = []
    arguments = tool.arguments if isinstance(tool.arguments, Mapping) else {}
    for key, value in arguments.items():
        if tool.diff and key in ("edits", "content", "oldText", "newText"):
            continue
        text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, default=str)
        parts = clean(text[:20_000]).rstrip("\n").split("\n")
        label = f"{one_line(str(key), 40)}: "
        for index, part in enumerate(parts[:40]):
            start: list[Run] = [*rail, (label if index == 0 else " " * min(width(label), 8), "dim")]
            lines += wrap([(part[:LINE_LIMIT].expandtabs(4), "dim")], cells, first=start, rest=[*rail, ("  ", "")])
        if len(parts) > 40:
            lines.append(Line([*rail, (f"{glyphs['ellipsis']} {len(parts) - 40} more lines", "faint")], 6))
    facts = []
    if tool.task_id:
        facts.append(words.task_name(tool.task_id, "pi.tool"))
    if tool.replay:
        facts.append(f"{tool.replay} to repeat" if tool.replay == "safe" else f"replay {tool.replay}")
    if tool.result_seq:
        facts.append(f"result in commit #{tool.result_seq}")
    if tool.recovered is not None:
        verdict = VERDICTS.get(tool.verdict)
        if verdict:
            facts.append(verdict.why)
    if facts:
        lines += wrap([(f" {glyphs['dot']} ".join(facts), "faint")], cells, first=rail, rest=rail)
    return lines


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def output(text: str, cells: int, glyphs: Glyphs, *, limit: int, tail: bool = False) -> list[Line]:
    """Output under its call, clipped to `limit` source lines; with `tail` the last ones are kept."""
    rail: list[Run] = [(f"    {glyphs['rail']} ", "faint")]
    source = text.rstrip("\n").split("\n") if text.strip("\n") else []
    dropped = max(len(source) - limit, 0)
    kept = source[-limit:] if tail else source[:limit]
    if sum(map(len, kept)) > LINE_LIMIT * 4 and any(len(line) > LINE_LIMIT for line in kept):
        kept = [_short(line, glyphs) for line in kept]
    lines = (
        [line for runs in output_lines("\n".join(kept), "dim") for line in wrap(runs, cells, first=rail, rest=rail)]
        if kept
        else []
    )
    if dropped:
        where = "before that" if tail else "more"
        note = Line([*rail, (f"{glyphs['ellipsis']} {words.plural(dropped, 'line')} {where}", "faint")], cells)
        lines = [note, *lines] if tail else [*lines, note]
    return lines


def _short(line: str, glyphs: Glyphs) -> str:
    if len(line) <= LINE_LIMIT:
        return line
    return f"{line[:LINE_LIMIT]} {glyphs['ellipsis']} {len(line) - LINE_LIMIT:,} more characters".replace(",", " ")
