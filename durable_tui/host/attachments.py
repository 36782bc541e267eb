"""Images that a person attaches: files named as `@path` in a message, and pasted ones kept as files (spec 21).

A message keeps its mentions as plain text, so drafts and queued messages need nothing but their text. Everything here
touches files: call it in a thread. A refusal begins with the name the person used.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from durable_tui.environment.base import EnvironmentFailed
from durable_tui.environment.files import read_bytes, resolve, stat_path
from durable_tui.models.imagebytes import BEGINNING, SUFFIXES, kind_of
from durable_tui.models.images import FILE_LIMIT, ImageRefused, prepare, too_large
from durable_tui.models.messages import ImageBlock, UserBlock, content_text

TOGETHER_LIMIT = 16 * 1024 * 1024  # characters of base64 in one message; Gemini takes 20 MB a request, text and all
PASTE_LIMIT = 16_384  # characters of a paste that may be names of files

_MENTION = re.compile(r"""(?:(?<=[\s(\[{<"'])|^)@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\[ \t]|\S)+))""", re.MULTILINE)
_BEHIND = ".,;:!?)]}>\"'"  # what may follow a name in a sentence
_PLAIN = re.compile(r"[^\s\\\"']*[^\s\\\"'.,;:!?)\]}>]")


def load_image(path: str, directory: str) -> ImageBlock:
    """The image in a file, relative to a directory. Raises ImageRefused for whatever cannot be sent."""
    try:
        whole = resolve(directory, path)
        info = stat_path(whole)
        if info is None:
            raise ImageRefused("no such file")
        if info.size > FILE_LIMIT and info.kind == "file":
            raise too_large(info.size)
        return prepare(read_bytes(whole, 0, FILE_LIMIT + 1))
    except EnvironmentFailed as error:
        raise ImageRefused(str(error)) from None
    except ImageRefused as error:
        raise ImageRefused(f"{path}: {error}") from None


def load_images(paths: Iterable[str], directory: str) -> list[ImageBlock]:
    """All of them, each once. Raises ImageRefused, also when they are too large together."""
    blocks = [load_image(path, directory) for path in dict.fromkeys(paths)]
    if sum(len(block["data"]) for block in blocks) > TOGETHER_LIMIT:
        raise ImageRefused(
            f"the {len(blocks)} images have more than {TOGETHER_LIMIT // 2**20} MiB together; send fewer at once"
        )
    return blocks


def with_images(text: str, directory: str) -> str | list[UserBlock]:
    """Return the content to send for a text: itself, or itself and the images it mentions. Raises ImageRefused."""
    paths = mentioned(text, directory)
    if not paths:
        return text
    try:
        return content(text, load_images(paths, directory))
    except ImageRefused as error:
        raise ImageRefused(f"{error}; or drop its @") from None  # a name is sent as text


def content(text: str, images: Sequence[ImageBlock]) -> str | list[UserBlock]:
    """A text and images as the content of a message (spec 17.3)."""
    return [{"type": "text", "text": text}, *images] if images else text


def mentioned(text: str, directory: str) -> list[str]:
    """The paths behind `@` that mean an image, by their content or by their name; other mentions are text."""
    found: list[str] = []
    for double, single, plain in _MENTION.findall(text):
        names = [double or single] if double or single else _candidates(plain)
        path = next((name for name in names if _kind(name, directory)), None)
        if path is None:  # not there, or something else: refused later, unless its name promised no image
            path = next((name for name in reversed(names) if name.lower().endswith(SUFFIXES)), None)
        if path is not None:
            found.append(path)
    return list(dict.fromkeys(found))


def _candidates(word: str) -> list[str]:
    """Return the paths a word may name: as it stands, then without what ends a sentence, and the same with blanks unescaped."""
    names = [word]
    while names[-1] and names[-1][-1] in _BEHIND:
        names.append(names[-1][:-1])
    names += [re.sub(r"\\([ \t])", r"\1", name) for name in names if "\\" in name]
    return [name for name in names if name]


def _kind(path: str, directory: str) -> str | None:
    """The kind of image in a file, None for anything else."""
    try:
        whole = resolve(directory, path)
        info = stat_path(whole)
        return kind_of(read_bytes(whole, 0, BEGINNING)) if info is not None and info.kind == "file" else None
    except EnvironmentFailed:
        return None


def mention(path: str) -> str:
    """Return the mention of a path for a message, so that `mentioned` finds it."""
    if _PLAIN.fullmatch(path):
        return f"@{path}"
    quote = next((quote for quote in ('"', "'") if quote not in path), None)
    return f"@{quote}{path}{quote}" if quote else "@" + re.sub(r"([ \t])", r"\\\1", path)


def pasted(text: str, directory: str) -> str:
    """Return what a paste becomes: mentions when it is nothing but paths of image files, as a drop on a terminal gives; else
    itself. A bare name is left alone: who pastes it may only want to speak of it.
    """
    if len(text) > PASTE_LIMIT or not any(suffix in text.lower() for suffix in SUFFIXES):
        return text
    stripped = text.strip()
    for names in ([stripped], _words(stripped)):
        paths = [_plain_path(name) for name in names]
        if paths and all("/" in path and _kind(path, directory) for path in paths):
            return " ".join(mention(_shorter(path, directory)) for path in paths) + " "
    return text


def _words(text: str) -> list[str]:
    """A line as a shell would split it; nothing for what is no such line."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _plain_path(name: str) -> str:
    """The path of a `file://` URL of this machine, any other text as it is."""
    if not name.startswith("file://"):
        return name
    try:
        parts = urlsplit(name)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.netloc in ("", "localhost") else ""


def _shorter(path: str, directory: str) -> str:
    """Relative to the directory where it lies below."""
    whole = resolve(directory, path)
    below = directory.rstrip("/") + "/"
    return whole[len(below) :] if whole.startswith(below) else whole


def keep_image(folder: Path, block: ImageBlock) -> Path:
    """Write an image to a new file (0600) of a folder. Raises OSError."""
    suffix = {"image/jpeg": ".jpg"}.get(block["mimeType"], "." + str(block["mimeType"]).rpartition("/")[2])
    path = folder / f"image-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}{suffix}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(base64.b64decode(block["data"]))
            file.flush()
            os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def editable(said: str | list[UserBlock], directory: str, folder: Path) -> str:
    """The text of a message's content such that sending it again sends the same images.

    An image that no mention in it leads to is kept as a file of `folder` and mentioned at the end.
    """
    text = content_text(said)
    images = [] if isinstance(said, str) else [block for block in said if block["type"] == "image"]
    found: set[str] = set()
    for path in mentioned(text, directory) if images else ():
        try:
            found.add(load_image(path, directory)["data"])
        except ImageRefused:
            continue  # changed or gone since it was sent
    kept = [mention(str(keep_image(folder, block))) for block in images if block["data"] not in found]
    return " ".join(part for part in (text, *kept) if part)
