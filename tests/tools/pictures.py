"""Image files for tests, made by Pillow."""

from __future__ import annotations

import base64
import io
import random
from typing import Any

from PIL import Image


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    """The bytes of a file of this form."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def plain(form: str = "PNG", size: tuple[int, int] = (30, 20), mode: str = "RGB", **options: Any) -> bytes:
    """An image of one colour."""
    return saved(Image.new(mode, size), form, **options)


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Pixels that hardly compress; the same at every call."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, (width, height), random.Random(7).randbytes(width * height * channels))


def opened(block: Any) -> Image.Image:
    """The image in a block, decoded."""
    image = Image.open(io.BytesIO(base64.b64decode(block["data"])))
    image.load()
    return image


def block(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    """An image block with these bytes, whatever they are."""
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": kind}
