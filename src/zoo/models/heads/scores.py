"""A head's logits before they are multiplied out: hidden states, weight and bias."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.projections import are_plain
from zoo.devices.precision import autocast_dtype, autocast_to, dtype_of_products
from zoo.models.heads.cross_entropy import (
    LinearCrossEntropy,
    SummedLoss,
    are_few,
    exact_at_once,
    split,
    whole_cross_entropy,
)
from zoo.models.heads.scored_logits import LossOptions

DRAW_BITS = 31  # of the random number that decides a sample


class Scores:
    """The logits W x + b per position, stored as x, W and b.

    A vocabulary's logits are the largest tensor of a training step. So losses call `cross_entropy`, which never holds
    all of them, and only code that reads logits calls `logits` or `exact`. Autocast's dtype and the gradient mode are
    recorded when the head runs, and apply to later computations.

    Not a dataclass: FSDP would hook every tensor that it finds in the output of a model, weights included.

    Args:
        states: x, one vector per position.
        weight: W, one row per class.
        bias: b; None: no bias.
    """

    def __init__(
        self,
        states: Float[Tensor, "*places d_model"],
        weight: Float[Tensor, "n d_model"],
        bias: Float[Tensor, " n"] | None = None,
    ) -> None:
        self.grad_enabled, self.dtype = torch.is_grad_enabled(), dtype_of_products(states)
        self.states, self.weight, self.bias = states, weight, bias
        self.exact_weight = weight  # the unrounded weight, if `weight` is a copy in lower precision
        self.chunked = True  # compute `cross_entropy` in chunks, without all logits at once
        self.map: Callable[[Tensor], Tensor] | None = None  # computes the logits, if the layer does more than W x + b
        self.autocast: torch.dtype | None = None  # for calling `map`: the head's autocast context has ended by then

    @staticmethod
    def from_linear(
        linear: Any, states: Float[Tensor, "*places d_model"], bias: Float[Tensor, " n"] | None = None
    ) -> "Scores":
        """The scores of a linear layer, also if LoRA, a hook or accelerate adds to what it computes.

        Args:
            bias: for a layer that has none of its own.
        """
        scores = Scores(states, linear.weight, linear.bias if bias is None else bias)
        if not are_plain([linear]):
            scores.map = linear if bias is None else lambda states: linear(states) + bias
            scores.autocast = autocast_dtype(states.device.type)
        return scores

    @staticmethod
    def from_logits(logits: Float[Tensor, "*places n"]) -> "Scores":
        """Wrap logits that no linear layer gives: W is the identity, so this is meant for few classes."""
        return Scores(logits, torch.eye(logits.shape[-1], dtype=logits.dtype, device=logits.device))

    def with_states(self, states: Float[Tensor, "*places d_model"]) -> "Scores":
        """The scores of other states, with the same weights, dtype and gradient mode."""
        scores = copy(self)
        scores.states = states
        return scores

    def grad_mode(self) -> Any:
        """Context that records gradients if they were enabled when the head ran and still are."""
        return torch.set_grad_enabled(self.grad_enabled and torch.is_grad_enabled())

    def logits(self) -> Float[Tensor, "*places n"]:
        """Compute all logits."""
        if self.map is not None:
            with self.grad_mode(), autocast_to(self.states.device, self.autocast) if self.autocast else nullcontext():
                return self.map(self.states)
        bias = None if self.bias is None else self.bias.to(self.dtype)
        with self.grad_mode():
            return F.linear(self.states.to(self.dtype), self.weight_to_read(), bias)

    def weight_to_read(self) -> Float[Tensor, "n d_model"]:
        """W in the dtype of the products. Without gradients autocast casts it, once for all steps of a generation."""
        casts = autocast_dtype(self.states.device.type) == self.dtype and not torch.is_grad_enabled()
        return self.weight if casts else self.weight.to(self.dtype)

    def exact(self) -> Float[Tensor, "*places n"]:
        """Compute all logits in at least float32: logits that are ranked must not be rounded to bfloat16.

        A layer that does more than W x + b (`map`) computes in its own precision.
        """
        dtype = torch.promote_types(self.states.dtype, torch.float32)
        if self.map is not None:
            return self.logits().to(dtype)
        bias = None if self.bias is None else self.bias.to(dtype)
        with self.grad_mode(), torch.autocast(self.states.device.type, enabled=False):
            return F.linear(self.states.to(dtype), self.exact_weight.to(dtype), bias)

    def cross_entropy(
        self, targets: Int[Tensor, "*places"], label_smoothing: float = 0.0, guess: bool = False, exactly: bool = False
    ) -> SummedLoss:
        """Compute the cross entropy, summed in at least float32 over the positions whose target is not -1.

        Args:
            label_smoothing: the share of probability that is spread evenly over the classes.
            guess: whether to return the most likely class per position. If there are few classes, it is the argmax of
                `exact`, as in predictions: bfloat16 rounds different logits to equal ones.
            exactly: whether to use `exact` for it whatever the number of classes.
        """
        rows, answers = self.states.reshape(-1, self.states.shape[-1]), targets.reshape(-1)
        exactly = guess and (exactly or are_few(len(self.weight)))
        with self.grad_mode():
            options = LossOptions(self.dtype, label_smoothing, guess and not exactly, torch.is_grad_enabled())
            if self.chunked and self.map is None:
                found = LinearCrossEntropy.apply(rows, self.weight, self.bias, answers, options)  # type: ignore[no-untyped-call]
            else:
                found = whole_cross_entropy(self.logits().flatten(0, -2), answers, options)
        likeliest = self.likeliest() if exactly else found[2]
        return SummedLoss(found[0], found[1], None if likeliest is None else likeliest.reshape(targets.shape))

    @torch.no_grad()
    def likeliest(self) -> Int[Tensor, "*places"]:
        """The argmax of `exact` per position; computed some rows at a time to save memory."""
        rows, n = self.states.flatten(0, -2), len(self.weight)
        parts = split(len(rows), n, exact_at_once(rows.device))
        found = torch.cat([self.with_states(rows[some]).exact().argmax(-1) for some in parts])
        return found.reshape(self.states.shape[:-1])

    @torch.no_grad()
    def sample(self, draws: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """Sample a class per position from the softmax, by inverting its cumulative distribution at a given draw.

        Probabilities are rounded to integers, whose cumulative sums are the same in whatever order a device adds them.
        Computed some rows at a time to save memory.

        Args:
            draws: per position, a random number from 0 to 2^31 - 1.
        """
        rows, n = self.states.flatten(0, -2).detach(), len(self.weight)
        bias = None if self.bias is None else self.bias.to(self.dtype)
        exact, weight = torch.promote_types(self.dtype, torch.float32), self.weight.to(self.dtype)
        picked = torch.empty_like(draws)
        for some in split(len(rows), n, exact_at_once(rows.device)):
            shares = F.linear(rows[some].to(self.dtype), weight, bias).softmax(-1, dtype=exact)
            sums = (shares * 2**DRAW_BITS).round().long().cumsum(-1)
            at = (draws[some] * sums[:, -1]) >> DRAW_BITS
            # if logits are not finite any class will do, since the loss is not finite either
            picked[some] = torch.searchsorted(sums, at[:, None], right=True)[:, 0].clamp_max(n - 1)
        return picked
