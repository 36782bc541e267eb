"""Attached images: mentions in a text, pasted paths, kept files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from durable_tui.host import attachments
from durable_tui.host.attachments import (
    editable,
    keep_image,
    load_image,
    load_images,
    mention,
    mentioned,
    pasted,
    with_images,
)
from durable_tui.host.paths import Paths
from durable_tui.models.images import ImageRefused, prepare
from tests.tools import pictures

GOOD = pictures.plain("PNG", (30, 20))
ODD = ["a b.png", "it's.png", 'say "x".png', "a(1).png", "end.", "dot.png,", "comma, blank .png", "ä ö.png", "-x.png"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "docs").mkdir(parents=True)
    for name in ("a.png", "docs/b.png", "no_suffix", *ODD):
        (folder / name).write_bytes(GOOD)
    (folder / "notes.txt").write_text("text\n")
    (folder / "fake.png").write_text("no picture here\n")
    (folder / "cut.png").write_bytes(GOOD[:20])
    (folder / "empty.png").write_bytes(b"")
    (folder / "dir.png").mkdir()
    os.mkfifo(folder / "pipe.png")
    return folder


# -- mentions


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at @a.png", ["a.png"]),
        ("@a.png, then (@docs/b.png) and @no_suffix.", ["a.png", "docs/b.png", "no_suffix"]),
        ("twice @a.png @a.png", ["a.png"]),
        ("line\n@a.png\nline", ["a.png"]),
        ('is it "@a.png"?', ["a.png"]),
        ("@\"a b.png\" and @'a b.png'!", ["a b.png"]),
        (r"@a\ b.png", ["a b.png"]),
        ("@a(1).png)", ["a(1).png"]),
        ("@dot.png,", ["dot.png,"]),
        ("@notes.txt @types/node @ @@ me@a.png x@2x.png @nothing", []),
        ("@gone.png; @fake.png", ["gone.png", "fake.png"]),
        ('@"gone away.jpg"', ["gone away.jpg"]),
        ("a\0b @\0.png", ["\0.png"]),
    ],
)
def test_a_mention_means_an_image_by_content_or_by_name(folder: Path, text: str, paths: list[str]) -> None:
    assert mentioned(text, str(folder)) == paths


@pytest.mark.parametrize("name", ["a.png", "docs/b.png", "no_suffix", *ODD])
def test_every_name_can_be_mentioned(folder: Path, name: str) -> None:
    for path in (name, str(folder / name)):
        assert mentioned(f"see {mention(path)} there", str(folder)) == [path]
        assert mentioned(f"see {mention(path)}, there", str(folder)) == [path]


def test_a_text_is_sent_with_the_images_it_mentions(folder: Path) -> None:
    text = "compare @a.png with @notes.txt"
    assert with_images(text, str(folder)) == [{"type": "text", "text": text}, pictures.block(GOOD)]
    assert with_images("see @notes.txt", str(folder)) == "see @notes.txt"
    found = with_images("@/etc/hostname and @~/none", str(folder))
    assert found == "@/etc/hostname and @~/none"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.png", "gone.png: no such file; or drop its @"),
        ("fake.png", "fake.png: it is no image that can be sent"),
        ("cut.png", "cut.png: the PNG image is cut off or damaged"),
        ("empty.png", "empty.png: it is empty"),
        ("dir.png", "dir.png is a directory, not a file"),
        ("pipe.png", "pipe.png is a named pipe, not a file"),
    ],
)
def test_t30_what_cannot_be_sent_is_refused_by_name(folder: Path, name: str, says: str) -> None:
    with pytest.raises(ImageRefused) as found:
        with_images(f"look at @a.png and @{name}.", str(folder))
    assert says in str(found.value)


def test_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "TOGETHER_LIMIT", 200)
    assert len(load_images(["a.png", "a.png"], str(folder))) == 1
    with pytest.raises(ImageRefused, match=r"the 2 images have more than .* together"):
        load_images(["a.png", "docs/b.png"], str(folder))
    with open(folder / "a.png", "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ImageRefused, match=r"a.png: it has 1048576 MiB"):
        load_image("a.png", str(folder))


# -- pastes


def test_paths_of_images_become_mentions(folder: Path) -> None:
    where = str(folder)
    assert pasted(f"{where}/a.png", where) == "@a.png "
    assert pasted(f"'{where}/a b.png' ", where) == '@"a b.png" '
    assert pasted(f"{where}/a\\ b.png", where) == '@"a b.png" '
    assert pasted(f"{where}/a b.png", where) == '@"a b.png" '
    assert pasted(f"file://{where}/a%20b.png\n", where) == '@"a b.png" '
    assert pasted(f"file://localhost{where}/a.png", where) == "@a.png "
    assert pasted(f"'{where}/a.png' '{where}/docs/b.png'", where) == "@a.png @docs/b.png "
    assert pasted(f"file://{where}/a.png\nfile://{where}/docs/b.png\n", where) == "@a.png @docs/b.png "
    assert pasted(f"{where}/a.png", "/") == f"@{where[1:]}/a.png "
    assert pasted(f"{where}/a.png", f"{where}/docs") == f"@{where}/a.png "


def test_other_pastes_stay_as_they_are(folder: Path) -> None:
    where = str(folder)
    for text in (
        "a.png",
        f"{where}/gone.png",
        f"{where}/fake.png",
        f"{where}/notes.txt",
        f"{where}/dir.png",
        f"{where}/pipe.png",
        f"{where}/a.png {where}/notes.txt",
        f"see {where}/a.png",
        f"'{where}/a.png",
        f"file://elsewhere{where}/a.png",
        "file://[/a.png",
        "\n\n",
        f"{where}/a.png" + " " * 20_000,
        "\0/a.png",
    ):
        assert pasted(text, where) == text


# -- kept files


def test_a_kept_image_is_private_and_sent_as_it_is(tmp_path: Path) -> None:
    paths = Paths.under(tmp_path / "home")
    kept = keep_image(paths.make_attachments(), prepare(GOOD))
    photo = keep_image(paths.attachments, prepare(pictures.plain("JPEG")))
    assert kept.parent == paths.attachments and (kept.suffix, photo.suffix) == (".png", ".jpg")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == stat.S_IMODE(paths.attachments.parent.stat().st_mode) == 0o700
    assert load_image(str(kept), "/") == pictures.block(GOOD)


def test_an_image_that_could_not_be_kept_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keep_image(tmp_path, prepare(GOOD))
    assert list(tmp_path.iterdir()) == []


def test_a_message_with_images_can_be_edited_and_sent_again(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    where = str(folder)
    sent = with_images("look at @a.png", where)
    assert editable(sent, where, kept) == "look at @a.png"
    assert editable("plain @a.png", where, kept) == "plain @a.png"
    assert list(kept.iterdir()) == []
    other: Any = [{"type": "text", "text": "look"}, pictures.block(GOOD)]
    text = editable(other, where, kept)
    (file,) = kept.iterdir()
    assert text == f"look @{file}" and with_images(text, where)[1] == pictures.block(GOOD)  # type: ignore[index]
    (folder / "a.png").write_bytes(pictures.plain("PNG", (5, 5)))
    again = editable(sent, where, kept)
    assert again.startswith("look at @a.png @") and len(list(kept.iterdir())) == 2
    (folder / "a.png").unlink()
    assert editable(sent, where, kept).count("@") == 2
