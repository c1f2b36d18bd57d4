"""How pictures are brought to the size that a model in the shell reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from transformers import BaseImageProcessor, BatchFeature

from zoo.data.columns.pictures import square

STACKED = 4  # axes of an array that holds several pictures


class ZooImageProcessor(BaseImageProcessor):  # type: ignore[misc]
    """Pictures as the models read them: the middle square, as bytes of red, green and blue, channels first.

    Args:
        image_size: side of the square (pixels).
    """

    model_input_names = ["pixel_values"]

    def __init__(self, image_size: int = 64, **rest: Any) -> None:
        super().__init__(**rest)
        self.image_size = image_size

    # Theirs checks options for resizing with torchvision. `square` is what training reads pictures with, to the bit.
    def __call__(self, images: Any, *_: Any, return_tensors: str | None = None, **__: Any) -> BatchFeature:
        """One picture or several: Pillow's, or arrays of bytes (height, width, channels), which may be stacked."""
        several = images if isinstance(images, Sequence) or np.ndim(images) == STACKED else [images]
        pixels = [square(opened(picture), self.image_size) for picture in several]
        return BatchFeature({"pixel_values": np.stack(pixels)}, tensor_type=return_tensors)

    preprocess = __call__


def opened(picture: Any) -> Image.Image:
    """A picture of Pillow's.

    Raises:
        ValueError: it is neither a picture of Pillow's nor an array that Pillow can read.
    """
    if isinstance(picture, Image.Image):
        return picture
    array = np.asarray(picture)
    try:
        return Image.fromarray(array)
    except TypeError:
        known = "a Pillow image or uint8 (height, width, 3)"
        raise ValueError(f"images: expected {known}, got {array.dtype} {array.shape}") from None
