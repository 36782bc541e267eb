"""read, write and edit on real files: cases T01, T03, T06, T07, T09, T11, T30, T32-T37."""

from __future__ import annotations

import asyncio
import base64
import os
import time
import unicodedata
from pathlib import Path

import pytest

from durable_tui.agent.extension import PromptContext, Tool, ToolError, ToolResult
from durable_tui.environment import EnvironmentFailed, EnvironmentScope, LocalEnvironment
from durable_tui.tools import CodingTools
from durable_tui.tools.coding import guidance
from durable_tui.tools.edit import edit
from durable_tui.tools.paths import _locks
from durable_tui.tools.read import read
from durable_tui.tools.write import write
from tests.tools import pictures
from tests.tools.fake_call import Bench, text_of
from tests.tools.waiting import until


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def refused(bench: Bench, tool: Tool, **arguments: object) -> str:
    with pytest.raises((ToolError, EnvironmentFailed)) as found:
        await bench.call(tool, **arguments)
    return str(found.value)


def one_edit(old: str, new: str) -> list[dict[str, str]]:
    return [{"oldText": old, "newText": new}]


# -- read


async def test_read_gives_the_text_as_it_is(bench: Bench) -> None:
    bench.put("f", b"one\n  two\nthree")
    result = await bench.call(read, path="f")
    assert (result.content, result.is_error) == ("one\n  two\nthree", False)


async def test_t03_read_shows_no_bom_and_no_returns(bench: Bench) -> None:
    bench.put("f", b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert text_of(await bench.call(read, path="f")) == "one\ntwo"


async def test_read_says_how_to_go_on(bench: Bench) -> None:
    bench.put("f", b"".join(b"line %d\n" % n for n in range(1, 4001)))
    text = text_of(await bench.call(read, path="f"))
    assert (
        text.startswith("line 1\n") and "\nline 2000\n\n[Lines 1-2000 of 4000 shown. Use offset=2001 to go on.]" in text
    )
    rest = text_of(await bench.call(read, path="f", offset=2001))
    assert rest.startswith("line 2001\n") and rest.endswith("line 4000")
    part = text_of(await bench.call(read, path="f", offset=10, limit=2))
    assert part == "line 10\nline 11\n\n[Lines 10-11 of 4000 shown. Use offset=12 to go on.]"


async def test_read_stays_within_the_bytes_by_whole_lines(bench: Bench) -> None:
    bench.put("f", (b"x" * 999 + b"\n") * 100)
    text = text_of(await bench.call(read, path="f"))
    assert "[Lines 1-51 of 100 shown. Use offset=52 to go on.]" in text
    assert text.count("x") == 51 * 999


async def test_read_shows_the_beginning_of_one_long_line(bench: Bench) -> None:
    bench.put("f", "漢".encode() * 60_000 + b"\nnext\n")
    text = text_of(await bench.call(read, path="f"))
    shown, _, note = text.partition("\n\n")
    assert set(shown) == {"漢"} and 50 * 1024 - 3 < len(shown.encode()) <= 50 * 1024
    assert "Line 1 has 175.8 KiB" in note and "offset=2" in note
    assert text_of(await bench.call(read, path="f", offset=2)) == "next"


async def test_read_in_the_middle_of_a_large_file(bench: Bench) -> None:
    bench.put("f", b"".join(b"%07d\n" % n for n in range(1, 1_000_001)))
    text = text_of(await bench.call(read, path="f", offset=900_000, limit=1))
    assert text == "0900000\n\n[Lines 900000-900000 of 1000000 shown. Use offset=900001 to go on.]"


async def test_a_file_too_large_to_count_is_still_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable_tui.tools.read._COUNTED", 2 << 20)
    with open(bench.cwd / "f", "wb") as file:
        file.write(b"line\n" * 3000)
        file.truncate(1 << 33)
    text = text_of(await bench.call(read, path="f"))
    assert "[Lines 1-2000 of a file of 8.0 GiB shown. Use offset=2001 to go on.]" in text


async def test_t33_what_is_no_file_is_refused_at_once(bench: Bench) -> None:
    os.mkfifo(bench.cwd / "notes.md")
    (bench.cwd / "folder").mkdir()
    (bench.cwd / "folder" / "inside.txt").write_bytes(b"")
    for path, words in (("notes.md", "named pipe"), ("/dev/zero", "device"), ("folder", "inside.txt")):
        started = time.monotonic()
        assert words in await refused(bench, read, path=path)
        assert time.monotonic() - started < 0.2


async def test_t33_empty_files_and_offsets_past_the_end_say_so(bench: Bench) -> None:
    bench.put("empty", b"")
    bench.put("three", b"1\n2\n3\n")
    assert "empty" in text_of(await bench.call(read, path="empty"))
    assert "has 3 lines" in await refused(bench, read, path="three", offset=10)
    assert "has 3 lines" in await refused(bench, read, path="three", offset=4)
    assert text_of(await bench.call(read, path="three", offset=3)) == "3"
    blank = text_of(await bench.call(read, path="three", offset=3, limit=1))
    assert blank == "3"
    bench.put("blank", b"\n\n\n")
    assert text_of(await bench.call(read, path="blank")).strip()


async def test_proc_files_without_a_size_can_be_read(bench: Bench) -> None:
    assert "Pid:" in text_of(await bench.call(read, path="/proc/self/status"))


async def test_t30_the_kind_is_decided_by_content_and_a_torn_image_is_an_error(bench: Bench) -> None:
    bench.put("pic.jpeg", b"no picture here\n")
    bench.put("page.png", b"<!doctype html>\n<p>hi\n")
    bench.put("empty.png", b"")
    bench.put("cut.png", pictures.plain()[:20])
    bench.put("photo.txt", base64.b64decode("/9j/4AAQSkZJRgABAQ=="))
    assert text_of(await bench.call(read, path="pic.jpeg")) == "no picture here"
    assert text_of(await bench.call(read, path="page.png")).startswith("<!doctype html>")
    assert "empty" in await refused(bench, read, path="empty.png")
    assert await refused(bench, read, path="cut.png") == "cut.png cannot be shown: the PNG image is cut off or damaged"
    assert "photo.txt cannot be shown: the JPEG image" in await refused(bench, read, path="photo.txt")


async def test_t32_an_image_is_shown_and_a_wide_one_made_smaller(bench: Bench) -> None:
    bench.put("icon", pictures.plain("PNG", (30, 20)))
    bench.put("wide.png", pictures.plain("PNG", (9000, 40)))
    result = await bench.call(read, path="icon", offset=7)
    assert isinstance(result.content, list) and not result.is_error
    note, image = result.content
    assert note["text"].startswith("[icon: a PNG image of 30x20 pixels, ") and note["text"].endswith(" bytes]")
    assert image == pictures.block(pictures.plain("PNG", (30, 20)))
    assert result.details == {"path": str(bench.cwd / "icon"), "width": 30, "height": 20}
    wide = await bench.call(read, path="wide.png")
    assert isinstance(wide.content, list)
    assert "9000x40 pixels, shown at 2000x9" in wide.content[0]["text"]
    assert pictures.opened(wide.content[1]).size == (2000, 9)


async def test_a_file_too_large_for_an_image_is_refused_unread(bench: Bench) -> None:
    with open(bench.put("big.png", pictures.plain()), "r+b") as file:
        file.truncate(1 << 40)
    assert "1048576 MiB; at most 64 MiB" in await refused(bench, read, path="big.png")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"%PDF-1.7\n", "PDF"),
        (b"\x1f\x8b\x08", "gzip"),
        ("\ufeffhi".encode("utf-16-le"), "iconv"),
        (b"text\0more", "binary"),
        (b"a\n" * 20_000 + b"\0\n", "binary"),
    ],
)
async def test_binary_files_are_refused(bench: Bench, content: bytes, words: str) -> None:
    bench.put("f", content)
    offset = content.count(b"\n") if len(content) > 9000 else 1
    assert words in await refused(bench, read, path="f", offset=offset)


async def test_t06_other_encodings_are_shown_with_a_note(bench: Bench) -> None:
    bench.put("f", b"d\xe9j\xe0 vu\n")
    text = text_of(await bench.call(read, path="f"))
    assert text.startswith("d\ufffdj\ufffd vu\n\n[") and "not valid UTF-8" in text


async def test_t34_exact_names_first_then_the_only_one_that_looks_the_same(bench: Bench) -> None:
    shot = "Shot 3.00.00\u202fp.m..png"
    bench.put(shot, b"a shot\n")
    cafe = bench.cwd / "other"
    cafe.mkdir()
    (cafe / unicodedata.normalize("NFD", "Café.txt")).write_bytes(b"coffee\n")
    both = bench.cwd / "both"
    both.mkdir()
    (both / shot).write_bytes(b"narrow\n")
    (both / shot.replace("\u202f", " ")).write_bytes(b"plain\n")
    assert text_of(await bench.call(read, path=shot)) == "a shot"
    assert text_of(await bench.call(read, path=shot.replace("\u202f", " "))) == "a shot"
    assert text_of(await bench.call(read, path="other/Caf\u00e9.txt")) == "coffee"
    assert text_of(await bench.call(read, path="other/Cafe\u0301.txt")) == "coffee"
    assert text_of(await bench.call(read, path=f"both/{shot}")) == "narrow"
    assert text_of(await bench.call(read, path="both/" + shot.replace("\u202f", " "))) == "plain"
    # neither of the two is it
    assert "no such file; near it" in await refused(bench, read, path="both/" + shot.replace("\u202f", "\u00a0"))
    # write and edit never guess
    await bench.call(write, path="other/Caf\u00e9.txt", content="tea")
    assert len(os.listdir(cafe)) == 2
    assert "exact name" in await refused(bench, edit, path=shot.replace("\u202f", " "), edits=one_edit("a", "b"))


async def test_a_missing_file_names_its_neighbours(bench: Bench) -> None:
    bench.put("config.json", b"{}")
    assert "config.json" in await refused(bench, read, path="confg.json")
    assert "no directory" in await refused(bench, read, path="nowhere/x")


# -- write


async def test_write_makes_and_replaces(bench: Bench) -> None:
    made = await bench.call(write, path="a/b/new.txt", content="one\ntwo\n")
    assert (bench.cwd / "a/b/new.txt").read_bytes() == b"one\ntwo\n"
    assert made.details["created"] is True
    assert (made.details["added"], made.details["removed"]) == (2, 0)
    replaced = await bench.call(write, path="a/b/new.txt", content="one\n2\n")
    assert replaced.details["diff"] == "@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert (replaced.details["added"], replaced.details["removed"]) == (1, 1)
    assert replaced.details["path"] == str(bench.cwd / "a/b/new.txt")


async def test_write_takes_the_content_by_the_byte(bench: Bench) -> None:
    await bench.call(write, path="f", content="\ufeffa\r\nb\rc\n\t")
    assert (bench.cwd / "f").read_bytes() == b"\xef\xbb\xbfa\r\nb\rc\n\t"


async def test_t06_write_after_read_does_not_destroy_unknown_bytes(bench: Bench) -> None:
    path = bench.put("f", b"d\xe9j\xe0 vu\n")
    text = text_of(await bench.call(read, path="f")).partition("\n\n")[0]
    assert "UTF-8" in await refused(bench, write, path="f", content=text + "\nmore\n")
    assert path.read_bytes() == b"d\xe9j\xe0 vu\n"
    await bench.call(write, path="f", content="déjà vu\n")
    assert path.read_bytes() == "déjà vu\n".encode()


async def test_write_refuses_half_a_surrogate_pair(bench: Bench) -> None:
    assert "surrogate" in await refused(bench, write, path="f", content="a\ud83d")
    assert os.listdir(bench.cwd) == []


async def test_t37_write_says_clearly_what_is_wrong(bench: Bench) -> None:
    bench.put("plain", b"x")
    assert "is a file, not a directory" in await refused(bench, write, path="plain/sub", content="x")
    assert "directory" in await refused(bench, write, path=".", content="x")


async def test_t35_write_and_edit_go_through_links(bench: Bench) -> None:
    bench.put("real.cfg", b"port = 1\n")
    (bench.cwd / "link.cfg").symlink_to("real.cfg")
    await bench.call(edit, path="link.cfg", edits=one_edit("1", "2"))
    assert (bench.cwd / "real.cfg").read_bytes() == b"port = 2\n"
    await bench.call(write, path="link.cfg", content="port = 3\n")
    assert (bench.cwd / "real.cfg").read_bytes() == b"port = 3\n"
    assert (bench.cwd / "link.cfg").is_symlink()


async def test_t36_modes_stay_and_hard_links_are_told(bench: Bench) -> None:
    path = bench.put("run.sh", b"echo 1\n")
    path.chmod(0o755)
    os.link(path, bench.cwd / "second")
    result = await bench.call(edit, path="run.sh", edits=one_edit("1", "2"))
    assert path.stat().st_mode & 0o777 == 0o755
    assert (bench.cwd / "second").read_bytes() == b"echo 1\n"
    assert "1 other hard link" in text_of(result)


# -- edit


async def test_edit_changes_the_file_and_tells_the_diff(bench: Bench) -> None:
    path = bench.put("f", b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    result = await bench.call(edit, path="f", edits=one_edit("two", "2"))
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\nthree"
    assert (result.details["added"], result.details["removed"]) == (1, 1)
    assert "-two" in result.details["diff"] and result.details["path"] == str(path)
    assert not result.is_error


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        (b"abc", "", "-"),
        (b"abc", "abc", "abc"),
        (b"", "x", "y"),
        (b"one\r\ntwo\r\nthree", "absent", "x"),
        (b"\x93\xfa\x96\x7b\nv=1\n", "v=1", "v=1  # 日本"),
        (b"a a", "a", "b"),
    ],
)
async def test_t01_t07_t09_a_refused_edit_touches_nothing(bench: Bench, content: bytes, old: str, new: str) -> None:
    path = bench.put("f", content)
    before = path.stat()
    assert "was not changed" in await refused(bench, edit, path="f", edits=one_edit(old, new))
    after = path.stat()
    assert path.read_bytes() == content
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


class SlowEnvironment(LocalEnvironment):
    """Waits between what is read and what is written."""

    async def write_bytes(self, path: str, content: bytes) -> None:
        await asyncio.sleep(0.05)
        await super().write_bytes(path, content)


async def test_t11_parallel_edits_of_one_file_are_both_there(bench: Bench) -> None:
    bench.environment = SlowEnvironment(EnvironmentScope(str(bench.cwd)))
    path = bench.put("f", b"".join(b"%d\n" % n for n in range(1, 61)))
    (bench.cwd / "link").symlink_to("f")
    await asyncio.gather(
        bench.call(edit, path="f", edits=one_edit("\n20\n", "\nTWENTY\n")),
        bench.call(edit, path="./link", edits=one_edit("\n40\n", "\nFORTY\n")),
    )
    assert b"TWENTY" in path.read_bytes() and b"FORTY" in path.read_bytes()
    path.write_bytes(b"a\nb\n")
    await asyncio.gather(
        bench.call(write, path="f", content="a\nb\nc\n"),
        bench.call(edit, path="f", edits=one_edit("b", "B")),
    )
    # either may be first; an edit of the content before, written over the new one, would give "a B"
    assert path.read_bytes() in (b"a\nB\nc\n", b"a\nb\nc\n")
    assert _locks == {}


async def test_t11_a_change_from_outside_is_noticed(bench: Bench) -> None:
    target = bench.put("f", b"one\ntwo\n")
    real = bench.environment.read_bytes

    async def and_then_someone_writes(path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        data = await real(path, offset=offset, limit=limit)
        target.write_bytes(b"one\ntwo\nthree\n")
        return data

    bench.environment.read_bytes = and_then_someone_writes  # type: ignore[method-assign]
    assert "changed meanwhile" in await refused(bench, edit, path="f", edits=one_edit("one", "1"))
    assert target.read_bytes() == b"one\ntwo\nthree\n"


async def test_the_lock_is_free_after_a_cancelled_edit(bench: Bench) -> None:
    bench.environment = SlowEnvironment(EnvironmentScope(str(bench.cwd)))
    bench.put("f", b"a\n")
    task = asyncio.create_task(bench.call(edit, path="f", edits=one_edit("a", "b")))
    await until(lambda: _locks)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _locks == {}
    await asyncio.wait_for(bench.call(edit, path="f", edits=one_edit("a", "c")), 5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
        {"edits": {"oldText": "a", "newText": "b"}},
        {"oldText": "a", "newText": "b"},
        {"edits": [{"oldText": "a", "newText": "b"}]},
    ],
)
async def test_what_models_send_instead_of_a_list_is_understood(bench: Bench, arguments: dict[str, object]) -> None:
    path = bench.put("f", b"a\n")
    await bench.call(edit, path="f", **arguments)
    assert path.read_bytes() == b"b\n"


async def test_edits_that_are_no_list_are_a_value_error(bench: Bench) -> None:
    for edits in ("no json", [], 7, [{"oldText": "a"}]):
        with pytest.raises(ValueError, match="edits"):
            await bench.call(edit, path="f", edits=edits)


# -- the extension


def test_the_extension_and_its_arguments_are_named_as_designed() -> None:
    tools = {item.name: item for item in CodingTools.tools}
    assert CodingTools.name == "coding"
    assert list(tools) == ["read", "write", "edit", "bash"]
    assert {name: list(item.parameters["properties"]) for name, item in tools.items()} == {
        "read": ["path", "offset", "limit"],
        "write": ["path", "content"],
        "edit": ["path", "edits"],
        "bash": ["command", "timeout"],
    }
    assert {name: item.replay for name, item in tools.items()} == {
        "read": "safe",
        "write": "unsafe",
        "edit": "unsafe",
        "bash": "unsafe",
    }
    assert all(item.description and item.summary for item in tools.values())
    for item in tools.values():
        for schema in item.parameters["properties"].values():
            assert schema["description"]


def test_the_guidance_speaks_only_of_tools_the_agent_has(bench: Bench) -> None:
    def context(*names: str) -> PromptContext:
        tools = tuple(item for item in CodingTools.tools if item.name in names)
        return PromptContext(1, str(bench.cwd), {}, bench.environment, tools, 0)

    assert [section.key for section in CodingTools.sections] == ["tools"]
    text = guidance(context("read"))
    assert text is not None and "read" in text and "bash" not in text
    assert guidance(context()) is None


def test_summaries_of_any_arguments() -> None:
    tools = {item.name: item.summary for item in CodingTools.tools}
    summaries = {name: found for name, found in tools.items() if found is not None}
    assert summaries["read"]({"path": "a.py", "offset": 20, "limit": 10}) == "a.py:20-29"
    assert summaries["read"]({"path": "a.py", "offset": 20}) == "a.py:20-"
    assert summaries["edit"]({"path": "config/dev.json", "edits": []}) == "config/dev.json"
    assert summaries["bash"]({"command": "\x1b[31mls\x1b[0m  -l\nrm x"}) == "ls -l…"
    assert len(summaries["bash"]({"command": "x" * 500})) == 80
    for summary in summaries.values():
        assert summary({}) == "" and summary({"path": 3, "command": None}) == ""


def test_a_result_is_a_tool_result() -> None:
    assert ToolResult("x").is_error is False
