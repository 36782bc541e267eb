"""The figures of the house: what is counted, and that a limit is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import house

SOURCE = '''"""Any word in a text is none."""
from typing import Any
import typing

def one(x: Any, y: "str") -> dict[str, Any]:
    z: typing.Any = x  # Any
    return z
'''


def test_any_is_counted_where_it_is_a_type(tmp_path: Path) -> None:
    assert house.count_any(SOURCE) == 3
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "b.py").write_text("\n" * 23)
    assert house.any_per_thousand_lines(tmp_path) == pytest.approx(100.0)


def test_circles_are_what_reaches_itself() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "outside"}}
    assert house.circles(imports) == [{"a", "b", "c"}, {"d", "e"}]
    assert house.circles({"a": {"b"}, "b": set()}) == []


@pytest.fixture
def small_house(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "any_per_thousand_lines", lambda: 31.4)
    monkeypatch.setattr(house, "package_imports", lambda: {"a": {"b"}, "b": {"a"}, "c": {"a"}})
    monkeypatch.setattr(house, "citations_without_target", lambda: None)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([], 0),
        (["--any", "31.4", "--circles", "2", "--citations", "0"], 0),
        (["--any", "31.3"], 1),
        (["--circles", "1"], 1),
    ],
)
def test_a_figure_over_its_limit_is_status_1(
    small_house: None, capsys: pytest.CaptureFixture[str], words: list[str], status: int
) -> None:
    assert house.main(words) == status
    printed = capsys.readouterr().out
    assert "Any per 1,000 lines: 31.4" in printed and "a circle of 2: a, b" in printed
    assert "citations without target: not measured" in printed
    assert ("EXCEEDED" in printed) == bool(status)


def test_citations_are_counted_once_something_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "CITATIONS", ("tests.tools.nothing", "here"))
    assert house.citations_without_target() is None
    monkeypatch.setattr(house, "CITATIONS", ("tests.tools.house", "package_imports"))
    assert (house.citations_without_target() or 0) > 100


def test_the_package_has_an_import_graph() -> None:
    imports = house.package_imports()
    assert "durable_tui.ground.text" in imports["durable_tui.tools.text_output"]
