"""What a head says, before it is multiplied out."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.projections import are_plain
from zoo.devices.precision import autocast_dtype, dtype_of_products, mixed
from zoo.models.heads.cross_entropy import (
    LinearCrossEntropy,
    SummedLoss,
    are_few,
    exact_at_once,
    split,
    whole_cross_entropy,
)
from zoo.models.heads.scored_logits import Wanted

DRAW_BITS = 31  # of a number that decides a draw


class Scores:
    """The logits W x + b of each place, as the three that they are made of.

    A vocabulary's logits are the largest tensor of a training step. So a loss asks for `cross_entropy`, which never
    holds all of them, and only who wants to see logits asks for those. Either is computed in the precision, and with
    gradients or without, as it was where the head ran.

    It is no dataclass on purpose: FSDP hooks every tensor that it finds in the output of a model, weights included.

    Args:
        states: x, one vector for each place.
        weight: W, one row for each class.
        bias: b.
    """

    def __init__(
        self,
        states: Float[Tensor, "*places d_model"],
        weight: Float[Tensor, "n d_model"],
        bias: Float[Tensor, " n"] | None = None,
    ) -> None:
        self.recorded, self.dtype = torch.is_grad_enabled(), dtype_of_products(states)
        self.states, self.weight, self.bias = states, weight, bias
        self.whole = weight  # what `weight` was rounded from, where it was
        self.chunked = True  # how `cross_entropy` is computed
        self.map: Callable[[Tensor], Tensor] | None = None  # what gives the logits, where it does more than multiply
        self.autocast: torch.dtype | None = None  # which `map` is called under, and which has ended by then

    @staticmethod
    def by(linear: Any, states: Float[Tensor, "*places d_model"], bias: Float[Tensor, " n"] | None = None) -> "Scores":
        """What a linear map says of states, also where LoRA, a hook or accelerate makes more of it.

        Args:
            bias: in the place of its own.
        """
        scores = Scores(states, linear.weight, linear.bias if bias is None else bias)
        if not are_plain([linear]):
            scores.map = linear if bias is None else lambda states: linear(states) + bias
            scores.autocast = autocast_dtype(states.device.type)
        return scores

    @staticmethod
    def of(logits: Float[Tensor, "*places n"]) -> "Scores":
        """What a head says that does more than a linear map: its logits, which are few, by the identity."""
        return Scores(logits, torch.eye(logits.shape[-1], dtype=logits.dtype, device=logits.device))

    def of_others(self, states: Float[Tensor, "*places d_model"]) -> "Scores":
        """What the same map says of other states, computed in the same way."""
        scores = copy(self)
        scores.states = states
        return scores

    def recording(self) -> Any:
        """Record gradients where the head did, unless they are not wanted by now."""
        return torch.set_grad_enabled(self.recorded and torch.is_grad_enabled())

    def logits(self) -> Float[Tensor, "*places n"]:
        """All of them at once."""
        if self.map is not None:
            with self.recording(), mixed(self.states.device, self.autocast) if self.autocast else nullcontext():
                return self.map(self.states)
        bias = None if self.bias is None else self.bias.to(self.dtype)
        with self.recording():
            return F.linear(self.states.to(self.dtype), self.weight_to_read(), bias)

    def weight_to_read(self) -> Float[Tensor, "n d_model"]:
        """W in the dtype of products. Without gradients autocast casts it by itself, once for all tokens of a text."""
        casts = autocast_dtype(self.states.device.type) == self.dtype and not torch.is_grad_enabled()
        return self.weight if casts else self.weight.to(self.dtype)

    def exact(self) -> Float[Tensor, "*places n"]:
        """All of them, multiplied out in at least float32: numbers that are ranked must not be rounded to bfloat16.

        A map that does more is asked as it is.
        """
        dtype = torch.promote_types(self.states.dtype, torch.float32)
        if self.map is not None:
            return self.logits().to(dtype)
        bias = None if self.bias is None else self.bias.to(dtype)
        with self.recording(), torch.autocast(self.states.device.type, enabled=False):
            return F.linear(self.states.to(dtype), self.whole.to(dtype), bias)

    def cross_entropy(
        self, targets: Int[Tensor, "*places"], label_smoothing: float = 0.0, guess: bool = False, exactly: bool = False
    ) -> SummedLoss:
        """The cross entropy summed over the places whose target is not -1, in at least float32.

        Args:
            label_smoothing: the share of probability that is spread evenly over the classes.
            guess: whether the likeliest class of each place is wanted. Of few classes it is that of `exact`, which
                tells apart what is equal in bfloat16, as predictions do.
            exactly: whether it is that of `exact` however many classes there are.
        """
        rows, answers = self.states.reshape(-1, self.states.shape[-1]), targets.reshape(-1)
        exactly = guess and (exactly or are_few(len(self.weight)))
        with self.recording():
            wanted = Wanted(self.dtype, label_smoothing, guess and not exactly, torch.is_grad_enabled())
            if self.chunked and self.map is None:
                found = LinearCrossEntropy.apply(rows, self.weight, self.bias, answers, wanted)  # type: ignore[no-untyped-call]
            else:
                found = whole_cross_entropy(self.logits().flatten(0, -2), answers, wanted)
        likeliest = self.likeliest() if exactly else found[2]
        return SummedLoss(found[0], found[1], None if likeliest is None else likeliest.reshape(targets.shape))

    @torch.no_grad()
    def likeliest(self) -> Int[Tensor, "*places"]:
        """The class of each place that `exact` ranks first; some rows at a time, as in `cross_entropy`."""
        rows, n = self.states.flatten(0, -2), len(self.weight)
        parts = split(len(rows), n, exact_at_once(rows.device))
        found = torch.cat([self.of_others(rows[some]).exact().argmax(-1) for some in parts])
        return found.reshape(self.states.shape[:-1])

    @torch.no_grad()
    def sample(self, draws: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """A class of each place's softmax, decided by a number from 0 to 2^31 - 1: the one whose share it falls into.

        Shares are rounded to whole numbers: their sums are the same in whatever order a device adds. Some rows at a
        time, as in `cross_entropy`.
        """
        rows, n = self.states.flatten(0, -2).detach(), len(self.weight)
        bias = None if self.bias is None else self.bias.to(self.dtype)
        exact, weight = torch.promote_types(self.dtype, torch.float32), self.weight.to(self.dtype)
        picked = torch.empty_like(draws)
        for some in split(len(rows), n, exact_at_once(rows.device)):
            shares = F.linear(rows[some].to(self.dtype), weight, bias).softmax(-1, dtype=exact)
            sums = (shares * 2**DRAW_BITS).round().long().cumsum(-1)
            at = (draws[some] * sums[:, -1]) >> DRAW_BITS
            # what is not finite has no shares: any class will do, and the loss tells
            picked[some] = torch.searchsorted(sums, at[:, None], right=True)[:, 0].clamp_max(n - 1)
        return picked
