"""What the bytes of an image say without decoding it: kind, size, whether they are all there. Pure.

Sources: PNG (third edition, 5), JPEG (ITU T.81, annex B), GIF89a, WebP (RFC 9649).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

PNG, JPEG, GIF, WEBP = "image/png", "image/jpeg", "image/gif", "image/webp"
SENDABLE = (PNG, JPEG, GIF, WEBP)  # what the Anthropic API takes, and with exceptions (see images.py) all others
NAMES = {
    PNG: "PNG", JPEG: "JPEG", GIF: "GIF", WEBP: "WebP",
    "image/bmp": "BMP", "image/tiff": "TIFF", "image/x-icon": "ICO", "image/avif": "AVIF",
}  # fmt: skip
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ico", ".avif")  # how they are called
BEGINNING = 32  # bytes that `kind_of` wants to see

_PNG_START = b"\x89PNG\r\n\x1a\n"
# What says how the pixels look; times, texts, places and animation are no part of that.
_PNG_KEPT = frozenset(b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP cICP sBIT bKGD pHYs".split())
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)  # what ends the data of a scan
_JPEG_KEPT = ((0xE0, b"JFIF\0"), (0xE2, b"ICC_PROFILE\0"), (0xEE, b"Adobe"))  # of APP0 to APP15


class Torn(ValueError):
    """The bytes end early or do not hang together; the message says how."""


@dataclass(slots=True, frozen=True)
class Picture:
    """`kind` is a MIME type; width and height in pixels as stored; `lossy` tells a photo from a graphic."""

    kind: str
    width: int
    height: int
    lossy: bool = False
    animated: bool = False


def kind_of(start: bytes) -> str | None:
    """The MIME type of an image by its first bytes, also of one that is not sendable as it is; None for anything else."""
    if start.startswith(b"\x89PNG"):
        return PNG
    if start.startswith(b"\xff\xd8\xff"):
        return JPEG
    if start[:6] in (b"GIF87a", b"GIF89a") and (len(start) < 13 or b"\0" in start[6:13]):  # else a text about GIFs
        return GIF
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WEBP
    if start.startswith(b"BM") and start[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if start[:4] in (b"II*\0", b"MM\0*"):
        return "image/tiff"
    if start.startswith(b"\0\0\1\0") and start[4:6] != b"\0\0" and start[9:10] == b"\0":
        return "image/x-icon"
    if start[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return None


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height of a sendable image as its header has them; None when they are not in these bytes."""
    try:
        kind = kind_of(data[:BEGINNING])
        if kind == PNG:
            return _png_size(data)
        if kind == JPEG:
            return next((size for size in (_jpeg_size(data, *part) for part in _jpeg_parts(data)) if size), None)
        if kind == GIF:
            return _pair(data, 6)
        if kind == WEBP:
            return _webp_size(data)
    except (Torn, IndexError):
        pass
    return None


def look(data: bytes) -> Picture:
    """Walk through a sendable image to its end. Raises Torn when it is none or is not all there.

    The compressed pixels themselves are not looked at, except for the checksums that a PNG has.
    """
    kind = kind_of(data[:BEGINNING])
    if kind not in SENDABLE:
        raise Torn("it is no PNG, JPEG, GIF or WebP image")
    animated = lossy = False
    try:
        if kind == PNG:
            chunks = {name for name, _, _ in _png_chunks(data)}
            if not {b"IHDR", b"IDAT"} <= chunks:
                raise Torn("it holds no pixels")
            animated = b"acTL" in chunks
        elif kind == JPEG:
            lossy = True
            if not any(marker == 0xDA for marker, _, _ in _jpeg_parts(data)):
                raise Torn("it holds no pixels")
        elif kind == GIF:
            frames = _gif_frames(data)
            if not frames:
                raise Torn("it holds no pixels")
            animated = frames > 1
        else:
            names = [data[at : at + 4] for at, _ in _webp_chunks(data)]
            if not {b"VP8 ", b"VP8L", b"ANMF"} & set(names):
                raise Torn("it holds no pixels")
            lossy, animated = b"VP8L" not in names, b"ANMF" in names
    except IndexError:
        raise Torn("it ends early") from None
    size = dimensions(data)
    if size is None or not all(size):
        raise Torn("its size is not given")
    return Picture(kind, *size, lossy, animated)


def without_metadata(data: bytes) -> bytes:
    """A whole PNG or JPEG without what does not change its pixels (places, names, comments, what follows its end)."""
    if kind_of(data[:BEGINNING]) == PNG:
        kept = [data[at:end] for name, at, end in _png_chunks(data) if name in _PNG_KEPT]
        return b"".join([_PNG_START, *kept])
    parts = [data[at:end] for marker, at, end in _jpeg_parts(data) if _is_kept(marker, data[at + 4 : at + 16])]
    return b"".join([b"\xff\xd8", *parts])


# -- PNG ---------------------------------------------------------------------------------------------------------------


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(name, start, end) of each chunk, to IEND."""
    if not data.startswith(_PNG_START):
        raise Torn("its signature is damaged")
    view = memoryview(data)
    at = len(_PNG_START)
    while True:
        end = at + 12 + _number(data, at, 4)
        if end > len(data):
            raise Torn("it ends early")
        if zlib.crc32(view[at + 4 : end - 4]) != _number(data, end - 4, 4):
            raise Torn("a checksum is wrong")
        name = data[at + 4 : at + 8]
        yield name, at, end
        if name == b"IEND":
            return
        at = end


def _png_size(data: bytes) -> tuple[int, int] | None:
    if not data.startswith(_PNG_START) or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    return _number(data, 16, 4), _number(data, 20, 4)


# -- JPEG --------------------------------------------------------------------------------------------------------------


def _jpeg_parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of each segment behind SOI, a scan with its data, to EOI. Fill bytes belong to none."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise Torn("a marker is missing")
        while data[at + 1] == 0xFF:
            at += 1
        marker = data[at + 1]
        if marker == 0xD9:
            yield marker, at, at + 2
            return
        if marker == 0x01 or 0xD0 <= marker <= 0xD8 or not marker:
            raise Torn("a marker is out of place")
        length = _number(data, at + 2, 2)
        end = at + 2 + length
        if length < 2 or end > len(data):
            raise Torn("it ends early")
        if marker == 0xDA:
            found = _JPEG_MARKER.search(data, end)
            if found is None:
                raise Torn("it ends early")
            end = found.start()
        yield marker, at, end
        at = end


def _jpeg_size(data: bytes, marker: int, at: int, _end: int) -> tuple[int, int] | None:
    return (_number(data, at + 7, 2), _number(data, at + 5, 2)) if marker in _JPEG_SIZES else None


def _is_kept(marker: int, content: bytes) -> bool:
    if 0xE0 <= marker <= 0xEF:
        return any(marker == kept and content.startswith(start) for kept, start in _JPEG_KEPT)
    return marker != 0xFE


# -- GIF ---------------------------------------------------------------------------------------------------------------


def _gif_frames(data: bytes) -> int:
    """Return the number of pictures before the trailer."""
    at = 13 + _gif_table(data[10])
    frames = 0
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at += 2
        elif data[at] == 0x2C:
            frames += 1
            at += 11 + _gif_table(data[at + 9])
        else:
            raise Torn("a block is out of place")
        while data[at]:
            at += data[at] + 1
        at += 1
    return frames


def _gif_table(flags: int) -> int:
    """Bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


# -- WebP --------------------------------------------------------------------------------------------------------------


def _webp_chunks(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, length of the content) of each chunk."""
    whole = 8 + int.from_bytes(data[4:8], "little")
    if whole > len(data):
        raise Torn("it ends early")
    at = 12
    while at + 8 <= whole:
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        if at + 8 + length > whole:
            raise Torn("it ends early")
        yield at, length
        at += 8 + length + length % 2


def _webp_size(data: bytes) -> tuple[int, int] | None:
    name = data[12:16]
    if len(data) < 30:
        return None
    if name == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if name == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if name == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = _pair(data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


# -- numbers -----------------------------------------------------------------------------------------------------------


def _number(data: bytes, at: int, count: int) -> int:
    """Big-endian. Raises Torn behind the end."""
    if at + count > len(data):
        raise Torn("it ends early")
    return int.from_bytes(data[at : at + count], "big")


def _pair(data: bytes, at: int) -> tuple[int, int]:
    """Two little-endian numbers of two bytes."""
    if at + 4 > len(data):
        raise Torn("it ends early")
    return int.from_bytes(data[at : at + 2], "little"), int.from_bytes(data[at + 2 : at + 4], "little")
