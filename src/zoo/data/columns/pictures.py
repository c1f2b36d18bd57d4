"""Images: found, decoded, and resized to the square that the model reads; augmented in training."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import BITSPERSAMPLE, PHOTOMETRIC_INTERPRETATION, TiffImageFile

from zoo.data.ids import PICTURE, Picture
from zoo.disk import POINTER, POINTER_ADVICE, exists, is_file

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # Pillow decodes them without another program
MOST_PIXELS = 178_956_970  # Pillow's own limit
LONGEST_PATH, LONGEST_NAME = 1024, 255  # characters of a path, and of a file's or a folder's name
PNG = b"\x89PNG\r\n\x1a\n"  # then 4 bytes each: length and name of a block, width, height; then bits per channel
WHITE = (255, 255, 255, 255)
WHITE_IS_ZERO = 0  # of a TIFF's photometric interpretation
ORIENTATION = 0x0112  # EXIF tag: how the camera was held
TURNS: dict[Any, Image.Transpose] = {  # orientation -> what makes the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Pillow warns from half of MOST_PIXELS on. Ignored globally, since `catch_warnings` around each image would reset the
# registry that shows each other warning only once.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning, append=True)


@dataclass(frozen=True)
class Augment:
    """How training images are varied.

    Args:
        flip: mirror half of the images, drawn at random.
        shift: move each image by up to this fraction of its side, and fill the gap with its reflection; a plain color
            would mark the border, which no image outside training has.
    """

    flip: bool = False
    shift: float = 0.0

    def verify(self, place: str) -> None:
        """Raise a ValueError if a setting is out of range."""
        if not 0 <= self.shift < 1:
            raise ValueError(f"{place}.shift: {self.shift} must be at least 0 and below 1")

    def apply(self, picture: Picture, generator: np.random.Generator) -> Picture:
        """An image, mirrored and moved as drawn from the generator."""
        if self.flip and generator.random() < 0.5:
            picture = picture[:, :, ::-1]
        margin = round(self.shift * picture.shape[1])
        if margin:
            down, right = generator.integers(0, 2 * margin + 1, size=2)
            wide = np.pad(picture, ((0, 0), (margin, margin), (margin, margin)), mode="reflect")
            picture = wide[:, down : down + picture.shape[1], right : right + picture.shape[2]]
        return np.ascontiguousarray(picture)


class PictureColumn(Protocol):
    """A table's column of images: bytes, the path of a file, or a map of both."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Mapping[str, Any]: ...


class Pictures:
    """The images of a source, by number, read when they are needed; `picture_table` opens them.

    Args:
        folder: the folder of files with relative paths; None: only bytes are read.
        place: the location of the table, for messages.
    """

    def __init__(self, column: PictureColumn, folder: Path | None, place: str) -> None:
        self.column, self.folder, self.place = column, folder, place

    def __len__(self) -> int:
        return len(self.column)

    def stored(self, number: int) -> tuple[bytes, str]:
        """An image's encoded bytes, and their location: the row, and the file that it names.

        Raises:
            ValueError: the row holds no image, or its file does not exist.
        """
        return stored_at(self.column[number][PICTURE], self.folder, f"{self.place}: row {number + 1}")

    def read(self, number: int, size: int) -> Picture:
        """An image as the model reads it: uint8, (channels, size, size)."""
        return decode(*self.stored(number), size)


def stored_at(value: str | bytes | Mapping[str, Any] | None, folder: Path | None, place: str) -> tuple[bytes, str]:
    """As `stored_bytes`, and the location with the file, if the row names one."""
    stored, path = stored_bytes(value, folder, place), bytes_or_path(value)[1]
    return stored, place if path is None or folder is None else f"{place}: {folder / path}"


def stored_bytes(value: str | bytes | Mapping[str, Any] | None, folder: Path | None, place: str) -> bytes:
    """The encoded bytes of an image that a row holds, or names by the path of a file.

    Raises:
        ValueError: the file does not exist, or the row holds neither bytes nor a path of a file.
    """
    try:
        stored, path = bytes_or_path(value)
    except ValueError as problem:
        raise ValueError(f"{place}: {problem}") from None
    if stored:
        return stored
    if not path:
        raise ValueError(f"{place}: there is no image")
    too_long = len(path) > LONGEST_PATH or max(map(len, path.split("/"))) > LONGEST_NAME
    if too_long or "://" in path or path.startswith("data:"):
        remedy = "save images from base64 or the web as files, or as bytes in Parquet"
        raise ValueError(f"{place}: expected the path of an image, got {path[:60]!r}; {remedy}")
    if folder is None:
        raise ValueError(f"{place}: names the file '{path}', but zoo reads only images inside the data")
    return read_file(folder / path, place)


def bytes_or_path(value: Any) -> tuple[bytes | None, str | None]:
    """The bytes of a row's image or, if it has none, the path of its file; neither if the row holds no image.

    Raises:
        ValueError: the value is of another type.
    """
    stored, path = (None, value) if isinstance(value, str) else (value, None)
    if isinstance(value, Mapping):
        stored, path = value.get("bytes"), value.get("path")
        if isinstance(stored, list) and all(type(one) is int and 0 <= one < 256 for one in stored):
            stored = bytes(stored)  # as JSON writes them
    if not isinstance(stored, bytes | None) or not isinstance(path, str | None):
        hint = "; encode pixels, as PNG for example" if isinstance(value, list) else ""
        raise ValueError(f"expected the path of an image, its bytes, or a map of both, got {value!r:.80}{hint}")
    return (stored, None) if stored else (None, path or None)


def named_file(value: Any) -> str | None:
    """The path of the file that a row's image is read from; None if the row holds the bytes, or no image."""
    try:
        return bytes_or_path(value)[1]
    except ValueError:  # an error where it is read
        return None


def read_file(path: Path, place: str) -> bytes:
    """The bytes of a file.

    Raises:
        ValueError: the file does not exist or cannot be read.
    """
    try:
        if not is_file(path):
            raise ValueError(f"{place}: {path}: {'not a file' if exists(path) else 'no such file'}; expected an image")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{place}: {path}: cannot be read: {error.strerror}") from None


def decode(stored: bytes, place: str, size: int) -> Picture:
    """The middle square of an image, resized: RGB bytes of shape (channels, size, size).

    Raises:
        ValueError: the bytes are not an image, are damaged, or have more than `MOST_PIXELS` pixels.
    """
    try:
        with Image.open(io.BytesIO(stored), formats=FORMATS) as image:
            color = image.info.get("transparency")
            if isinstance(color, tuple) and is_deep(stored):  # Pillow reduces pixels to 8 bits, not this
                image.info["transparency"] = tuple(channel >> 8 for channel in color)
            return square(image, size)
    except UnidentifiedImageError:
        wrong = POINTER_ADVICE if stored.startswith(POINTER) else f"not an image; allowed: {', '.join(FORMATS)}"
        raise ValueError(f"{place}: {wrong}") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{place}: the image has more than {MOST_PIXELS:,} pixels; scale it down") from None
    except (OSError, ValueError, TypeError, SyntaxError, EOFError) as error:
        raise ValueError(f"{place}: cannot be read as an image: {error}") from None


def is_deep(stored: bytes) -> bool:
    """Whether a file is a PNG with 16 bits per channel."""
    return stored.startswith(PNG) and stored[len(PNG) + 16 : len(PNG) + 17] == b"\x10"


def square(image: Image.Image, size: int) -> Picture:
    """The middle square of an image, upright and resized."""
    fitted = ImageOps.fit(to_rgb(upright(image), image.format == "PPM"), (size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def upright(image: Image.Image) -> Image.Image:
    """Rotate an image as its camera was held; `exif_transpose` would also rewrite EXIF, which fails on a bad tag."""
    image.load()  # Pillow rotates a TIFF while loading it
    turn = TURNS.get(image.getexif().get(ORIENTATION))
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image, is_ppm: bool) -> Image.Image:
    """Convert gray, palette, CMYK and 16-bit images to RGB; transparent pixels become white.

    Raises:
        ValueError: the image has 32-bit pixels.
    """
    # Pillow opens a gray PPM of more than 8 bits in the 32-bit mode "I", with values scaled to 16 bits
    if image.mode.startswith("I;16") or (image.mode == "I" and is_ppm):
        image = gray_bytes(image)
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels have no known range; save it with 8 or 16 bits")
    if image.has_transparency_data:
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, WHITE), shown)
    return image.convert("RGB")


def gray_bytes(image: Image.Image) -> Image.Image:
    """A gray image of 16 bits (a TIFF also of 12) in 8 bits, with an alpha channel if it has a transparent value."""
    pixels, transparent = np.asarray(image), image.info.get("transparency")
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    gray_values = (pixels >> (tags.get(BITSPERSAMPLE, (16,))[0] - 8)).astype(np.uint8)
    if tags.get(PHOTOMETRIC_INTERPRETATION) == WHITE_IS_ZERO:  # which Pillow heeds up to 8 bits only
        gray_values = 255 - gray_values
    gray = Image.fromarray(gray_values)
    if transparent is not None:
        gray.putalpha(Image.fromarray(pixels != transparent).convert("L"))
    return gray
