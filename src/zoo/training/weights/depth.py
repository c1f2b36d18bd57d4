"""Layer-wise learning rates: the further a layer is below the heads, the smaller its share of the schedule's rate."""

from collections.abc import Iterator

import torch
from torch import nn

from zoo.blocks.position import Position
from zoo.models.embeddings import Embeddings
from zoo.models.kinds.part import Part


def parts(model: nn.Module) -> Iterator[Part]:
    """Yield the encoders and decoders of a model."""
    return (module for module in model.modules() if isinstance(module, Part))


def embeddings(part: Part) -> Iterator[nn.Module]:
    """Yield the modules below all layers of a part: token and segment embeddings with their norm, and positions."""
    return (module for module in part.modules() if isinstance(module, Embeddings | Position))


def depths(model: nn.Module) -> dict[int, int]:
    """Return the depth of each parameter below the heads, by its id: 1 in the last layer, most in the embeddings.

    Each part counts from its own end, since each layer of a decoder reads the encoder's memory directly. Parameters
    that are missing here have depth 0, as in BEiT: heads, the pooler, a final norm. A parameter that two parts share
    has the larger of its two depths.

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


def set_rate_shares(optimizer: torch.optim.Optimizer, model: nn.Module, decay: float | None) -> None:
    """Give each parameter group its `share` of the learning rate, decay ** depth; groups are split by depth.

    Args:
        decay: the factor from one layer to the next one below it; None: every parameter has the full rate.
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
