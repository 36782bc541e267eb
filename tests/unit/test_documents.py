"""The documents for people point to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]


def missing_links(document: Path) -> list[str]:
    """The links of a document to files, or headings of Markdown files, that are not there."""
    found = []
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        name, _, heading = target.partition("#")
        if "://" in name:
            continue
        path = document.parent / name if name else document
        if not path.exists() or (heading and heading not in anchors(path)):
            found.append(target)
    return found


def anchors(document: Path) -> set[str]:
    """The headings of a Markdown file as links name them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def missing_modules(text: str) -> list[str]:
    """The Python files a text names in backticks that are neither in the package nor in the tests; NAME stands for any."""
    known = {
        path.relative_to(base).as_posix()
        for base in (ROOT, ROOT / "durable_tui")
        for folder in ("durable_tui", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path.is_relative_to(base)
    }
    known |= {path.rpartition("/")[2] for path in known}
    return [name for name in re.findall(r"`([\w/]+\.py)`", text) if name not in known and "NAME" not in name]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert missing_links(document) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_modules_that_are_named_exist(document: Path) -> None:
    assert missing_modules(document.read_text()) == []


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.md"
    bad.write_text("# Some heading\n[a](gone.md) [b](bad.md#some-heading) [c](#none) [d](https://example.org/x)\n")
    assert missing_links(bad) == ["gone.md", "#none"]
    assert missing_modules("`engine/gone.py`, `gone.py`, `engine/task.py`, `task.py`, `tools/NAME.py`") == [
        "engine/gone.py",
        "gone.py",
    ]
