"""LoRA: the linear layers of a trained model are frozen, and chosen ones learn a low-rank update beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.registry import refuse_below
from zoo.strict_yaml import Tree
from zoo.wording import refuse_unknown

KEY = "training.lora"
FILE, CONFIG = "adapter_model", "adapter_config"  # peft's names of the files
PREFIX = "base_model.model."  # before each name in peft's files
DOWN, UP = "lora_A", "lora_B"
TRAINED_IN_FULL = ("heads", "pooler")  # new for each task, so they are trained in full


@dataclass(frozen=True)
class LowRank:
    """The low-rank update of a linear layer W: W + (alpha / rank) B A, where A has `rank` rows and B starts at zero.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1.

    Args:
        rank: of the update.
        alpha: the update is multiplied by alpha / rank.
        dropout: of the input of A, in training.
        targets: the linear layers to adapt, by the last component of their names, such as query and value.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        refuse_below(1, rank=self.rank)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"{KEY}.dropout: must be at least 0 and below 1, got {self.dropout}")
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"{KEY}.alpha: must be a finite number above 0, got {self.alpha}")
        if not self.targets:
            raise ValueError(f"{KEY}.targets: name at least one linear layer, such as query")

    @property
    def scale(self) -> float:
        """The factor of B A."""
        return self.alpha / self.rank

    def config(self, model: nn.Module) -> Tree:
        """Return peft's adapter_config.json for the adapters of a model."""
        return {
            "peft_type": "LORA",
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": self.dropout,
            "target_modules": [name for name, _ in adapted_layers(model)],
            "bias": "none",
            "inference_mode": True,
        }


def add_adapters(model: nn.Module, settings: LowRank, seed: int) -> None:
    """Add adapters to the chosen linear layers of a model; freeze everything else but the heads and the pooler.

    Raises:
        ValueError: a target is not a linear layer of the model.
    """
    maps = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    inside = {name: module for name, module in maps.items() if name.split(".")[0] not in TRAINED_IN_FULL}
    for target in settings.targets:
        refuse_unknown(target, sorted({last_component(name) for name in inside}), "linear layer", f"{KEY}.targets")
    for name, parameter in model.named_parameters():
        if name.split(".")[0] not in TRAINED_IN_FULL:
            parameter.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, module in inside.items():
        if last_component(name) in settings.targets:
            add_adapter(module, settings, generator)


def add_adapter(module: nn.Linear, settings: LowRank, generator: torch.Generator) -> None:
    """Add A and B to a linear layer as submodules, and their output to the layer's output."""
    like: dict[str, Any] = {"device": module.weight.device, "dtype": module.weight.dtype}
    down = nn.Linear(module.in_features, settings.rank, bias=False, **like)
    up = nn.Linear(settings.rank, module.out_features, bias=False, **like)
    with torch.no_grad():
        if not down.weight.is_meta:
            bound = 1 / math.sqrt(module.in_features)  # as torch initializes nn.Linear, and peft A
            down.weight.copy_(torch.empty(down.weight.shape).uniform_(-bound, bound, generator=generator))
        up.weight.zero_()
    module.add_module(DOWN, down)
    module.add_module(UP, up)

    # a hook keeps the layer's class and parameter names, and code that reads its weight finds the checkpoint's
    def add(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        (x,) = inputs
        change: Tensor = up(down(F.dropout(x, settings.dropout, module.training)))
        return output + settings.scale * change

    module.register_forward_hook(add)


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Yield the linear layers that have an adapter, with their names."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and hasattr(module, UP):
            yield name, module


def last_component(name: str) -> str:
    return name.rpartition(".")[2]


def is_adapter_name(name: str) -> bool:
    """Whether a name is that of an adapter's parameter."""
    return bool({DOWN, UP} & set(name.split(".")))


@torch.no_grad()
def merged_weights(model: nn.Module, settings: LowRank) -> dict[str, Tensor]:
    """Return the published weights of an adapted model: W + (alpha / rank) B A for each W, and zeros for each B."""
    found = {}
    for name, module in adapted_layers(model):
        down, up = module.get_submodule(DOWN).weight, module.get_submodule(UP).weight
        assert isinstance(down, Tensor) and isinstance(up, Tensor)
        # in float64 on the CPU, rounded once, so that it is the same wherever the model is
        change = settings.scale * (up.cpu().double() @ down.cpu().double())
        found[f"{name}.weight"] = (module.weight.cpu().double() + change).to(module.weight)
        found[f"{name}.{UP}.weight"] = torch.zeros_like(up)
    return found


def peft_name(name: str) -> str:
    """Return peft's name of an adapter's parameter."""
    return f"{PREFIX}{name}"


def load_adapters(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load the adapters of a model from the tensors of peft's file."""
    own = {peft_name(name): p for name, p in model.named_parameters() if is_adapter_name(name)}
    assert set(own) == set(tensors), "a checkpoint has the adapters that its settings name"
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])
