"""What a model costs before anything runs: parameters, arithmetic and memory."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from zoo.blocks.recurrence import Cell
from zoo.models.blank import blank
from zoo.models.heads.head import Head
from zoo.models.model import Model
from zoo.models.settings import ModelSettings

BACKWARD = 2  # a backward pass multiplies twice as many matrices as a forward pass
ADAM_MOMENTS = 2  # tensors of a weight's size that the optimizer keeps

# keys of a model's map that `Bounds` checks: axes of tensors, and counts of modules that each have a tensor
SIZES = ("vocab_size", "d_model", "d_ff", "width", "n_heads", "n_kv_heads", "d_key", "d_value", "segments", "labels")
COUNTS = ("n_layers", "n_blocks")
FITTED = 3  # lengths through which `extrapolate` draws its polynomial
MAX_LENGTH = 2**20  # tokens of one document; no known model reads longer ones


class Bounds:
    """The largest sizes that a model's settings can have, given the tensors that claim to be its weights.

    Args:
        elements: the number of elements of each tensor.
    """

    def __init__(self, elements: Iterable[int]) -> None:
        counts = list(elements)
        self.most = dict.fromkeys(SIZES, max(counts, default=0)) | dict.fromkeys(COUNTS, len(counts))
        self.most["max_length"] = MAX_LENGTH

    def check(self, tree: Any, place: str) -> None:
        """Refuse a model's map with sizes that the tensors cannot have, before a model is built from it.

        Raises:
            ValueError: there is such a size; the message names it.
        """
        for key, value in tree.items() if isinstance(tree, Mapping) else ():
            for one in value if isinstance(value, list) else [value]:
                if type(one) is int and one > self.most.get(key, one):
                    raise ValueError(f"{place}: {key} is {one}, but the tensors allow at most {self.most[key]}")
                self.check(one, place)


def on_meta(settings: ModelSettings) -> Model:
    """Build the model on the meta device, without memory for its parameters.

    Raises:
        ValueError: settings that do not combine.
    """
    return blank(settings, "meta")


def parameters(model: Model) -> int:
    """Return the number of parameters; shared ones count once."""
    return sum(p.numel() for p in model.parameters())


def parameters_of_generator(model: Model) -> int:
    """Return the number of parameters that only the generator and its head have: only pretraining needs them."""
    if model.generator is None:
        return 0
    guessing = [head for head in model.heads.values() if isinstance(head, Head) and head.guesses]
    shared = {id(p) for p in model.stream.parameters()}  # with the encoder, which needs them after pretraining
    return sum(p.numel() for part in (model.generator, *guessing) for p in part.parameters() if id(p) not in shared)


def flops_per_token(model: Model, length: int | None = None, scored: Mapping[str, int] | None = None) -> float:
    """Return the floating-point operations of a training step (forward and backward) per token, source tokens included.

    Torch counts every matrix product, on one row that is one document. In an encoder-decoder the source is as long, but
    no longer than the encoder can read; an image counts as one token.

    Args:
        model: on the meta device.
        length: tokens in the document, and in its source; None: the model's `max_length`.
        scored: by head, how many positions of the row it scores; other heads score every position.
    """
    length = length or model.stream.max_length
    counts = {name: 1 for name, head in model.heads.items() if head.scores_documents} | dict(scored or {})
    source_tokens = count_tokens(blank_source(model, length))
    count = partial(forward_flops, model, counts)
    first = sum(counts.values()) + 1  # below, a last layer does not skip the positions that no head reads
    if length < first + FITTED or not any(isinstance(module, Cell) for module in model.modules()):
        total = count(length, source_tokens)
    else:
        total = extrapolate(count, first, length, source_tokens)
    return total * (1 + BACKWARD) / (length + source_tokens)


def blank_source(model: Model, length: int) -> Tensor | None:
    """The source of a document of an encoder-decoder: as many tokens if the encoder can read them, or an image."""
    if model.encoder is None or model.decoder is None:
        return None
    return model.encoder.blank(min(length, model.encoder.max_length), "meta")


def count_tokens(source: Tensor | None) -> int:
    """The tokens of a source; an image is one."""
    return 0 if source is None else source.shape[1] if source.dim() == 2 else len(source)


def extrapolate(count: Callable[[int, int], int], first: int, length: int, source: int) -> int:
    """Return `count(length, source)` of a polynomial of second degree, from its values at small sizes.

    On the meta device torch computes recurrent layers one step after the other, which takes milliseconds each; matrix
    products are proportional to the length, or in attention to its square or to length times source.

    Args:
        first: the smallest length; `FITTED` lengths from it on are counted, and as many of the source if it has tokens.
    """
    x, start = length - first, count(first, 1)
    right = count(first + 1, 1) - start
    bend = count(first + 2, 1) - start - 2 * right
    total = start + right * x + bend * math.comb(x, 2)
    if source <= 1:  # none, or an image
        return total
    y, down = source - 1, count(first, 2) - start
    bend_down = count(first, 3) - start - 2 * down
    both = count(first + 1, 2) - start - right - down
    return total + down * y + bend_down * math.comb(y, 2) + both * x * y


def forward_flops(model: Model, scored: Mapping[str, int], length: int, source_length: int) -> int:
    """Return the floating-point operations of a forward pass over one document, as torch counts them.

    Args:
        scored: by head, how many positions it scores; other heads score every position.
        source_length: tokens of its source, if the model has an encoder and a decoder.
    """
    tokens, source = model.stream.blank(length, "meta"), blank_source(model, source_length)
    places = {name: torch.zeros(count, dtype=torch.long, device="meta") for name, count in scored.items()}
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        list(model(tokens, source, places=places).heads)  # logits are computed when they are asked for
    return counter.get_total_flops()


def memory(model: Model) -> dict[str, int]:
    """Return the bytes of a float32 training state with Adam's two moments, without activations (batch-dependent)."""
    one = 4 * parameters(model)
    return {"weights": one, "gradients": one, "optimizer": ADAM_MOMENTS * one, "total": (2 + ADAM_MOMENTS) * one}
