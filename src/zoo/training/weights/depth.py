"""Learning rates by layer: the deeper a layer lies below the heads, the less of the schedule's rate it gets."""

from collections.abc import Iterator

import torch
from torch import nn

from zoo.blocks.position import Position
from zoo.models.embeddings import Embeddings
from zoo.models.kinds.part import Part


def parts(model: nn.Module) -> Iterator[Part]:
    """The encoders and decoders of a model."""
    return (module for module in model.modules() if isinstance(module, Part))


def embeddings(part: Part) -> Iterator[nn.Module]:
    """What lies below all layers of a part: the vectors of tokens and segments, their norm, and the positions."""
    return (module for module in part.modules() if isinstance(module, Embeddings | Position))


def depths(model: nn.Module) -> dict[int, int]:
    """By id of a parameter, how many layers deep it lies: 0 the heads, 1 the last layer, most the embeddings.

    Every part counts from its own end, since each layer of a decoder reads the encoder's memory directly. What belongs
    to no layer and does not lie below them (the pooler, a norm at the end) is at 0, as in BEiT. Parameters that two
    parts share lie as deep as in the deeper one.

    Source: Clark et al. 2020 (ELECTRA), arXiv:2003.10555, appendix B; Bao et al. 2022 (BEiT), arXiv:2106.08254.
    """
    found: dict[int, int] = {}
    for part in parts(model):
        layers = part.layers_upward()
        placed = [(module, len(layers) + 1) for module in embeddings(part)]
        placed += [(layer, len(layers) - number) for number, layer in enumerate(layers)]
        for module, depth in placed:
            for parameter in module.parameters():
                found[id(parameter)] = max(depth, found.get(id(parameter), 0))
    return found


def share_rates(optimizer: torch.optim.Optimizer, model: nn.Module, decay: float | None) -> None:
    """Give every group of an optimizer its `share` of the rate, decay ** depth, and split groups where depths differ.

    Args:
        decay: from one layer to the next one below it; None: every parameter has the whole rate.
    """
    found = {} if decay is None else depths(model)
    groups = []
    for group in optimizer.param_groups:
        by_depth: dict[int, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            by_depth.setdefault(found.get(id(parameter), 0), []).append(parameter)
        for depth, chosen in sorted(by_depth.items()):
            groups.append({**group, "params": chosen, "share": 1.0 if decay is None else decay**depth})
    optimizer.param_groups = groups
