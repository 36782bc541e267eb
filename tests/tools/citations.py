"""Finds citations of the specification and of cases in a file, and says which lead nowhere.

The forms are `spec 6.8`, `spec 4.2, 10`, `spec 6.5-6.7`, and `case T30`, `cases T30, UI-R01`; a test may also say in its name
what it holds, as in `test_spec_6_8_…` and `test_ui_l05_…`.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

_SECTION = r"\d{1,2}(?:\.\d{1,2})?"
_CASE = r"(?:UI-)?[A-Z]\d\d"
_MORE = r"(?:, | and |-)"

SPEC = re.compile(rf"\bspec ({_SECTION}(?:{_MORE}{_SECTION})*)(?!\.?\d)")
CASES = re.compile(rf"\bcases? ({_CASE}(?:{_MORE}{_CASE})*)(?!\w)")
BARE_CASE = re.compile(r"(?<![\w`-])(?:UI-[A-Z]\b|(?:UI-)?[A-Z]\d\d(?!\w))")
TEST_OF_SECTION = re.compile(r"\bdef test_spec_(\d{1,2}(?:_\d{1,2})?(?:_and_\d{1,2}(?:_\d{1,2})?)*)(?=_)")
TEST_OF_CASE = re.compile(r"\bdef test_((?:ui_)?[a-z]\d\d(?:_(?:ui_)?[a-z]\d\d)*)(?=_)")
OTHER_FORM = re.compile(
    r"""
    \b(?:contract|design|records|wire|house|textual|sections?)[ ]\d+(?:\.\d+)?\b(?!\.\d)
    | \b[Ss]pec(?:s|ification)?\b[ .,:]*(?:section[ ])?\d+
    | \b(?:CONTRACT|DESIGN|RECORDS|WIRE|TEXTUAL|PEERS|RULES|HOUSE|CASES|CODEBASES)(?:-\w+)?(?:\.md)?\b
    | \blook/ | \bspec\b[^)]*\blook\b | § | \(\d{1,2}\.\d{1,2}\)
    """,
    re.VERBOSE,
)
NO_CASE = {"X11"}  # what only looks like the id of one


@dataclass(slots=True, frozen=True)
class Prose:
    """A piece of text in one line of single blanks: a comment block, a docstring, or any other string."""

    line: int
    text: str
    kind: Literal["comment", "docstring", "string", "text"]


def sections_of(spec: str) -> set[str]:
    """The numbers that can be cited: `## 6. Tasks`, `### 4.1 Flushed commits`, `- **6.8** Abort`."""
    return set(re.findall(rf"^(?:##\#? |- \*\*)({_SECTION})(?:\.? |\*\* )", spec, re.MULTILINE))


def cases_of(cases: str) -> set[str]:
    """The ids that can be cited: list items that begin with one in bold."""
    return set(re.findall(rf"^- \*\*({_CASE})\*\* \S", cases, re.MULTILINE))


def prose_of_python(source: str) -> Iterator[Prose]:
    """Comments and strings; comments on lines that follow each other are one piece."""
    block: list[str] = []
    first = last = 0
    begins_statement = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if block and line != last + 1:
                yield Prose(first, _one_line(" ".join(block)), "comment")
                block = []
            if not block:
                first = line
            block.append(token.string.lstrip("#"))
            last = line
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield Prose(line, _one_line(token.string), "docstring" if begins_statement else "string")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    if block:
        yield Prose(first, _one_line(" ".join(block)), "comment")


def problems(name: str, text: str, sections: set[str], cases: set[str]) -> list[str]:
    """Sentences about each citation in a file that leads nowhere or has another form; `name` is the file's."""
    python = name.endswith(".py")
    pieces = prose_of_python(text) if python else (Prose(n, line, "text") for n, line in _lines(text))
    found = [f"{name}:{piece.line}: {what}" for piece in pieces for what in _wrong(piece, sections, cases)]
    if python:
        found += [f"{name}: {what}" for what in _wrong_test_names(text, sections, cases)]
    return found


def _wrong(piece: Prose, sections: set[str], cases: set[str]) -> Iterator[str]:
    for cited in SPEC.finditer(piece.text):
        for number in re.findall(_SECTION, cited[1]):
            if number not in sections:
                yield f"spec {number} does not exist"
    if piece.kind == "text":
        return
    for cited in CASES.finditer(piece.text):
        for case in re.findall(_CASE, cited[1]):
            if case not in cases:
                yield f"case {case} does not exist"
    rest = CASES.sub("", SPEC.sub("spec", piece.text))
    for bare in BARE_CASE.finditer(rest):
        if (piece.kind != "string" or bare[0].startswith("UI-")) and bare[0] not in NO_CASE:
            yield f"{bare[0]} is cited without the word case"
    if piece.kind != "string" and (other := OTHER_FORM.search(rest)):
        yield f"{other[0].strip()!r} is no form of citation"


def _wrong_test_names(source: str, sections: set[str], cases: set[str]) -> Iterator[str]:
    for name in TEST_OF_SECTION.finditer(source):
        for number in name[1].replace("_and_", " ").replace("_", ".").split():
            if number not in sections:
                yield f"{name[0]} holds spec {number}, which does not exist"
    for name in TEST_OF_CASE.finditer(source):
        for case in re.findall(r"(?:ui_)?[a-z]\d\d", name[1]):
            if (held := case.upper().replace("_", "-")) not in cases:
                yield f"{name[0]} holds case {held}, which does not exist"


def _lines(text: str) -> Iterable[tuple[int, str]]:
    return enumerate(text.splitlines(), 1)


def _one_line(text: str) -> str:
    return " ".join(text.split())
