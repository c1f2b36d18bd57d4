"""What a model costs before anything runs: parameters, arithmetic and memory."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from zoo.models.blank import blank
from zoo.models.heads.head import Head
from zoo.models.model import Model
from zoo.models.settings import ModelSettings

BACKWARD = 2  # a backward pass multiplies twice as many matrices as a forward pass
ADAM_MOMENTS = 2  # tensors of a weight's size that the optimizer keeps

# keys of a model's map that `Bounds` checks: axes of tensors, and counts of modules that each have a tensor
SIZES = ("vocab_size", "d_model", "d_ff", "width", "n_heads", "n_kv_heads", "d_key", "d_value", "segments", "labels")
COUNTS = ("n_layers", "n_blocks")
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
    tokens = model.stream.blank(length, "meta")
    source = None
    if model.encoder is not None and model.decoder is not None:
        source = model.encoder.blank(min(length, model.encoder.max_length), "meta")
    counts = {name: 1 for name, head in model.heads.items() if head.scores_documents} | dict(scored or {})
    places = {name: torch.zeros(count, dtype=torch.long, device="meta") for name, count in counts.items()}
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        list(model(tokens, source, places=places).heads)  # logits are computed when they are asked for
    source_tokens = 0
    if source is not None:
        source_tokens = source.shape[1] if source.dim() == 2 else len(source)  # images: one each
    return counter.get_total_flops() * (1 + BACKWARD) / (length + source_tokens)


def memory(model: Model) -> dict[str, int]:
    """Return the bytes of a float32 training state with Adam's two moments, without activations (batch-dependent)."""
    one = 4 * parameters(model)
    return {"weights": one, "gradients": one, "optimizer": ADAM_MOMENTS * one, "total": (2 + ADAM_MOMENTS) * one}
