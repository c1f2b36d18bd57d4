"""Losses of rows of logits; the gradient overwrites the logits to save memory."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LossesOfRows = tuple[Tensor, Tensor, Tensor | None]  # summed loss, summed -log p(target), argmax per row if requested


class LossOptions(NamedTuple):
    """How a cross entropy is computed.

    Args:
        dtype: of the matrix products; sums are in float32, or in float64 for float64.
        label_smoothing: the share of probability that is spread evenly over the classes.
        guess: whether to return the most likely classes.
        gradient: whether to compute gradients.
    """

    dtype: torch.dtype
    label_smoothing: float
    guess: bool
    gradient: bool

    @property
    def sum_dtype(self) -> torch.dtype:
        """The dtype of probabilities and sums: at least float32."""
        return torch.promote_types(self.dtype, torch.float32)

    @property
    def weight_gradient_dtype(self) -> torch.dtype:
        """The dtype in which the weight's gradient is kept for the backward pass; its sum may overflow in float16."""
        return self.sum_dtype if self.dtype == torch.float16 else self.dtype


def score_(logits: Float[Tensor, "rows n"], targets: Int[Tensor, " rows"], options: LossOptions) -> LossesOfRows:
    """Return the summed loss, the summed -log p(target) and the argmax of each row.

    Args:
        logits: overwritten with the gradient of the summed loss if `options.gradient`.
        targets: class per row; -1: the row is not scored.
    """
    share, n = options.label_smoothing, logits.shape[1]
    known, answers = targets >= 0, targets.clamp_min(0).unsqueeze(-1)
    answered = logits.gather(-1, answers).squeeze(-1)
    # on a CPU softmax would make this copy itself, and amax takes four times as long in bfloat16
    widened = logits.to(options.sum_dtype) if logits.device.type == "cpu" else logits
    shares, top = widened.softmax(-1, dtype=options.sum_dtype), widened.amax(-1).to(options.sum_dtype)
    guesses = shares.argmax(-1) if options.guess else None
    # log p = x - max x + log max p; exp(log_softmax(x)) would compute all exponentials twice
    of_likeliest = -shares.amax(-1).log()
    losses = likelihoods = of_likeliest + (top - answered)
    if share:
        below = (logits.to(options.sum_dtype) - top.unsqueeze(-1)).mean(-1)
        losses = (1 - share) * likelihoods + share * (of_likeliest - below)
    if options.gradient:  # softmax(x) - share / n - (1 - share) at the target
        if share:
            shares -= share / n
        shares.scatter_add_(-1, answers, torch.full_like(answers, share - 1, dtype=shares.dtype))
        logits.copy_(shares)
        clear_(logits, ~known)
    # `where`, not a product: the loss of an unscored row may be infinite
    loss, likelihood = (torch.where(known, numbers, 0).sum() for numbers in (losses, likelihoods))
    return loss, likelihood, guesses


def clear_(x: Tensor, chosen: Bool[Tensor, " rows"]) -> None:
    """Set the chosen rows to 0, also where they are NaN or infinite."""
    if x.device.type == "cpu":  # masked_fill_ takes as long as the softmax there, and `nonzero` waits for no device
        x.index_fill_(0, chosen.nonzero().squeeze(-1), 0)
    else:
        x.masked_fill_(chosen.unsqueeze(-1), 0)
