"""Every kind of encoder and decoder: each in a file of its own, registered by being imported here."""

from typing import Any

from zoo.models import grid, recurrent, recurrent_decoder, transformer
from zoo.models.parts import decoders, encoders
from zoo.registry import Slot

KINDS = (transformer, recurrent, recurrent_decoder, grid)
PARTS: dict[str, Slot[Any]] = {"encoder": encoders, "decoder": decoders}
