"""Light Markdown, line by line: headings, lists, quotes, rules, fences, tables, and a few inline marks.

Every line stands alone except inside fences and tables, so a growing text never changes the look of finished lines.
The text must be clean (`safe.clean`).
"""

from __future__ import annotations

import re

from durable_tui.ui.adapter.chunks import FENCE
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.text import code as code_text
from durable_tui.ui.text.runs import Line, Run, runs_width, width
from durable_tui.ui.text.wrap import wrap

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_ITEM = re.compile(r"^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_RULE = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_TABLE_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_INLINE = re.compile(
    r"""
      (?P<ticks>`+)(?P<code>.{1,800}?)(?<!`)(?P=ticks)(?!`)
    | \*\*(?=\S)(?P<bold>.{1,800}?)(?<=\S)\*\*
    | (?<![\w_])__(?=\S)(?P<bold2>.{1,800}?)(?<=\S)__(?![\w_])
    | (?<![\w*])\*(?=[^\s*])(?P<italic>[^*\n]{1,400}?)(?<=\S)\*(?![\w*])
    | (?<![\w_])_(?=[^\s_])(?P<italic2>[^_\n]{1,400}?)(?<=\S)_(?![\w_])
    | ~~(?=\S)(?P<strike>.{1,400}?)(?<=\S)~~
    | !?\[(?P<label>[^\[\]\n]{1,300})\]\((?P<url>[^()\s]{1,600})(?:[ ]"[^"\n]{0,200}")?\)
    | \\(?P<escaped>[!-/:-@\[-`{-~])
    """,
    re.VERBOSE,
)


def inline(text: str, base: str = "", depth: int = 0) -> list[Run]:
    """Inline marks of one line as runs; what is no complete mark stays as it was typed."""
    runs: list[Run] = []
    at = 0

    def add(part: str, style: str) -> None:
        if part:
            runs.append((part, f"{base} {style}".strip()))

    for match in _INLINE.finditer(text):
        add(text[at : match.start()], "")
        at = match.end()
        kind = match.lastgroup
        groups = match.groupdict()
        if groups["code"] is not None:
            inner = groups["code"]
            add(inner[1:-1] if len(inner) > 2 and inner[0] == inner[-1] == " " else inner, "code.inline")
        elif groups["label"] is not None:
            runs.extend(_nested(groups["label"], f"{base} underline".strip(), depth))
            if groups["url"] != groups["label"]:
                add(f" ({groups['url']})", "faint")
        elif groups["escaped"] is not None:
            add(groups["escaped"], "")
        elif kind in ("bold", "bold2"):
            runs.extend(_nested(groups["bold"] or groups["bold2"], f"{base} bold".strip(), depth))
        elif kind == "strike":
            runs.extend(_nested(groups["strike"], f"{base} strike".strip(), depth))
        else:
            runs.extend(_nested(groups["italic"] or groups["italic2"] or "", f"{base} italic".strip(), depth))
    add(text[at:], "")
    return runs


def _nested(text: str, base: str, depth: int) -> list[Run]:
    return inline(text, base, depth + 1) if depth < 3 else [(text, base)]


def markdown(
    text: str, cells: int, *, fence: str | None = None, base: str = "", glyphs: Glyphs = UNICODE
) -> list[Line]:
    """The lines of one chunk. `fence` is the info string of a fence the chunk starts in."""
    source = text.split("\n")
    while source and not source[-1].strip():
        source.pop()
    lines: list[Line] = []
    index = 0
    if fence is not None:
        index = _fence(source, 0, "`" * 3, fence, 0, cells, lines)
    else:
        while index < len(source) and not source[index].strip():
            index += 1
    while index < len(source):
        line = source[index]
        opening = FENCE.match(line)
        if opening and not (opening.group(1)[0] == "`" and "`" in opening.group(2)):
            indent = len(line) - len(line.lstrip())
            index = _fence(source, index + 1, opening.group(1), opening.group(2), indent, cells, lines)
        elif (
            "|" in line
            and index + 1 < len(source)
            and "|" in source[index + 1]
            and _TABLE_RULE.match(source[index + 1])
        ):
            index = _table(source, index, cells, lines, base, glyphs)
        elif not line.strip():
            if lines and lines[-1].text.strip():
                lines.append(Line())
            index += 1
        else:
            lines.extend(_plain(line, cells, base, glyphs))
            index += 1
    return lines


def _plain(line: str, cells: int, base: str, glyphs: Glyphs) -> list[Line]:
    line = line.expandtabs(4).rstrip()
    if heading := _HEADING.match(line):
        return wrap(inline(heading.group(2), f"{base} bold heading".strip()), cells)
    if _RULE.match(line):
        return [Line([(glyphs["rule"] * min(cells, 40), "faint")], min(cells, 40))]
    if line.lstrip().startswith(">"):
        body = line.lstrip().lstrip(">").lstrip()
        rail: list[Run] = [(glyphs["rail"] + " ", "faint")]
        return wrap(inline(body, f"{base} dim".strip()), cells, first=rail, rest=rail)
    if item := _ITEM.match(line):
        indent = min(len(item.group(1)), 12)
        mark, body = item.group(2), item.group(3)
        mark = glyphs["bullet"] if mark in "-*+" else mark
        if body[:4].lower() in ("[ ] ", "[x] "):
            mark, body = (glyphs["box"] if body[1] == " " else glyphs["checked"]), body[4:]
        head = " " * indent + mark + " "
        if width(head) + 8 > cells:
            head = mark + " "
        lines = wrap(inline(body, base), cells, first=[(head, "dim")], rest=[(" " * width(head), "")])
        lines[0].gutter = 0  # the mark belongs to the text when copied
        return lines
    indent = len(line) - len(line.lstrip())
    if indent and indent + 8 <= cells:
        gutter: list[Run] = [(" " * indent, "")]
        lines = wrap(inline(line.lstrip(), base), cells, first=gutter, rest=gutter)
        lines[0].gutter = 0
        return lines
    return wrap(inline(line.strip(), base), cells)


def _fence(source: list[str], index: int, marks: str, info: str, indent: int, cells: int, out: list[Line]) -> int:
    body: list[str] = []
    while index < len(source):
        closing = FENCE.match(source[index])
        if (
            closing
            and closing.group(1)[0] == marks[0]
            and len(closing.group(1)) >= len(marks)
            and not closing.group(2).strip()
        ):
            index += 1
            break
        line = source[index]
        body.append((line[indent:] if not line[:indent].strip() else line.lstrip()).expandtabs(4))
        index += 1
    out.extend(code_lines("\n".join(body), code_text.language_of(info), cells))
    return index


def code_lines(code: str, language: str, cells: int) -> list[Line]:
    """Code on its own ground, one cell in from the left; long lines are continued."""
    pad: list[Run] = [("  ", "")]
    lines: list[Line] = []
    for runs in code_text.highlight(code, language):
        lines.extend(wrap(runs, cells, first=pad, rest=pad, fill="ground"))
    return lines


def _cells(row: str) -> list[str]:
    row = row.strip()
    row = row.removeprefix("|")
    row = row[:-1] if row.endswith("|") and not row.endswith("\\|") else row
    return [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", row)]


def _table(source: list[str], index: int, cells: int, out: list[Line], base: str, glyphs: Glyphs) -> int:
    head = _cells(source[index])
    rows = [head]
    index += 2
    while index < len(source) and "|" in source[index]:
        rows.append(_cells(source[index]))
        index += 1
    count = len(head)
    parsed = [
        [inline(cell, base + (" bold" if n == 0 else "")) for cell in (row + [""] * count)[:count]]
        for n, row in enumerate(rows)
    ]
    widths = [max(max(runs_width(row[column]) for row in parsed), 1) for column in range(count)]
    room = cells - 3 * (count - 1)
    if room < count * 4:
        for row in rows:
            out.extend(wrap(inline(" | ".join(row), base), cells))
        return index
    while sum(widths) > room:
        widest = max(range(count), key=widths.__getitem__)
        widths[widest] = max(4, widths[widest] - max(1, (sum(widths) - room) // 2))
    bar: Run = (f" {glyphs['rail']} ", "faint")
    for number, cells_of in enumerate(parsed):
        wrapped = [wrap(runs, widths[column]) for column, runs in enumerate(cells_of)]
        for level in range(max(len(lines) for lines in wrapped)):
            runs: list[Run] = []
            for column, lines in enumerate(wrapped):
                part = lines[level].runs if level < len(lines) else []
                if column:
                    runs.append(bar)
                runs.extend(part)
                if column < count - 1:
                    runs.append((" " * (widths[column] - runs_width(part)), ""))
            out.append(Line(runs))
        if number == 0:
            rule = f"{glyphs['rule']}{glyphs['rule']}{glyphs['rule']}".join(glyphs["rule"] * size for size in widths)
            out.append(Line([(rule, "faint")], len(rule)))
    return index
