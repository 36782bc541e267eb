"""The default system prompt (spec 19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable_tui.agent.extension import PromptContext
from durable_tui.environment.local import LocalEnvironment
from durable_tui.host.prompt import FILE_LIMIT, PromptExtension, context_files, environment


def context(cwd: Path) -> PromptContext:
    return PromptContext(1, str(cwd), {}, LocalEnvironment.at(str(cwd)), (), 1_700_000_000_000)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def test_spec_19_sections_stand_in_their_order() -> None:
    assert [section.key for section in PromptExtension.sections] == ["preamble", "tools", "environment", "context"]


def test_spec_19_the_environment_names_directory_platform_and_the_sessions_date(tmp_path: Path) -> None:
    text = environment(context(tmp_path))
    assert str(tmp_path) in text and "Date: 2023-11-1" in text


async def test_spec_19_context_files_from_the_root_of_the_repository_down(repository: Path) -> None:
    (repository.parent / "AGENTS.md").write_text("outside")
    (repository / "AGENTS.md").write_text("root rules")
    (repository / "src" / "CLAUDE.md").write_text("source rules")
    (repository / "src" / "deep" / "AGENTS.md").write_text("deep rules")
    text = await context_files(context(repository / "src" / "deep"))
    assert text is not None and "outside" not in text
    assert text.index("root rules") < text.index("source rules") < text.index("deep rules")
    assert f'<context path="{repository / "AGENTS.md"}">' in text


async def test_spec_19_without_a_repository_only_the_directory(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "work").mkdir()
    assert await context_files(context(tmp_path / "work")) is None


async def test_spec_19_context_files_are_bounded_and_links_read_once(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("ä" * FILE_LIMIT)
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    text = await context_files(context(repository))
    assert text is not None and text.count("<context") == 1
    assert len(text.encode()) < FILE_LIMIT + 300 and f"[cut: the first {FILE_LIMIT} of {2 * FILE_LIMIT} bytes]" in text
    assert "\ufffd" not in text
