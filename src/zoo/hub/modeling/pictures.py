"""Classes of the shell for models that read pictures, and what brings pictures to the size that they read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from transformers import BaseImageProcessor, BatchFeature
from transformers.modeling_outputs import ImageClassifierOutput

from zoo.data.sources.pictures import square
from zoo.hub.modeling.bridge import TargetWriter, answer
from zoo.hub.modeling.cache import StateCache
from zoo.hub.modeling.model import Shell, loss_of
from zoo.models.kinds.part import PartInput

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

    def __call__(self, images: Any, *_: Any, **options: Any) -> BatchFeature:
        return self.preprocess(images, **options)

    def preprocess(self, images: Any, *_: Any, return_tensors: str | None = None, **__: Any) -> BatchFeature:
        """One picture or several: Pillow's, or arrays of bytes (height, width, channels), which may be stacked."""
        several = images if isinstance(images, Sequence) or np.ndim(images) == STACKED else [images]
        pixels = [square(opened(picture), self.image_size) for picture in several]
        return BatchFeature({"pixel_values": np.stack(pixels)}, tensor_type=return_tensors)


def opened(picture: Any) -> Image.Image:
    """A picture of Pillow's.

    Raises:
        ValueError: it is none, and no array that is one.
    """
    if isinstance(picture, Image.Image):
        return picture
    array = np.asarray(picture)
    try:
        return Image.fromarray(array)
    except TypeError:
        known = "a picture of Pillow's or bytes (height, width, 3)"
        raise ValueError(f"images: expected {known}, got {array.dtype} {array.shape}") from None


class ZooForImageClassification(Shell):
    """Scores of the classes of each picture."""

    carries, sides = ("classification",), (("encoder",),)

    @answer
    def forward(
        self, pixel_values: Tensor, labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None
    ) -> Any:
        given = PartInput(pixel_values)
        logits = self.score("classification", self.encode(given), given)
        return ImageClassifierOutput(loss=loss_of((logits, labels), count=num_items_in_batch), logits=logits)


class ZooForImageTextToText(TargetWriter):
    """Scores of the next token of a text about a picture; labels are texts without their start token."""

    @answer
    def forward(
        self,
        pixel_values: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: StateCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        source, target = {"pixel_values": pixel_values}, (decoder_input_ids, decoder_attention_mask)
        return self.write(source, target, encoder_outputs, past_key_values, labels, use_cache, num_items_in_batch)
