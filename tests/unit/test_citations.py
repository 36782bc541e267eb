"""Every citation leads somewhere: sections to docs/spec.md, cases to docs/cases.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.citations import cases_of, problems, sections_of

HERE = Path(__file__).resolve()  # holds bad citations, to be found
ROOT = HERE.parents[2]
SECTIONS = sections_of((ROOT / "docs/spec.md").read_text())
CASES = cases_of((ROOT / "docs/cases.md").read_text())
LEFT_OUT = {"__pycache__", "__snapshots__", "node_modules"}


def files() -> list[Path]:
    """The texts that people write: code, tests and style sheets, the documents, the script of the checks."""
    found = [ROOT / ".ci/run", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    for folder in ("durable_tui", "tests", "themes"):
        found += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".tcss", ".toml", ".c") and not LEFT_OUT & set(path.parts) and path != HERE
        ]
    return sorted(found)


def citations_without_target() -> list[str]:
    """What is wrong with the citations of the project, a line for each."""
    return [
        line for path in files() for line in problems(str(path.relative_to(ROOT)), path.read_text(), SECTIONS, CASES)
    ]


def test_every_citation_in_the_project_leads_somewhere_in_its_one_form() -> None:
    assert len(files()) > 300
    found = citations_without_target()
    assert not found, "\n".join(found)


def test_the_documents_have_what_can_be_cited() -> None:
    assert {"1", "3.6", "4.1", "6.11", "8.8", "16", "17.7", "25"} <= SECTIONS
    assert not {"3.9", "17.8", "26"} & SECTIONS
    assert {"T01", "R05", "UI-R01", "UI-G01"} <= CASES
    assert not {"T05", "UI-R03", "G01"} & CASES


@pytest.mark.parametrize(
    "text",
    [
        '"""Opening (spec 6.8, 15; cases T30, UI-R01-UI-R10)."""\n',
        "x = 1  # spec 4.1 and 6.5-6.7 say so (case T11)\n",
        "def test_spec_9_and_15_it_goes_on() -> None: ...\n",
        "def test_t01_ui_r01_both() -> None: ...\n",
        'problem = f"only {1} may be background (spec 6.5)"\n',
        '"""`T99` is a task of the screen, X11 a window system, 8.2 a version."""\n',
    ],
)
def test_good_citations_pass(text: str) -> None:
    assert problems("made_up.py", text, SECTIONS, CASES) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('"""Opening (spec 6.19)."""\n', "spec 6.19 does not exist"),
        ('"""Opening (spec 4.2, 26)."""\n', "spec 26 does not exist"),
        ('"""Opening (spec 101)."""\n', "'spec 101' is no form of citation"),
        ("x = 1  # see spec\n# 3.9\n", "spec 3.9 does not exist"),
        ('problem = f"{1} is refused (spec 6.99)"\n', "spec 6.99 does not exist"),
        ('"""Opening (case T05)."""\n', "case T05 does not exist"),
        ('"""Opening (cases T01, UI-R03)."""\n', "case UI-R03 does not exist"),
        ('"""Opening (T01)."""\n', "T01 is cited without the word case"),
        ('"""Opening (UI-K)."""\n', "UI-K is cited without the word case"),
        ('assert x, "UI-K15 names the path"\n', "UI-K15 is cited without the word case"),
        ('"""Opening (contract 6.8)."""\n', "'contract 6.8' is no form of citation"),
        ('"""Opening (wire 5)."""\n', "'wire 5' is no form of citation"),
        ('"""Opening (TEXTUAL 3.7)."""\n', "'TEXTUAL' is no form of citation"),
        ('"""Opening (RECORDS.md 4)."""\n', "'RECORDS.md' is no form of citation"),
        ('"""Opening (spec 15, look)."""\n', "'spec, look' is no form of citation"),
        ('"""Opening (specification, section 4)."""\n', "'specification, section 4' is no form of citation"),
        ('"""Opening (spec. 4)."""\n', "'spec. 4' is no form of citation"),
        ('"""Opening (6.8)."""\n', "'(6.8)' is no form of citation"),
        ("x = 1  # §6\n", "'§' is no form of citation"),
        ("def test_spec_6_19_it_holds() -> None: ...\n", "spec 6.19, which does not exist"),
        ("def test_spec_6_8_and_26_it_holds() -> None: ...\n", "spec 26, which does not exist"),
        ("def test_t05_it_holds() -> None: ...\n", "case T05, which does not exist"),
        ("def test_ui_r01_ui_r03_it_holds() -> None: ...\n", "case UI-R03, which does not exist"),
    ],
)
def test_bad_citations_are_found(text: str, what: str) -> None:
    found = problems("made_up.py", text, SECTIONS, CASES)
    assert len(found) == 1 and what in found[0]


def test_sections_are_looked_up_in_documents_too() -> None:
    assert problems("made_up.md", "It is so (spec 6.8).\nAnd so (spec 99).\n", SECTIONS, CASES) == [
        "made_up.md:2: spec 99 does not exist"
    ]


def test_the_specification_refers_to_sections_it_has() -> None:
    text = (ROOT / "docs/spec.md").read_text()
    referred = re.findall(r"\((?:shape: )?(\d{1,2}(?:\.\d{1,2})?)\)", text)
    assert len(referred) >= 5
    assert not set(referred) - SECTIONS
