"""Images: what is prepared can be sent, what cannot is refused with a text (cases T30, T32)."""

from __future__ import annotations

import base64
import contextlib
import io
import struct
import warnings
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from durable_tui.models import images
from durable_tui.models.imagebytes import BEGINNING, Torn, dimensions, kind_of, look, without_metadata
from durable_tui.models.images import ImageRefused, check_block, fit, placeholder, prepare, prepared
from tests.tools import pictures
from tests.tools.strict_rules import image as violations

FORMS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF"]
PLAIN = {form: pictures.plain(form, (32, 24)) for form in FORMS if form != "ICO"}
PLAIN["ICO"] = pictures.plain("ICO", (32, 32))
MIME = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def refused(data: bytes) -> str:
    with pytest.raises(ImageRefused) as found:
        prepare(data)
    return str(found.value)


def huge_png(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its few bytes do not have."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


# -- prepare


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_is_known_by_its_content_and_becomes_png_or_jpeg(form: str) -> None:
    image = prepared(PLAIN[form])
    assert image.kind == kind_of(PLAIN[form][:BEGINNING])
    assert image.block["mimeType"] in ("image/png", "image/jpeg")
    assert pictures.opened(image.block).size == image.sent == image.size == (32, 32 if form == "ICO" else 24)
    assert not violations("", image.block["data"]) and check_block(image.block) is None


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_what_is_within_the_limits_stays_byte_for_byte(form: str) -> None:
    data = pictures.saved(pictures.noise(300, 200), form)
    assert base64.b64decode(prepare(data)["data"]) == data


def test_t32_a_side_beyond_the_limit_is_made_smaller_and_the_shape_is_kept() -> None:
    image = prepared(pictures.plain("PNG", (9000, 40)))
    assert (image.size, image.sent) == ((9000, 40), (2000, 9))
    assert pictures.opened(image.block).size == (2000, 9)
    assert str(image) == "a PNG image of 9000x40 pixels, shown at 2000x9"
    assert prepared(pictures.plain("PNG", (1, 30_000), "1")).sent == (1, 2000)


@pytest.mark.parametrize(("mode", "kind"), [("RGB", "image/jpeg"), ("RGBA", "image/jpeg")])
def test_t32_bytes_beyond_the_limit_are_made_fewer(mode: str, kind: str) -> None:
    data = pictures.saved(pictures.noise(1900, 1500, mode), "PNG")
    assert len(data) * 4 // 3 > images.ENCODED_LIMIT
    block = prepare(data)
    assert block["mimeType"] == kind and not violations("", block["data"])
    assert pictures.opened(block).size == (1900, 1500)


def test_what_fits_in_no_quality_is_made_smaller_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "ENCODED_LIMIT", 60_000)
    image = prepared(pictures.saved(pictures.noise(1200, 600), "PNG"))
    assert len(image.block["data"]) <= 60_000
    assert image.sent < image.size and image.sent[0] == 2 * image.sent[1]
    monkeypatch.setattr(images, "ENCODED_LIMIT", 100)
    assert "small enough" in refused(pictures.saved(pictures.noise(1200, 600), "PNG"))


def test_graphics_stay_png_with_their_alpha_and_photos_become_jpeg() -> None:
    glass = Image.new("RGBA", (3000, 30), (255, 0, 0, 128))
    kept = pictures.opened(prepare(pictures.saved(glass, "PNG")))
    assert (kept.format, kept.mode, kept.getpixel((5, 5))) == ("PNG", "RGBA", (255, 0, 0, 128))
    assert prepare(pictures.saved(pictures.noise(64, 64), "WEBP", quality=80))["mimeType"] == "image/jpeg"
    assert prepare(pictures.saved(pictures.noise(64, 64), "WEBP", lossless=True))["mimeType"] == "image/png"
    assert prepare(pictures.saved(pictures.noise(3000, 20), "JPEG"))["mimeType"] == "image/jpeg"
    palette = Image.new("P", (3000, 30), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    assert pictures.opened(prepare(pictures.saved(palette, "PNG"))).convert("RGB").getpixel((9, 9)) == (10, 20, 30)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_mode_of_a_png_can_be_made_smaller(mode: str) -> None:
    assert prepared(pictures.plain("PNG", (2500, 10), mode)).sent == (2000, 8)


def test_unusual_colours_keep_their_look() -> None:
    grey = pictures.opened(prepare(pictures.saved(Image.new("I;16", (2400, 10), 0x8000), "PNG")))
    assert grey.mode == "L" and grey.getpixel((5, 5)) == 128
    cmyk = pictures.opened(prepare(pictures.saved(Image.new("CMYK", (30, 20), (0, 255, 255, 0)), "JPEG")))
    red, green, blue = cmyk.getpixel((5, 5))  # type: ignore[misc]
    assert cmyk.mode == "RGB" and red > 200 and max(green, blue) < 60
    for mode in ("F", "I"):
        ramp = Image.new(mode, (2, 1))
        ramp.putpixel((0, 0), -1000)
        ramp.putpixel((1, 0), 70_000)
        shown = pictures.opened(prepare(pictures.saved(ramp, "TIFF")))
        assert [shown.getpixel((x, 0)) for x in (0, 1)] == [0, 255]


def test_of_an_animation_the_first_picture_is_sent() -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "lime", "blue")]
    for form in ("GIF", "WEBP", "PNG"):
        data = pictures.saved(frames[0], form, save_all=True, append_images=frames[1:], lossless=True)
        assert look(data).animated
        shown = pictures.opened(prepare(data))
        assert getattr(shown, "n_frames", 1) == 1
        red, green, blue = shown.convert("RGB").getpixel((3, 3))  # type: ignore[misc]
        assert red > 200 and max(green, blue) < 60


def test_a_photo_is_turned_upright() -> None:
    photo = Image.new("RGB", (300, 100), "white")
    photo.paste("red", (0, 0, 100, 100))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    for form in ("JPEG", "PNG", "WEBP", "TIFF"):
        image = prepared(pictures.saved(photo, form, exif=exif))
        assert image.size == image.sent == (100, 300)
        shown = pictures.opened(image.block)
        assert shown.size == (100, 300) and not shown.getexif()
        red, green, _ = shown.convert("RGB").getpixel((50, 50))  # type: ignore[misc]
        assert red > 200 and green < 60


def secrets_in(form: str, size: tuple[int, int]) -> bytes:
    """A file with a place, an author and a comment in it, in every way the form has."""
    exif = Image.Exif()
    exif[0x013B] = "AUTHOR-MARK"
    exif.get_ifd(0x8825)[29] = "PLACE-MARK"
    options: dict[str, object] = {"exif": exif}
    if form == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_text("Comment", "COMMENT-MARK")
        info.add_itxt("XML:com.adobe.xmp", "XMP-MARK")
        options["pnginfo"] = info
    else:
        options |= {"comment": b"COMMENT-MARK", "xmp": b"XMP-MARK"}
    data = pictures.saved(pictures.noise(*size), form, **options)
    return data + b"TRAILER-MARK"


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize("size", [(40, 30), (2100, 30)])
def test_no_place_name_or_comment_goes_with_the_image(form: str, size: tuple[int, int]) -> None:
    data = secrets_in(form, size)
    assert all(mark in data for mark in (b"AUTHOR-MARK", b"PLACE-MARK", b"COMMENT-MARK", b"XMP-MARK"))
    sent = base64.b64decode(prepare(data)["data"])
    assert b"-MARK" not in sent


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_cutting_metadata_changes_no_pixel(form: str) -> None:
    data = secrets_in(form, (40, 30))
    before, after = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(without_metadata(data)))
    assert before.tobytes() == after.tobytes() and look(without_metadata(data)).width == 40


def test_a_colour_profile_is_kept() -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for form, width in (("PNG", 40), ("JPEG", 40), ("PNG", 2100), ("JPEG", 2100)):
        data = pictures.saved(pictures.noise(width, 20), form, icc_profile=profile)
        assert pictures.opened(prepare(data)).info.get("icc_profile") == profile


# -- refused


@pytest.mark.parametrize("form", FORMS)
def test_t30_a_file_cut_off_anywhere_is_refused_or_whole(form: str) -> None:
    data = pictures.saved(pictures.noise(32, 32), form)
    for end in [*range(40), *range(40, len(data) - 1, max(1, len(data) // 40))]:
        try:
            block = prepare(data[:end])
        except ImageRefused as error:
            assert str(error)
        else:
            assert max(pictures.opened(block).size) == 32 or form == "ICO"  # which holds smaller ones before
            assert not violations("", block["data"])


def test_t30_refusals_say_why() -> None:
    assert refused(b"") == "it is empty"
    assert refused(PLAIN["PNG"][:20]) == "the PNG image is cut off or damaged"
    assert "PNG, JPEG, GIF, WebP, BMP, TIFF, ICO and AVIF can" in refused(b"no picture here\n")
    assert "PNG, JPEG" in refused(b"<!doctype html>")
    assert "PNG, JPEG" in refused(b"%PDF-1.7\n")


def test_too_many_pixels_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for width, height in ((10_000, 10_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)):
            assert "too many pixels" in refused(huge_png(width, height))
    assert "cut off or damaged" in refused(huge_png(8000, 8000))
    monkeypatch.setattr(images, "FILE_LIMIT", 1000)
    assert "at most" in refused(b"\x89PNG" + bytes(1001))


def test_nothing_is_written_about_a_damaged_file(capfd: pytest.CaptureFixture[str]) -> None:
    """Decoders must not speak to the terminal that the screen is drawn on."""
    packed = {
        f"TIFF {how}": pictures.saved(pictures.noise(64, 48).convert("1"), "TIFF", compression=how)
        for how in ("group4", "tiff_lzw", "tiff_deflate")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for data in [*(pictures.saved(pictures.noise(64, 64), form) for form in FORMS), *packed.values()]:
            for end in range(10, len(data), max(1, len(data) // 30)):
                for damaged in (data[:end], data[:end] + b"\xff\0\xff" + data[end + 3 :]):
                    with contextlib.suppress(ImageRefused):
                        prepare(damaged)
    assert capfd.readouterr() == ("", "")
    for data in packed.values():
        assert "compressed TIFF" in refused(data)


def test_running_out_of_memory_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_left(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Image, "open", nothing_left)
    assert "too many pixels" in refused(PLAIN["PNG"])


@pytest.mark.parametrize(
    "start",
    [b"GIF89a is a format of pictures", b"BM is my name", b"II*", b"RIFF and raff", b"", b"\0\0\1\0", b"ftypavif"],
)
def test_texts_and_others_are_no_images(start: bytes) -> None:
    assert kind_of(start) is None


_MUTATED = st.builds(
    lambda form, at, piece: PLAIN[form][: at % len(PLAIN[form])] + piece + PLAIN[form][at % len(PLAIN[form]) + 1 :],
    st.sampled_from(FORMS),
    st.integers(0, 100_000),
    st.binary(max_size=6),
)
_STARTS = st.sampled_from(
    [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a\1\0\1\0\0\0\0", b"RIFF\xff\0\0\0WEBPVP8X"]
)


@given(st.binary(max_size=200) | st.builds(bytes.__add__, _STARTS, st.binary(max_size=200)) | _MUTATED)
def test_t30_whatever_the_bytes_they_are_refused_or_can_be_sent(data: bytes) -> None:
    try:
        block = prepare(data)
    except ImageRefused:
        return
    assert not violations("", block["data"])
    assert check_block(block) is None and fit(block) is None
    assert block["mimeType"] == kind_of(base64.b64decode(block["data"])[:BEGINNING])


@given(st.builds(bytes.__add__, _STARTS, st.binary(max_size=200)) | _MUTATED)
def test_looking_at_any_bytes_ends_with_a_picture_or_torn(data: bytes) -> None:
    try:
        picture = look(data)
    except Torn as error:
        assert str(error)
    else:
        assert (picture.width, picture.height) == dimensions(data) and picture.width > 0


@given(st.sampled_from(sorted(MIME)), st.integers(0, 10_000))
def test_a_block_cut_off_anywhere_does_not_pass(form: str, end: int) -> None:
    data = PLAIN[form]
    problem = check_block(pictures.block(data[: end % len(data)], MIME[form]))
    assert problem is not None


# -- blocks of others


@pytest.mark.parametrize("form", sorted(MIME))
def test_whole_blocks_pass(form: str) -> None:
    assert check_block(pictures.block(PLAIN[form], MIME[form])) is None
    assert look(PLAIN[form]).kind == MIME[form] and dimensions(PLAIN[form]) == (32, 24)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"type": "image", "mimeType": "image/png"}, "no data"),
        ({"type": "image", "data": "", "mimeType": "image/png"}, "no data"),
        ({"type": "image", "data": 7, "mimeType": "image/png"}, "no data"),
        ({"type": "image", "data": "###", "mimeType": "image/png"}, "no base64"),
        ({"type": "image", "data": "ä", "mimeType": "image/png"}, "no base64"),
        ({"type": "image", "data": "A" * 6_000_000, "mimeType": "image/png"}, "5.7 MiB encoded; at most 5 MiB"),
        (pictures.block(b"no picture"), "no PNG, JPEG, GIF or WebP"),
        (pictures.block(PLAIN["BMP"], "image/bmp"), "no PNG, JPEG, GIF or WebP"),
        (pictures.block(PLAIN["PNG"], "image/jpeg"), "its content is image/png, its mimeType 'image/jpeg'"),
        ({"type": "image", "data": pictures.block(PLAIN["PNG"])["data"]}, "its mimeType None"),
        (pictures.block(PLAIN["PNG"][:-1]), "ends early"),
        (pictures.block(PLAIN["PNG"][:50] + b"x" + PLAIN["PNG"][51:]), "checksum"),
        (pictures.block(pictures.plain("PNG", (8001, 2))), "8001x2 pixels; at most 8000"),
    ],
)
def test_t30_t32_what_cannot_be_sent_says_why(block: dict[str, object], says: str) -> None:
    assert says in str(check_block(block))


def test_blocks_of_others_are_made_fit_or_refused() -> None:
    assert fit(pictures.block(PLAIN["PNG"])) is None
    wide = fit(pictures.block(pictures.plain("PNG", (9000, 40))))
    assert wide is not None and wide.sent == (2000, 9)
    wrong = fit(pictures.block(PLAIN["JPEG"], "image/png"))
    assert wrong is not None and wrong.block == pictures.block(PLAIN["JPEG"], "image/jpeg")
    for form in ("GIF", "WEBP", "BMP"):
        made = fit(pictures.block(PLAIN[form], MIME.get(form, "image/bmp")))
        assert made is not None and made.block["mimeType"] in ("image/png", "image/jpeg")
    text = pictures.block(PLAIN["PNG"])["data"]
    for data in (f"data:image/png;base64,{text}", f"{text[:40]}\r\n{text[40:]}\n"):
        again = fit({"type": "image", "data": data, "mimeType": "image/png"})
        assert again is not None and again.block["data"] == text
    for bad in ({"type": "image"}, {"type": "image", "data": "%"}, pictures.block(PLAIN["PNG"][:30])):
        with pytest.raises(ImageRefused):
            fit(bad)


def test_the_placeholder_names_kind_and_size_of_any_block() -> None:
    assert placeholder(pictures.block(PLAIN["PNG"])) == "(an image, image/png 32x24; this model cannot see images)"
    profiled = pictures.saved(pictures.noise(40, 30), "JPEG", icc_profile=bytes(200_000))
    assert "image/jpeg 40x30;" in placeholder(pictures.block(profiled, "image/jpeg"))
    for form in ("GIF", "WEBP"):
        assert f"{MIME[form]} 32x24;" in placeholder(pictures.block(PLAIN[form], MIME[form]))
    assert placeholder({"type": "image"}) == "(an image, of unknown type; this model cannot see images)"
    assert "(an image, image/png;" in placeholder({"type": "image", "data": "###", "mimeType": "image/png"})


def test_pillow_is_not_loaded_before_an_image_is_prepared() -> None:
    import subprocess
    import sys

    code = "import sys, durable_tui.models.images, durable_tui.host.attachments; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
