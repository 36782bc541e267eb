"""Images as every provider takes them: prepared from a file's bytes, or checked as they are (cases T30, T32).

An image that a provider refuses stays in the history and makes every later request fail, so none is stored that was not
prepared or checked here. What can be sent, by the strictest provider:

- Anthropic: PNG, JPEG, GIF, WebP; 5 MiB of base64; 8000 pixels a side, and 2000 once a request holds more than twenty
  images, as a long session may. Models see about 1568 pixels of the long side.
- OpenAI: the same kinds, but no animated GIF. Gemini takes no GIF, llama.cpp no WebP. So `prepare` makes PNG and JPEG.

Pillow is imported when an image is prepared.
"""

from __future__ import annotations

import base64
import io
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from durable_tui.models.imagebytes import (
    BEGINNING,
    JPEG,
    NAMES,
    PNG,
    Picture,
    Torn,
    dimensions,
    kind_of,
    look,
    without_metadata,
)
from durable_tui.models.messages import ImageBlock

if TYPE_CHECKING:
    from PIL.Image import Image

ENCODED_LIMIT = 5 * 1024 * 1024  # characters of base64
SIDE_LIMIT = 8000  # pixels
SIDE = 2000  # what a prepared image has at most
PIXELS = 89_478_485  # beyond it Pillow speaks of a decompression bomb: a quarter of a GiB of colours
FILE_LIMIT = 64 * 1024 * 1024  # bytes of a file that is looked at at all

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF")
_QUALITIES = (90, 75, 50)
_SMALLEST = 64
_BOMB = "it has too many pixels to be decoded"
_WRAPPING = re.compile(r"\s+|^\s*data:[^,]*,")
_one_at_a_time = threading.Lock()  # a decoded image may take hundreds of megabytes


class ImageRefused(ValueError):
    """The image cannot be sent. The message goes on after a name: "it is empty", "the PNG image is cut off …"."""


@dataclass(slots=True, frozen=True)
class Prepared:
    """An image block ready to be stored, what the file was, and the size that is sent. Sizes in upright pixels."""

    block: ImageBlock
    kind: str
    size: tuple[int, int]
    sent: tuple[int, int]

    def __str__(self) -> str:
        """A phrase: `a PNG image of 9000x40 pixels, shown at 2000x9`."""
        smaller = "" if self.size == self.sent else f", shown at {_times(self.sent)}"
        name = NAMES[self.kind]
        return f"{'an' if name[0] in 'AI' else 'a'} {name} image of {_times(self.size)} pixels{smaller}"


def prepare(data: bytes) -> ImageBlock:
    """The image of a file as a block that can be sent; see `prepared`."""
    return prepared(data).block


def prepared(data: bytes) -> Prepared:
    """Decode an image to see that it is whole, and make it fit. Takes its time: call it in a thread.

    The kind is decided by content. A PNG or JPEG within the limits stays as it is, but for metadata (where a photo was
    taken, by whom), which is cut out. All others are made anew: turned upright, first picture only, at most 2000 pixels
    a side, photos as JPEG, graphics as PNG, and as JPEG on white where that would be too large.
    Raises ImageRefused.
    """
    if not data:
        raise ImageRefused("it is empty")
    if len(data) > FILE_LIMIT:
        raise too_large(len(data))
    kind = kind_of(data[:BEGINNING])
    if kind is None:
        others = ", ".join(list(NAMES.values())[:-1])
        raise ImageRefused(f"it is no image that can be sent: {others} and {list(NAMES.values())[-1]} can")
    with _one_at_a_time:
        try:
            return _decoded(data, kind)
        except ImageRefused:
            raise
        except MemoryError:
            raise ImageRefused(_BOMB) from None
        except Exception as error:  # noqa: BLE001 - decoders fail on hostile bytes in every way there is
            if type(error).__name__.startswith("DecompressionBomb"):
                raise ImageRefused(_BOMB) from None
            raise ImageRefused(f"the {NAMES[kind]} image is cut off or damaged") from None


def too_large(size: int) -> ImageRefused:
    """For a file beyond FILE_LIMIT, which need not be read to be refused."""
    return ImageRefused(f"it has {size / 2**20:.0f} MiB; at most {FILE_LIMIT // 2**20} MiB are read as an image")


def check_block(block: Mapping[str, object]) -> str | None:
    """Return why an image block cannot be sent as it is, None when it can. Nothing is decoded.

    A whole image of up to 8000 pixels a side passes, whoever made it; only what `prepare` makes is fit for everyone.
    """
    data, kind = block.get("data"), block.get("mimeType")
    if not isinstance(data, str) or not data:
        return "it has no data"
    if len(data) > ENCODED_LIMIT:
        return f"it has {len(data) / 2**20:.1f} MiB encoded; at most {ENCODED_LIMIT // 2**20} MiB can be sent"
    try:
        picture = look(base64.b64decode(data, validate=True))
    except Torn as error:
        return str(error)
    except ValueError:
        return "its data is no base64"
    if picture.kind != kind:
        return f"its content is {picture.kind}, its mimeType {kind!r}"
    size = picture.width, picture.height
    if max(size) > SIDE_LIMIT:
        return f"it has {_times(size)} pixels; at most {SIDE_LIMIT} a side can be sent"
    return None


def fit(block: Mapping[str, object]) -> Prepared | None:
    """A block of somebody else's made fit for every provider; None when it is so already. Raises ImageRefused."""
    encoded = str(block.get("data") or "")
    if check_block(block) is None and block["mimeType"] in (PNG, JPEG):
        size = dimensions(base64.b64decode(encoded))
        if size is not None and max(size) <= SIDE:
            return None
    try:
        data = base64.b64decode(_WRAPPING.sub("", encoded), validate=True)
    except ValueError:
        raise ImageRefused("its data is no base64") from None
    return prepared(data)


def placeholder(block: Mapping[str, object]) -> str:
    """Return the words for a model that sees no images in place of one; cheap, and true of any block."""
    kind = block.get("mimeType")
    size = _size_of(block.get("data"))
    words = [kind if isinstance(kind, str) and kind else "of unknown type", *([_times(size)] if size else [])]
    return f"(an image, {' '.join(words)}; this model cannot see images)"


def is_image(block: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a content block is an image."""
    return isinstance(block, Mapping) and block.get("type") == "image"


def _size_of(data: object) -> tuple[int, int] | None:
    """The size of an encoded image by its beginning; of a JPEG with much before its header by all of it."""
    if not isinstance(data, str):
        return None
    for end in (4096, 262_144, ENCODED_LIMIT):
        try:
            size = dimensions(base64.b64decode(data[:end]))
        except ValueError:
            return None
        if size is not None or len(data) <= end:
            return size
    return None


# -- with Pillow -------------------------------------------------------------------------------------------------------


def _decoded(data: bytes, kind: str) -> Prepared:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged files: nothing may be written on a screen
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > PIXELS:
                raise ImageRefused(f"{_BOMB}: {_times(image.size)}")
            if image.format == "TIFF" and image.info.get("compression", "raw") != "raw":
                # The library for it speaks of damage on standard error, which may be the screen.
                raise ImageRefused("it is a compressed TIFF image, which is not read; convert it to PNG")
            size = image.size
            image.draft(None, (SIDE, SIDE))  # a large JPEG is decoded at a fraction of its size
            image.load()
            orientation = image.getexif().get(0x0112, 1)  # not before: loading may have turned it
            if orientation in (5, 6, 7, 8):
                size = size[1], size[0]
            if orientation in (0, 1) and image.mode != "CMYK" and (as_it_is := _as_it_is(data)):
                return Prepared(_block(as_it_is, kind), kind, size, size)
            picture = _look(data)
            # Before anything is made of it: what is left of a photo's own words must not be written again.
            profile = image.info.get("icc_profile") if image.mode in ("RGB", "RGBA") else None
            plain = _plain(ImageOps.exif_transpose(image))
            plain.info = {"icc_profile": profile} if profile else {}
    photo = plain.mode != "RGBA" and (kind in (JPEG, "image/avif") or (picture is not None and picture.lossy))
    raw, made, sent = _made(plain, photo)
    return Prepared(_block(raw, made), kind, size, sent)


def _as_it_is(data: bytes) -> bytes | None:
    """The bytes of a PNG or JPEG within the limits without its metadata, None for what has to be made anew."""
    picture = _look(data)
    if picture is None or picture.kind not in (PNG, JPEG) or max(picture.width, picture.height) > SIDE:
        return None
    cut = without_metadata(data)
    return cut if _fits(cut) else None


def _look(data: bytes) -> Picture | None:
    try:
        return look(data)
    except Torn:
        return None  # Pillow could read it, so it can be made anew


def _plain(image: Image) -> Image:
    """In a mode that both PNG and JPEG know, or with alpha."""
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value / 256).convert("L")
    if image.mode in ("I", "F"):  # any range at all: what is darkest becomes black, what is lightest white
        low, high = image.getextrema()
        assert isinstance(low, (int, float)) and isinstance(high, (int, float))
        scale = 255 / ((high - low) or 1)
        return image.convert("F").point(lambda value: value * scale - low * scale).convert("L")
    if image.mode in ("1", "L"):
        return image.convert("L")
    return image.convert("RGB")


def _made(image: Image, photo: bool) -> tuple[bytes, str, tuple[int, int]]:
    """(bytes, MIME type, size): the first way that fits; if none does, smaller."""
    side = SIDE
    while side >= _SMALLEST:
        smaller = _within(image, side)
        for raw, kind in _encodings(smaller, photo):
            if _fits(raw):
                return raw, kind, smaller.size
        side = side * 3 // 4
    raise ImageRefused("it cannot be made small enough")


def _within(image: Image, side: int) -> Image:
    from PIL import Image

    longest = max(image.size)
    if longest <= side:
        return image
    size = (max(1, round(image.width * side / longest)), max(1, round(image.height * side / longest)))
    smaller = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    smaller.info = image.info
    return smaller


def _encodings(image: Image, photo: bool) -> Iterator[tuple[bytes, str]]:
    if not photo:
        yield _saved(image, "PNG"), PNG
    flat = _on_white(image)
    for quality in _QUALITIES:
        yield _saved(flat, "JPEG", quality=quality), JPEG


def _on_white(image: Image) -> Image:
    from PIL import Image

    if image.mode != "RGBA":
        return image
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image.getchannel("A"))
    flat.info = image.info
    return flat


def _saved(image: Image, form: str, **options: int) -> bytes:
    out = io.BytesIO()
    profile = image.info.get("icc_profile")
    image.save(out, form, **options, **({"icc_profile": profile} if profile else {}))
    return out.getvalue()


def _fits(raw: bytes) -> bool:
    return (len(raw) + 2) // 3 * 4 <= ENCODED_LIMIT


def _block(raw: bytes, kind: str) -> ImageBlock:
    return {"type": "image", "data": base64.b64encode(raw).decode("ascii"), "mimeType": kind}


def _times(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
