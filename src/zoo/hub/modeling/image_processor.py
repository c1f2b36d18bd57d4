"""Bring images to the size that a zoo model reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from transformers import BaseImageProcessor, BatchFeature

from zoo.data.columns.pictures import square

STACKED = 4  # axes of an array that stacks several images


class ZooImageProcessor(BaseImageProcessor):  # type: ignore[misc]
    """Prepare images as the models read them: the central square, as uint8 RGB, channels first.

    Args:
        image_size: side of the square (pixels).
    """

    model_input_names = ["pixel_values"]

    def __init__(self, image_size: int = 64, **rest: Any) -> None:
        super().__init__(**rest)
        self.image_size = image_size

    # Not the base class's, which needs torchvision for its options. `square` is the function that training uses.
    def __call__(self, images: Any, *_: Any, return_tensors: str | None = None, **__: Any) -> BatchFeature:
        """Prepare one image or several: Pillow images, or uint8 arrays (height, width, channels), stacked or not."""
        several = images if isinstance(images, Sequence) or np.ndim(images) == STACKED else [images]
        pixels = [square(to_pillow(picture), self.image_size) for picture in several]
        return BatchFeature({"pixel_values": np.stack(pixels)}, tensor_type=return_tensors)

    preprocess = __call__


def to_pillow(image: Any) -> Image.Image:
    """Convert an image to a Pillow image.

    Raises:
        ValueError: it is neither a Pillow image nor an array that Pillow can read.
    """
    if isinstance(image, Image.Image):
        return image
    array = np.asarray(image)
    try:
        return Image.fromarray(array)
    except TypeError:
        known = "a Pillow image or uint8 (height, width, 3)"
        raise ValueError(f"images: expected {known}, got {array.dtype} {array.shape}") from None
