"""Pictures: decoded whatever they are, found by number, varied by a generator alone, refused in one clear message."""

import io
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from zoo.data.columns.picture_table import of_rows
from zoo.data.columns.pictures import Augment, Pictures, decode, stored_at, upright

RED, BLUE = (255, 0, 0), (0, 0, 255)


def stored(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def plain(mode: str, color: Any, size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.new(mode, size, color)


def shown(image: Image.Image, kind: str = "PNG", **options: Any) -> list[int]:
    """The color of a picture of one color, as it is decoded."""
    picture = decode(stored(image, kind, **options), "x", 4)
    assert picture.shape == (3, 4, 4) and picture.dtype == np.uint8
    assert (picture == picture[:, :1, :1]).all()
    return [int(channel) for channel in picture[:, 0, 0]]


def test_every_mode_is_read_as_red_green_and_blue():
    assert shown(plain("RGB", RED)) == [255, 0, 0]
    assert shown(plain("L", 77)) == [77, 77, 77]
    assert shown(plain("1", 1)) == [255, 255, 255]
    assert shown(plain("P", 0).convert("RGB").quantize()) == [0, 0, 0]
    assert shown(plain("CMYK", (0, 255, 255, 0)), "TIFF") == [255, 0, 0]
    sixteen = Image.fromarray(np.full((4, 6), 77 * 256, dtype=np.uint16))
    assert shown(sixteen) == [77, 77, 77]


def test_what_is_transparent_lies_on_white():
    assert shown(plain("RGBA", (*RED, 0))) == [255, 255, 255]
    assert shown(plain("RGBA", (*RED, 255))) == [255, 0, 0]
    assert shown(plain("LA", (0, 0))) == [255, 255, 255]
    assert shown(plain("RGBA", (0, 0, 255, 51))) == [204, 204, 255]  # a fifth of it
    palette = plain("P", 1)
    palette.putpalette([0, 0, 0, *RED])
    assert shown(palette) == [255, 0, 0] and shown(palette, transparency=1) == [255, 255, 255]


def deep_png(color: Sequence[int], transparent: Sequence[int]) -> bytes:
    """A PNG of 16 bits, of one color, with a transparent one; Pillow writes none in red, green and blue."""

    def chunk(kind: bytes, held: bytes) -> bytes:
        return struct.pack(">I", len(held)) + kind + held + struct.pack(">I", zlib.crc32(kind + held))

    header = struct.pack(">IIBBBBB", 6, 4, 16, {1: 0, 3: 2}[len(color)], 0, 0, 0)
    row = b"\0" + np.array([color] * 6, dtype=">u2").tobytes()
    key = np.array(transparent, dtype=">u2").tobytes()
    parts = (b"IHDR", header), (b"tRNS", key), (b"IDAT", zlib.compress(row * 4))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in (*parts, (b"IEND", b"")))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_transparent_value_of_16_bits_lies_on_white(channels: int):
    key = [77 * 256 + 5] * channels
    for value, seen in ((key[0], 255), (key[0] + 256, 78), (0, 0)):
        assert (decode(deep_png([value] * channels, key), "x", 4) == seen).all()
    assert (decode(deep_png([0] * channels, [0] * channels), "x", 4) == 255).all()
    assert (decode(deep_png([key[0] + 1], key[:1]), "x", 4) == 77).all()
    for value, seen in ((5, 255), (77 * 256, 77)):  # a key with empty high bytes is of 16 bits, too
        assert (decode(deep_png([value] * channels, [5] * channels), "x", 4) == seen).all()


def test_the_transparent_color_of_8_bits_is_compared_whole():
    white = stored(plain("RGB", (5, 5, 5)), transparency=(5, 5, 5))
    assert (decode(white, "x", 4) == 255).all()
    assert (decode(stored(plain("RGB", (5, 5, 5)), transparency=(6, 5, 5)), "x", 4) == 5).all()


def test_deep_pixels_of_other_files_than_ppm_are_refused():
    with pytest.raises(ValueError, match="32-bit pixels have no known range"):
        decode(stored(Image.fromarray(np.full((4, 6), 1000, dtype=np.int32)), "TIFF"), "x", 4)


def with_tags(tiff: bytes, changes: dict[int, int]) -> bytes:
    """A TIFF with other values of tags that hold one number."""
    for tag, value in changes.items():
        at = tiff.index(struct.pack("<H", tag), int.from_bytes(tiff[4:8], "little"))  # where its tags begin
        tiff = tiff[: at + 8] + struct.pack("<I", value) + tiff[at + 12 :]
    return tiff


def test_gray_of_12_bits_and_gray_with_0_for_white_are_read_from_a_tiff():
    bright = stored(Image.fromarray(np.full((4, 6), 77 * 256, dtype=np.uint16)), "TIFF")
    assert (decode(bright, "x", 4) == 77).all() and (decode(with_tags(bright, {262: 0}), "x", 4) == 255 - 77).all()
    two = 77 << 4 << 12 | 77 << 4  # two pixels of 12 bits are three bytes
    packed = Image.frombytes("L", (9, 4), two.to_bytes(3, "big") * 12)
    assert (decode(with_tags(stored(packed, "TIFF"), {256: 6, 258: 12}), "x", 4) == 77).all()


def test_a_gray_ppm_of_more_than_8_bits_is_read():
    for most in (4095, 65535):
        pixels = np.full((4, 6), 77 * (most + 1) // 256, dtype=">u2")
        for header, body in ((b"P5", pixels.tobytes()), (b"P2", b" ".join(b"%d" % pixel for pixel in pixels.flat))):
            assert (decode(b"%s\n6 4\n%d\n%s" % (header, most, body), "x", 4) == 77).all()


def test_a_picture_is_brought_to_its_size_by_two_neighbors_each_way():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    resized = Image.fromarray(pixels).resize((4, 4), Image.Resampling.BILINEAR)
    assert (decode(stored(Image.fromarray(pixels)), "x", 4) == np.asarray(resized).transpose(2, 0, 1)).all()


def test_the_middle_square_is_read_and_a_camera_held_sideways_is_turned_back():
    wide = Image.new("RGB", (9, 3), BLUE)
    wide.paste(RED, (3, 0, 6, 3))
    assert (decode(stored(wide), "x", 3) == np.array(RED)[:, None, None]).all()
    halves = Image.new("RGB", (4, 4), BLUE)
    halves.paste(RED, (0, 0, 4, 2))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    turned = decode(stored(halves, exif=exif), "x", 4)
    assert turned[:, 0, 0].tolist() == list(BLUE) and turned[:, 3, 0].tolist() == list(RED)


def test_a_picture_is_turned_back_though_another_tag_of_its_camera_is_bad():
    """ImageWidth is a text: Pillow reads such EXIF, and cannot write it anew."""
    tags = struct.pack("<HHHI4sHHIHHI", 2, 0x0100, 2, 4, b"12 \0", 0x0112, 3, 1, 3, 0, 0)
    halves = Image.new("RGB", (16, 16), BLUE)
    halves.paste(RED, (0, 0, 16, 8))
    turned = decode(stored(halves, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0" + tags), "x", 16)
    assert turned[2, 2, 0] > 200 > 100 > turned[0, 2, 0]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_a_picture_is_turned_as_pillow_turns_it(form: str, orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    written = stored(Image.effect_noise((5, 9), 90), form, exif=exif)
    with Image.open(io.BytesIO(written)) as ours, Image.open(io.BytesIO(written)) as theirs:
        assert np.array_equal(np.asarray(upright(ours)), np.asarray(ImageOps.exif_transpose(theirs)))


def test_what_is_no_picture_is_refused_with_its_place():
    with pytest.raises(ValueError, match="a.jpg: not an image; allowed: JPEG, PNG"):
        decode(b"hello", "a.jpg", 4)
    whole = stored(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG")
    with pytest.raises(ValueError, match="a.jpg: cannot be read as an image: .*truncated"):
        decode(whole[: len(whole) // 2], "a.jpg", 4)
    with pytest.raises(ValueError, match="32-bit pixels have no known range"):
        decode(stored(plain("F", 0.5), "TIFF"), "a.tif", 4)


def test_a_tiff_that_says_where_its_pixels_stand_in_no_whole_number_is_refused():
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "TIFF")
    offsets, whole, broken = struct.pack("<H", 273), struct.pack("<H", 4), struct.pack("<H", 11)
    assert file.getvalue().count(offsets + whole) == 1
    with pytest.raises(ValueError, match="a.tiff: cannot be read as an image: 'float' object"):
        decode(file.getvalue().replace(offsets + whole, offsets + broken), "a.tiff", 4)


def test_a_format_that_starts_another_program_is_not_read():
    with pytest.raises(ValueError, match="not an image"):
        decode(stored(plain("RGB", RED), "EPS"), "a.eps", 4)


LARGE = """
from zoo.data.columns.pictures import MOST_PIXELS, decode
for pixels in (MOST_PIXELS, MOST_PIXELS + 1):
    try:
        decode(b"P5\\n1 %d\\n255\\n" % pixels, "x", 4)
    except ValueError as error:
        print(error)
"""


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded_and_none_is_warned_of():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True)  # pytest has its own filters
    at, above = done.stdout.splitlines()
    assert at.startswith("x: cannot be read as an image: image file is truncated") and done.stderr == ""
    assert above == "x: the image has more than 178,956,970 pixels; scale it down"


def pictures(values: list[Any], folder: Path | None = None) -> Pictures:
    return of_rows(values, folder, "train.csv")


def test_a_picture_is_bytes_or_the_path_of_a_file_beside_the_table(tmp_path: Path):
    one = stored(plain("RGB", RED))
    (tmp_path / "a.png").write_bytes(one)
    for gallery in (pictures([one]), pictures(["a.png"], tmp_path), pictures([{"bytes": one, "path": "b.png"}])):
        assert gallery.read(0, 2)[:, 0, 0].tolist() == list(RED)
        assert gallery.stored(0)[0] == pictures([one]).stored(0)[0] and len(gallery) == 1
    # bytes are used, so a fault in them is not one of the file that is named beside them
    assert pictures([{"bytes": one, "path": "a.png"}], tmp_path).stored(0) == (one, "train.csv: row 1")


def test_a_picture_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"train.csv: row 2: .*b.png: no such file; expected an image"):
        pictures([None, "b.png"], tmp_path).read(1, 2)
    (tmp_path / "c.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"train.csv: row 2: .*c.png: not an image; allowed: JPEG"):
        pictures(["a.png", "c.png"], tmp_path).read(1, 2)
    with pytest.raises(ValueError, match="train.csv: row 1: there is no image"):
        pictures([None, "b.png"], tmp_path).read(0, 2)
    with pytest.raises(ValueError, match="names the file 'b.png', but zoo reads only images inside the data"):
        pictures(["b.png"]).read(0, 2)
    with pytest.raises(ValueError, match="train.csv: row 2: expected the path of an image, its bytes, or a map"):
        pictures(["b.png", 3])


def test_rows_of_one_table_may_hold_images_in_different_forms(tmp_path: Path):
    one = stored(plain("RGB", RED))
    (tmp_path / "a.png").write_bytes(one)
    forms = [{"bytes": list(one)}, "a.png", one, {"path": "a.png"}, {"bytes": one, "path": "b.png"}]  # JSON lists bytes
    gallery = pictures(forms, tmp_path)
    assert [gallery.stored(number)[0] for number in range(len(forms))] == [one] * len(forms)


def noise(size: int = 8) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (3, size, size), dtype=np.uint8)


def test_nothing_is_varied_unless_it_is_asked_for():
    assert (Augment().apply(noise(), np.random.default_rng(0)) == noise()).all()


def test_about_every_second_picture_is_mirrored():
    varied = [Augment(flip=True).apply(noise(), np.random.default_rng(seed)) for seed in range(100)]
    mirrored = sum(bool((picture == noise()[:, :, ::-1]).all()) for picture in varied)
    assert 30 < mirrored < 70 and mirrored + sum(bool((picture == noise()).all()) for picture in varied) == 100


def test_a_picture_is_moved_by_at_most_its_share_and_its_mirror_image_comes_in_behind():
    seen = set()
    for seed in range(200):
        moved = Augment(shift=0.2).apply(noise(), np.random.default_rng(seed))
        wide = noise()[:, [2, 1, *range(8), 6, 5]][:, :, [2, 1, *range(8), 6, 5]]
        places = [(d, r) for d in range(5) for r in range(5) if (wide[:, d : d + 8, r : r + 8] == moved).all()]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 25


def test_a_share_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="task.augment.shift: 1.0 must be at least 0 and below 1"):
        Augment(shift=1.0).verify("task.augment")


OTHERS = [5, 0, [1], {"path": 5}, {"bytes": "x"}, {"bytes": 5}, {"bytes": [256]}, {"bytes": [-1]}, {"bytes": ["a"]}]
OTHERS += [{"bytes": [True]}]


@pytest.mark.parametrize("value", OTHERS, ids=str)
def test_what_is_no_picture_by_its_type_is_refused_by_its_row(tmp_path: Path, value: Any):
    hint = "; encode pixels, as PNG for example" if value == [1] else ""
    said = f"row 1: expected the path of an image, its bytes, or a map of both, got {value!r}{hint}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        stored_at(value, tmp_path, "row 1")


@pytest.mark.parametrize(
    "text", [32 * "iVBORw0K", 300 * "iVB/", "data:image/png;base64,iVBORw0K", "https://example.org/a.png"]
)
def test_a_text_that_is_no_path_of_an_image_is_refused_in_short(tmp_path: Path, text: str):
    said = f"row 1: expected the path of an image, got '{text[:60]}'; save images from base64 or the web as files, or"
    for folder in (tmp_path, None):
        with pytest.raises(ValueError, match=f"^{re.escape(said)} as bytes in Parquet$"):
            stored_at(text, folder, "row 1")
    deep = tmp_path.joinpath(*["folder"] * 100)
    deep.mkdir(parents=True)
    (deep / "a:1.png").write_bytes(b"stored")
    assert stored_at(str((deep / "a:1.png").relative_to(tmp_path)), tmp_path, "row 1")[0] == b"stored"
