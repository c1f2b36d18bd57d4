"""Pictures: found, decoded and brought to a square of the size that the model reads; varied in training."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from zoo.data.ids import PICTURE, Picture

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # none of them starts another program
MOST_PIXELS = 178_956_970  # Pillow itself refuses more
PNG = b"\x89PNG\r\n\x1a\n"  # then the length and name of a block, the width and the height, and the bits
WHITE = (255, 255, 255, 255)
ORIENTATION = 0x0112  # EXIF's tag of how a camera was held
TURNS: dict[Any, Image.Transpose] = {  # by orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Pillow warns from half as many on; `catch_warnings` around each picture would let every other warning repeat itself
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning, append=True)


@dataclass(frozen=True)
class Augment:
    """How training images are varied.

    Args:
        flip: mirror half of them, drawn at random.
        shift: move each by up to this fraction of its side, and fill the gap with its mirror image; a plain colour
            would show the model where the rim is, in training alone.
    """

    flip: bool = False
    shift: float = 0.0

    def verify(self, place: str) -> None:
        """Raise a ValueError where the settings cannot be."""
        if not 0 <= self.shift < 1:
            raise ValueError(f"{place}.shift: {self.shift} must be at least 0 and below 1")

    def apply(self, picture: Picture, generator: np.random.Generator) -> Picture:
        """A picture, mirrored and moved as the generator says."""
        if self.flip and generator.random() < 0.5:
            picture = picture[:, :, ::-1]
        margin = round(self.shift * picture.shape[1])
        if margin:
            down, right = generator.integers(0, 2 * margin + 1, size=2)
            wide = np.pad(picture, ((0, 0), (margin, margin), (margin, margin)), mode="reflect")
            picture = wide[:, down : down + picture.shape[1], right : right + picture.shape[2]]
        return np.ascontiguousarray(picture)


class PictureColumn(Protocol):
    """A table's column of pictures: bytes, the path of a file, or a map of both."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Mapping[str, Any]: ...


class Pictures:
    """The pictures of a source, by number, read when they are asked for; `picture_table` opens them.

    Args:
        folder: where files with relative paths lie; None: only bytes are read.
        place: where the table stands, for messages.
    """

    def __init__(self, column: PictureColumn, folder: Path | None, place: str) -> None:
        self.column, self.folder, self.place = column, folder, place

    def __len__(self) -> int:
        return len(self.column)

    def stored(self, number: int) -> tuple[bytes, str]:
        """A picture's bytes as they are stored, and where that is: the row, and the file that it names.

        Raises:
            ValueError: there is no such file, or nothing at all.
        """
        return stored_at(self.column[number][PICTURE], self.folder, f"{self.place}: row {number + 1}")

    def read(self, number: int, size: int) -> Picture:
        """A picture as the model reads it."""
        return decode(*self.stored(number), size)


def stored_at(value: str | bytes | Mapping[str, Any] | None, folder: Path | None, place: str) -> tuple[bytes, str]:
    """As `stored_bytes`, and the place with the name of the file, where a row names one."""
    stored, found = stored_bytes(value, folder, place), in_row(value)
    return stored, place if found.get("bytes") or folder is None else f"{place}: {folder / found['path']}"


def stored_bytes(value: str | bytes | Mapping[str, Any] | None, folder: Path | None, place: str) -> bytes:
    """The bytes of a picture that a row holds, or names by the path of a file.

    Raises:
        ValueError: there is no such file, or nothing at all, or what is there is neither.
    """
    found = in_row(value)
    if not isinstance(found, Mapping) or not is_stored(found.get("bytes"), found.get("path")):
        raise ValueError(f"{place}: expected the path of an image, its bytes, or a map of both, got {value!r:.80}")
    if found.get("bytes"):
        return bytes(found["bytes"])
    if not found.get("path"):
        raise ValueError(f"{place}: there is no image")
    if folder is None:
        raise ValueError(f"{place}: names the file '{found['path']}', but zoo reads only images inside the data")
    return read_file(folder / found["path"], place)


def is_stored(stored: Any, path: Any) -> bool:
    """Whether these can be the bytes of a picture, which JSON lists as numbers, and the path of its file."""
    return isinstance(stored or b"", bytes | list) and isinstance(path or "", str)


def in_row(value: str | bytes | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a row holds of a picture, as a map of its bytes or of the path of a file."""
    if isinstance(value, str | bytes):
        return {"path" if isinstance(value, str) else "bytes": value}
    return value or {}


def read_file(path: Path, place: str) -> bytes:
    """The bytes of a file.

    Raises:
        ValueError: there is none, or it cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"{place}: {path}: {'not a file' if path.exists() else 'no such file'}; expected an image")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{place}: {path}: cannot be read: {error.strerror}") from None


def decode(stored: bytes, place: str, size: int) -> Picture:
    """A picture's middle square at a size, as bytes (channels, size, size) of red, green and blue.

    Raises:
        ValueError: the bytes are no picture, a damaged one, or one of more than `MOST_PIXELS`.
    """
    try:
        with Image.open(io.BytesIO(stored), formats=FORMATS) as image:
            colour = image.info.get("transparency")
            if isinstance(colour, tuple) and is_deep(stored):  # Pillow cuts the pixels to their high bytes, not this
                image.info["transparency"] = tuple(channel >> 8 for channel in colour)
            return square(image, size)
    except UnidentifiedImageError:
        raise ValueError(f"{place}: not an image; allowed: {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{place}: the image has more than {MOST_PIXELS:,} pixels; scale it down") from None
    except (OSError, ValueError, TypeError, SyntaxError, EOFError) as error:
        raise ValueError(f"{place}: cannot be read as an image: {error}") from None


def is_deep(stored: bytes) -> bool:
    """Whether a file is a PNG of 16 bits a channel."""
    return stored.startswith(PNG) and stored[len(PNG) + 16 : len(PNG) + 17] == b"\x10"


def square(image: Image.Image, size: int) -> Picture:
    """The middle square of an upright picture at a size."""
    fitted = ImageOps.fit(to_rgb(upright(image), image.format == "PPM"), (size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def upright(image: Image.Image) -> Image.Image:
    """A picture as its camera was held; `exif_transpose` would also write EXIF anew, which fails where a tag is bad."""
    image.load()  # which turns a TIFF itself
    turn = TURNS.get(image.getexif().get(ORIENTATION))
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image, is_ppm: bool) -> Image.Image:
    """Grey, palette, CMYK and deep pictures in red, green and blue; what is transparent lies on white."""
    # Pillow opens a grey PPM of more than 8 bits with pixels of 32, and scales them to 16
    if image.mode.startswith("I;16") or (image.mode == "I" and is_ppm):
        image = grey_bytes(image)
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels have no known range; save it with 8 or 16 bits")
    if image.has_transparency_data:
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, WHITE), shown)
    return image.convert("RGB")


def grey_bytes(image: Image.Image) -> Image.Image:
    """A grey picture of 16 bits in 8, with an alpha channel where it has a transparent value."""
    pixels, transparent = np.asarray(image), image.info.get("transparency")
    grey = Image.fromarray((pixels >> 8).astype(np.uint8))
    if transparent is not None:
        grey.putalpha(Image.fromarray(pixels != transparent).convert("L"))
    return grey
