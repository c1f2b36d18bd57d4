"""Slot `optimizer`: how gradients change weights. Supplied: the model, and a learning rate that each step sets anew."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch._dynamo  # torch's first optimizer imports it: up to 1 s that would come between the imports and the step
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Position
from zoo.registry import Slot
from zoo.training.devices.shards import local

optimizers: Slot[torch.optim.Optimizer] = Slot("optimizer")
FUSED = ("cpu", "cuda", "mps", "xpu")


class NeedsWholeMatrices(torch.optim.Optimizer):
    """An optimizer that computes with whole matrices, of which a process has a shard only with strategy fsdp."""


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained, in the model's order; tied ones once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def added_to_scores(model: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters that are added to attention's scores, so that they are logits rather than a map."""
    for module in model.modules():
        if isinstance(module, Attention) and module.sinks is not None:
            yield module.sinks
        elif isinstance(module, Position) and module.biases:
            yield from module.parameters()


def decay_groups(model: nn.Module, parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameters of a model in the groups of an optimizer: those that decay, and those that do not.

    Matrices decay, embeddings among them; vectors (biases and the scales of norms) do not, as in BERT and GPT-2. Nor do
    attention's sinks and tables of relative positions, whatever their shape: they are logits, of which only differences
    count, not maps (transformers' Trainer leaves T5's `relative_attention_bias` out, too).

    Raises:
        ValueError: the decay is negative.
    """
    if weight_decay < 0:
        raise ValueError(f"training.weight_decay: must be at least 0, got {weight_decay}")
    # by id: `in` on a list of tensors would compare their values
    parameters, logits = list(parameters), {id(parameter) for parameter in added_to_scores(model)}
    decayed = {id(p) for p in parameters if p.dim() >= 2 and id(p) not in logits}
    groups = [
        {"params": [p for p in parameters if id(p) in decayed], "weight_decay": weight_decay},
        {"params": [p for p in parameters if id(p) not in decayed], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def fusible(parameters: Iterable[nn.Parameter]) -> bool:
    """Whether torch has one kernel for the whole update of these parameters."""
    return all(p.is_floating_point() and p.device.type in FUSED for p in parameters)


def kernels(optimizer: torch.optim.Optimizer) -> str:
    """Whether torch's fused kernels update the weights, as the optimizer itself has it."""
    fused = [bool(group.get("fused")) for group in optimizer.param_groups]
    if all(fused):
        return "fused"
    return "matrices of layers one by one, all else fused" if any(fused) else "weights one by one"


class Skippable(torch.optim.Optimizer):
    """An optimizer that computes what a weight and its state become, so that the device can refuse the step.

    Weights are updated one by one, and beside the model only one weight with its state is held twice.
    """

    _step_supports_amp_scaling = True  # what torch's own optimizers say whose kernels read `found_inf`
    found_inf: Tensor | None = None

    @abstractmethod
    def begin(self, weight: Tensor) -> dict[str, Tensor]:
        """The state of a weight before its first step."""

    @abstractmethod
    def become(
        self, weight: Tensor, gradient: Tensor, state: Mapping[str, Tensor], group: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """A weight and its state after a step, as new tensors."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        bad = None if self.found_inf is None else self.found_inf > 0
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.update(weight, group, bad)

    def update(self, weight: Tensor, group: Mapping[str, Any], bad: Tensor | None) -> None:
        """One step of a weight, unless it is bad."""
        assert weight.grad is not None
        if not self.state[weight]:
            self.state[weight] |= self.begin(weight)
        held, state = local(weight), {name: local(old) for name, old in self.state[weight].items()}
        later, states = self.become(held, local(weight.grad), state, group)
        for old, new in ((held, later), *((state[name], states[name]) for name in state)):
            if bad is None:
                old.copy_(new)
            else:  # selected, not multiplied by 0, which makes no number of NaN
                torch.where(bad, old, new, out=old)


def step_unless(bad: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Update the weights where `bad` is 0; where it is 1, neither they nor the optimizer's state change.

    The device decides, as torch's GradScaler lets it; only for an optimizer that cannot does the host wait.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.found_inf = bad  # type: ignore[attr-defined]
        optimizer.step()
    elif not bad:
        optimizer.step()


def check_betas(betas: tuple[float, float], eps: float = 0.0) -> None:
    """Refuse what no moving average can work with.

    Raises:
        ValueError: a share of memory outside 0 to 1, or a negative eps.
    """
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"training.betas: each must be at least 0 and below 1, got {list(betas)}")
    if eps < 0:
        raise ValueError(f"training.eps: must be at least 0, got {eps}")


def check_momentum(momentum: float) -> None:
    """Refuse a momentum that would never forget, or that would turn around.

    Raises:
        ValueError: it is outside 0 to 1.
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"training.optimizer.momentum: must be at least 0 and below 1, got {momentum}")
