"""Rules are told to people as sentences, on every surface that tells of a recovery (spec 15, 21)."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import durable_tui
from durable_tui.cli.resume import verdicts
from durable_tui.engine.rules import RULES, UNKNOWN, rule_sentence
from durable_tui.engine.shapes import Verdict
from durable_tui.forensics import export, report, text_report
from durable_tui.host.catalogue import SessionInfo
from durable_tui.storage.memory.store import MemoryStorage
from durable_tui.ui.adapter.recovery_cards import explanation, recovery
from durable_tui.ui.adapter.rows import recovery_rows
from durable_tui.ui.glyphs import UNICODE
from durable_tui.ui.screens.dialogs import why_lines
from tests.tools.citations import sections_of

PACKAGE = Path(durable_tui.__file__).parent
SECTIONS = sections_of((PACKAGE.parent / "docs/spec.md").read_text())
LATER = "99.7"
STORED = [*RULES, *(f"contract {number}" for number in RULES), LATER]  # as written now, before, and by a later version


def deaths(verdict: str, rule: str, detail: str | None) -> dict[str, Any]:
    """A report of one death and one task, in which only the rule has a number of a section."""
    row = {"taskId": 777, "conversationId": 1, "kind": "pi.tool", "phase": "execute", "doing": "bash make", "seq": 888}
    row |= {"at": 999, "verdict": verdict, "rule": rule}
    if detail is not None:
        row["detail"] = detail
    death = {"epoch": 555, "pid": 4711, "host": "laptop", "openedAt": 1, "lastSeq": 887, "lastAt": 0}
    return {"deaths": [{**death, "foundBy": 556, "foundAt": 0, "tasks": [row]}]}


def bare(number: str, text: str) -> bool:
    """Whether a section's number stands alone in a text; those of times and commits are others."""
    return re.search(rf"(?<![\w.:#-]){re.escape(number)}(?![\w.:-])", text) is not None


async def surfaces(value: dict[str, Any]) -> dict[str, str]:
    """What people are shown of a report, by the name of the surface."""
    info = SessionInfo("job", Path("/job.sqlite"), "clean", "/", 0, 0)
    found = report.Report(info, [], [], [], value)
    storage = MemoryStorage()
    texts = {
        name: "".join([piece async for piece in render(storage, found)])
        for name, render in (("show", text_report.render), ("md", export.markdown), ("html", export.html_page))
    }
    await storage.close()
    texts = {name: text[text.lower().index("recoveries") :] for name, text in texts.items()}
    card = recovery(value)
    return {
        **texts,
        "resume": "\n".join(list(verdicts(value, {(556, 777)}))),
        "why": "\n".join(f"{label}: {text}" for label, text in explanation(card.rows[0])),
        "why at 80 columns": " ".join(line.text.strip() for line in why_lines(card.rows[0], 74)),
        "card": "\n".join(
            "".join(text for text, _ in [*row.left, *row.right]) for row in recovery_rows(card, UNICODE, 110).rows
        ),
    }


@pytest.mark.parametrize("verdict", get_args(Verdict))
async def test_no_surface_shows_a_bare_rule(verdict: str) -> None:
    for rule, detail in itertools.product(STORED, (None, "nobody knows")):
        sentence = rule_sentence(rule)
        for name, text in (await surfaces(deaths(verdict, rule, detail))).items():
            assert sentence in text or name == "card", f"{name}: {text}"
            assert not bare(rule.rpartition(" ")[2], text.replace(sentence, "")), f"{name}: {text}"
            assert "contract" not in text


def test_a_bare_rule_would_be_seen() -> None:
    assert bare("10", "T777 bash make → interrupted by 10 in #888") and bare("6.11", "rule: spec 6.11")
    assert not bare("10", "#10 at 10:10:10 on 2026-10-10")


def test_a_sentence_has_its_section_in_brackets() -> None:
    assert rule_sentence("10") == rule_sentence("contract 10")
    assert rule_sentence("10") == "An effect that may have happened is never repeated unasked (spec 10)"
    assert rule_sentence(LATER) == f"{UNKNOWN} (spec {LATER})"


def test_every_rule_is_a_section_and_every_stored_rule_has_a_sentence() -> None:
    assert set(RULES) <= SECTIONS
    assert len(set(RULES.values())) == len(RULES)
    written = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if getattr(call.func, "id", getattr(call.func, "attr", "")) in ("note_verdict", "Decision"):
                written |= {node.value for node in ast.walk(call) if isinstance(node, ast.Constant)} & SECTIONS
    assert written and written <= set(RULES)
