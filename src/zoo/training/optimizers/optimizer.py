"""Slot `optimizer`: how gradients change weights. Supplied: the model, and a learning rate that is set in each step."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch._dynamo  # torch's first optimizer imports it, for up to 1 s: better here than in the first step
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Position
from zoo.registry import Slot
from zoo.training.devices.shards import local_shard

optimizers: Slot[torch.optim.Optimizer] = Slot("optimizer")
# Not mps: until June 2026 torch's fused kernels there updated the weights in a skipped step, too (pytorch/pytorch, pull
# request 186360).
FUSED_DEVICES = ("cpu", "cuda", "xpu")
STACK_ON_CPU = 2**18  # elements updated at once: larger stacks do not fit into the caches, so copying takes longer
STACK_ON_GPU = 2**23  # elements: enough to fill a GPU, and fewer than the embedding of a large vocabulary has


class NeedsWholeMatrices(torch.optim.Optimizer):
    """An optimizer that needs whole matrices, so that it does not combine with strategy fsdp."""


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained, in the model's order; tied ones once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def logit_parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters that are logits of attention rather than a linear map: sinks and position biases."""
    for module in model.modules():
        if isinstance(module, Attention) and module.sinks is not None:
            yield module.sinks
        elif isinstance(module, Position) and module.biases:
            yield from module.parameters()


def decay_groups(model: nn.Module, parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters into the groups of an optimizer: those with weight decay, and those without.

    Matrices decay, embeddings included; vectors (biases and the scales of norms) do not, as in BERT and GPT-2. Nor do
    attention sinks and tables of relative positions, whatever their shape: they are logits, of which only differences
    matter (transformers' Trainer leaves T5's `relative_attention_bias` out, too).

    Raises:
        ValueError: the decay is negative.
    """
    if weight_decay < 0:
        raise ValueError(f"training.weight_decay: must be at least 0, got {weight_decay}")
    # by id: `in` on a list of tensors would compare their values
    parameters, logits = list(parameters), {id(parameter) for parameter in logit_parameters(model)}
    decayed = {id(p) for p in parameters if p.dim() >= 2 and id(p) not in logits}
    groups = [
        {"params": [p for p in parameters if id(p) in decayed], "weight_decay": weight_decay},
        {"params": [p for p in parameters if id(p) not in decayed], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def is_fusible(parameters: Iterable[nn.Parameter]) -> bool:
    """Whether torch has a fused kernel to update these parameters, which can also skip a bad step."""
    return all(p.is_floating_point() and p.device.type in FUSED_DEVICES for p in parameters)


def describe_kernels(optimizer: torch.optim.Optimizer) -> str:
    """Describe how an optimizer updates the weights; for one of two parts, how each does: matrices, and all else."""
    parts: list[torch.optim.Optimizer] = getattr(optimizer, "parts", [optimizer])
    if len(parts) > 1:
        matrices, others = (describe_kernels(part) for part in parts)
        return f"matrices {matrices}, all else {others}"
    if isinstance(parts[0], SkippableOptimizer):
        return "stacked by shape"
    return "fused" if all(group.get("fused") for group in parts[0].param_groups) else "one by one"


class SkippableOptimizer(torch.optim.Optimizer):
    """An optimizer that computes new weights and states out of place, so that the device can skip the step.

    Weights of one shape are updated together: launching a GPU kernel takes as long as a small matrix product, and a
    single small one leaves most of the GPU idle. The extra memory is one stack of weights with its states.
    """

    _step_supports_amp_scaling = True  # as in torch's own optimizers whose kernels read `found_inf`
    found_inf: Tensor | None = None

    @abstractmethod
    def initial_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return the state of a weight before its first step."""

    @abstractmethod
    def compute_step(
        self, weights: Tensor, gradients: Tensor, states: Mapping[str, Tensor], group: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weights and their states after a step, as new tensors.

        Args:
            weights, gradients: of one shape each, stacked along the first axis.
            states: the tensors of `initial_state`, by name, stacked in the same way.
            group: the parameter group, with its options.
        """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        bad = None if self.found_inf is None else self.found_inf > 0
        for group in self.param_groups:
            for weights in group_by_shape(weight for weight in group["params"] if weight.grad is not None):
                self.update(weights, group, bad)

    def update(self, weights: list[Tensor], group: Mapping[str, Any], bad: Tensor | None) -> None:
        """Do one step of weights of one shape, unless `bad` is true on the device; None: always."""
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] |= self.initial_state(weight)
        states = {
            name: [local_shard(self.state[weight][name]) for weight in weights] for name in self.state[weights[0]]
        }
        own = [local_shard(weight) for weight in weights]
        gradients = [local_shard(weight.grad) for weight in weights if weight.grad is not None]
        stacked = {name: stack(olds) for name, olds in states.items()}
        new_weights, new_states = self.compute_step(stack(own), stack(gradients), stacked, group)
        for olds, news in ((own, new_weights), *((states[name], new_states[name]) for name in states)):
            if bad is not None:  # `where`, not a product with 0: 0 * NaN is NaN
                torch.where(bad, stack(olds), news, out=news)
            torch._foreach_copy_(olds, news.unbind())


def group_by_shape(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Group weights whose local shards have one shape, in order, into stacks of a size that suits the device."""
    alike: dict[tuple[object, ...], list[Tensor]] = {}
    for weight in weights:
        alike.setdefault((local_shard(weight).shape, weight.dtype, weight.device), []).append(weight)
    for found in alike.values():
        most = STACK_ON_CPU if found[0].device.type == "cpu" else STACK_ON_GPU
        count = max(1, most // max(1, local_shard(found[0]).numel()))
        yield from (found[start : start + count] for start in range(0, len(found), count))


def stack(tensors: list[Tensor]) -> Tensor:
    """Stack tensors of one shape along a new first axis; a single one is not copied."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)


def step_unless(bad: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Update the weights if the scalar `bad` is 0; if it is 1, neither they nor the optimizer's state change.

    The device decides, through `found_inf` as in torch's GradScaler; the host waits only if the optimizer lacks it.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.found_inf = bad  # type: ignore[attr-defined]
        optimizer.step()
    elif not bad:
        optimizer.step()


def check_betas(betas: tuple[float, float], eps: float = 0.0) -> None:
    """Refuse decay rates and an eps that no moving average works with.

    Raises:
        ValueError: a beta outside of 0 to 1, or a negative eps.
    """
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"training.betas: each must be at least 0 and below 1, got {list(betas)}")
    if eps < 0:
        raise ValueError(f"training.eps: must be at least 0, got {eps}")


def check_momentum(momentum: float) -> None:
    """Refuse a momentum that would never decay, or would alternate its sign.

    Raises:
        ValueError: it is outside of 0 to 1.
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"training.optimizer.momentum: must be at least 0 and below 1, got {momentum}")
