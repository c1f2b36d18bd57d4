"""One small encoder-decoder for every registered variant and every option, and rows of packed documents to feed it."""

import copy
import json
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin

import torch
from torch import Tensor, nn

from zoo import create_model
from zoo.blocks.attention import attentions
from zoo.blocks.block import blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import positions
from zoo.models.model import Model
from zoo.registry import REQUIRED, Slot

SLOTS: dict[str, Slot[Any]] = {
    "norm": norms,
    "position": positions,
    "mixer": mixers,
    "attention": attentions,
    "feed_forward": feed_forwards,
    "block": blocks,
}
NEEDED = {"n_kv_heads": 2}  # what options without a default are given
OTHER: dict[str, list[Any]] = {  # values that neither the type nor the default tells
    "base": [50.0],  # at which the slowest pair turns within 12 positions
    "buckets": [8],
    "max_distance": [40],
    "n_kv_heads": [1, 4],  # divisors of the 4 heads
    "window": [1, 3, [None, 2]],
    "d_key": [6],
    "d_value": [5],
    "qk_norm": [True, *norms.names()],
    "sinks": [True, 3],
    "d_state": [7],
    "kernel": [1, 4],
    # not `dynamic`, which scales by the longest text of a batch, as in transformers
    "scaling": [{"name": "linear", "factor": 2.0}, {"name": "yarn", "factor": 2.0, "trained_length": 4}],
}
SIZES = {"vocab_size": 30, "d_model": 16, "max_length": 12, "encoder.n_layers": 1, "decoder.n_layers": 1}

TOKENS = torch.randint(0, 30, (2, 10), generator=torch.Generator().manual_seed(0))
SOURCE = torch.randint(0, 30, (2, 8), generator=torch.Generator().manual_seed(1))
DOCUMENTS = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 3, 3, 0], [0, 1, 1, 1, 1, 2, 2, 2, 2, 2]])
SOURCE_DOCUMENTS = torch.tensor([[1, 1, 2, 2, 2, 3, 0, 0], [1, 1, 1, 2, 2, 2, 2, 2]])


def others(option: Parameter) -> list[Any]:
    """Values of an option besides its default: those above, else what its type and default tell; it may be nothing."""
    if option.name in OTHER:
        return OTHER[option.name]
    if get_origin(option.annotation) is Annotated and isinstance(get_args(option.annotation)[1], Slot):
        return [*get_args(option.annotation)[1].names()]
    if option.annotation is bool:
        return [not option.default]
    if option.annotation is int and type(option.default) is int:
        return [option.default + 1]
    if option.annotation is float and type(option.default) is float:
        return [option.default / 2 or 0.3]
    return []


def variants() -> list[tuple[str, dict[str, Any]]]:
    """Every registered name, and every option of it at every other value: (slot, choice)."""
    found = []
    for slot_name, slot in SLOTS.items():
        for name in slot.names():
            options = slot.options(name)
            needed = {key: NEEDED[key] for key, option in options.items() if option.default is REQUIRED}
            found.append((slot_name, {"name": name, **needed}))
            for key, option in options.items():
                values = [value for value in others(option) if value not in (option.default, needed.get(key))]
                found += [(slot_name, {"name": name, **needed, key: value}) for value in values]
    return found


ATTENDING = {"kind": "recurrent", "attention": {"name": "direct", "score": "additive"}}
PARTS: list[tuple[str, dict[str, Any]]] = [  # parts of other kinds than the transformer's, with each other and with it
    ("parts", {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}}),
    (
        "parts",
        {"encoder": {"kind": "recurrent", "n_layers": 2, "cell": "lstm"}, "decoder": {**ATTENDING, "n_layers": 2}},
    ),
    ("parts", {"encoder": {"kind": "recurrent", "bidirectional": False, "cell": "vanilla"}, "decoder": ATTENDING}),
    ("parts", {"encoder": {"kind": "recurrent"}}),
    ("parts", {"decoder": {"kind": "recurrent", "cell": "lstm", "n_layers": 2}}),
    ("parts", {"decoder": {"kind": "recurrent", "n_heads": 2, "attention": {"name": "full", "sinks": 1}}}),
]
VARIANTS = variants() + PARTS
NAMES = [(slot, choice) for slot, choice in VARIANTS if set(choice) <= {"name", *NEEDED} or slot == "parts"]


def label(value: Any) -> str | None:
    """A choice as a test's name shows it."""
    return (
        ", ".join(f"{v}" if k == "name" else f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else None
    )


def build(slot: str, choice: dict[str, Any], dtype: torch.dtype = torch.float32) -> Model:
    """An encoder-decoder with the choice on both sides, or with these parts; its parameters are all different."""
    return copy.deepcopy(first_built(slot, json.dumps(choice))).to(dtype).eval()


@cache  # a copy costs a sixth of a model built from its files
def first_built(slot: str, written: str) -> Model:
    choice = json.loads(written)
    changes = choice if slot == "parts" else {f"encoder.{slot}": choice, f"decoder.{slot}": choice}
    if any(isinstance(value, list) for value in choice.values()):  # which the layers take in turn
        changes["decoder.n_layers"] = 2
    model = create_model("transformer-nano", **{**SIZES, **changes})
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def say(model: Model, tokens: Tensor = TOKENS, source: Tensor = SOURCE, weights: bool = False) -> Tensor:
    """Logits of the packed rows."""
    return model(tokens, source, DOCUMENTS, SOURCE_DOCUMENTS, weights=weights).logits


def with_document(tokens: Tensor, documents: Tensor, number: int) -> Tensor:
    """The tokens with other content in one document of every row (0: in the padding)."""
    return torch.where(documents == number, (tokens + 11) % 30, tokens)


class TokenVectors:
    """Keeps what a model's token embeddings put out, with gradients: of the source first, then of the tokens."""

    def __init__(self, model: Model) -> None:
        self.kept: list[Tensor] = []
        assert model.encoder is not None and model.encoder.embeddings is not None
        model.encoder.embeddings.tokens.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        out.retain_grad()
        self.kept.append(out)

    def gradients(self) -> list[Tensor]:
        gradients = [vectors.grad for vectors in self.kept]
        self.kept = []
        assert all(g is not None for g in gradients)
        return [g for g in gradients if g is not None]
