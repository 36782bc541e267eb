"""Extensions of one's own (spec 22)."""

from __future__ import annotations

from pathlib import Path

from durable_tui.agent.extension import Registry
from durable_tui.host.plugins import install_plugins

GOOD = "from durable_tui import Extension\nextension = Extension('mine')\n"


def test_spec_22_good_ones_are_installed_and_bad_ones_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a_good.py").write_text(GOOD)
    (tmp_path / "b_two.py").write_text(
        "from durable_tui import Extension\nextension = [Extension('x'), Extension('y')]\n"
    )
    (tmp_path / "c_raises.py").write_text("\n\nraise RuntimeError('no')\n")
    (tmp_path / "d_syntax.py").write_text("\ndef\n")
    (tmp_path / "e_empty.py").write_text("")
    (tmp_path / "f_wrong.py").write_text("extension = 3\n")
    (tmp_path / "g_leaves.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "_hidden.py").write_text("raise RuntimeError\n")
    registry = Registry()
    warnings = install_plugins(registry, tmp_path)
    assert registry.names() == ["mine", "x", "y"]
    assert len(warnings) == 5
    assert warnings[0].startswith(f"{tmp_path / 'c_raises.py'}, line 3: extension not loaded, RuntimeError: no")
    assert warnings[1].startswith(f"{tmp_path / 'd_syntax.py'}, line 2:")
    assert "defines no `extension" in warnings[2] and "int, not Extension" in warnings[3]
    assert "SystemExit: 7" in warnings[4]


def test_spec_22_no_folder_no_warning(tmp_path: Path) -> None:
    assert install_plugins(Registry(), tmp_path / "none") == []
