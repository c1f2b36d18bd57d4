"""The losses of rows of logits, whose place their gradient takes."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Scored = tuple[Tensor, Tensor, Tensor | None]  # losses and likelihoods, summed, and the guess of each row


class Wanted(NamedTuple):
    """How a cross entropy is computed.

    Args:
        dtype: of the matrix products; sums are in float32, or in float64 for float64.
        label_smoothing: the share of probability that is spread evenly over the classes.
        guess: whether the likeliest classes are wanted.
        gradient: whether gradients are recorded at all.
        compiled: whether the passes over many classes' logits are compiled where that makes them faster, and gradients
            are recorded: validation has rows of many shapes.
    """

    dtype: torch.dtype
    label_smoothing: float
    guess: bool
    gradient: bool
    compiled: bool = False

    @property
    def exact(self) -> torch.dtype:
        return torch.promote_types(self.dtype, torch.float32)

    @property
    def kept(self) -> torch.dtype:
        """The dtype in which the gradient of the weight waits for the backward pass: of all rows, it may be large."""
        return self.exact if self.dtype == torch.float16 else self.dtype


def score_(logits: Tensor, targets: Tensor, wanted: Wanted) -> Scored:
    """The losses and the likelihoods of some rows, summed, and their guesses; the gradient takes the logits' place."""
    share, n = wanted.label_smoothing, logits.shape[1]
    known, answers = targets >= 0, targets.clamp_min(0).unsqueeze(-1)
    answered = logits_at(answers, logits, wanted)
    shares, top, of_likeliest, guesses = softmax(logits, wanted)
    # log p = x - max x + log max p, where exp(log_softmax(x)) would compute all exponentials twice
    losses = likelihoods = of_likeliest + (top - answered)
    if share:
        below = (logits.to(wanted.exact) - top.unsqueeze(-1)).mean(-1)
        losses = (1 - share) * likelihoods + share * (of_likeliest - below)
    if wanted.gradient:
        if share:
            shares -= share / n
        put_gradient_(logits, shares, answers, share - 1, known)
    # `where`, not a product: what stands at an unscored place may be infinite
    loss, likelihood = (torch.where(known, numbers, 0).sum() for numbers in (losses, likelihoods))
    return loss, likelihood, guesses


def softmax(logits: Tensor, wanted: Wanted) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The shares p of all classes, and of each row max x, -log max p and the likeliest class, where it is wanted.

    The lines for a compiled kernel are those in which torch's compiler finds a softmax: maximum, sum and likeliest
    class come of one pass over a row, and shares of a second one in the same kernel, which writes the gradient.
    """
    if torch.compiler.is_compiling():
        exact = logits.to(wanted.exact)
        top = exact.amax(-1, keepdim=True)
        exponentials = (exact - top).exp()
        total = exponentials.sum(-1, keepdim=True)
        guesses = logits.argmax(-1) if wanted.guess else None
        # not exponentials / total: a kernel has to compute them again, and divides slowly
        return (exact - top - total.log()).exp(), top.squeeze(-1), total.squeeze(-1).log(), guesses
    shares = logits.softmax(-1, dtype=wanted.exact)
    guesses = shares.argmax(-1) if wanted.guess else None
    return shares, logits.amax(-1).to(wanted.exact), -shares.amax(-1).log(), guesses


def is_answer(answers: Tensor, logits: Tensor) -> Bool[Tensor, "rows n"]:
    """Where the logits of the answers stand."""
    return torch.arange(logits.shape[1], device=logits.device, dtype=torch.int32) == answers.int()


def logits_at(answers: Int[Tensor, "rows 1"], logits: Tensor, wanted: Wanted) -> Tensor:
    """The logit of each row's answer. A compiled kernel meets it on its way; to gather it would take another kernel."""
    if torch.compiler.is_compiling():
        return torch.where(is_answer(answers, logits), logits.to(wanted.exact), 0.0).sum(-1)
    return logits.gather(-1, answers).squeeze(-1)


def put_gradient_(logits: Tensor, shares: Tensor, answers: Tensor, added: float, known: Tensor) -> None:
    """Put the shares in the logits' place, with `added` at the answer, and 0 where nothing is scored."""
    if torch.compiler.is_compiling():  # a scatter would need all shares in float32, and a kernel of its own
        shares = torch.where(is_answer(answers, logits), shares + added, shares)
        logits.copy_(torch.where(known.unsqueeze(-1), shares, 0.0))
        return
    shares.scatter_add_(-1, answers, torch.full_like(answers, added, dtype=shares.dtype))
    logits.copy_(shares)
    clear_(logits, ~known)


def clear_(x: Tensor, chosen: Bool[Tensor, " rows"]) -> None:
    """Put 0 into the chosen rows, whatever stands there."""
    if x.device.type == "cpu":  # filling by a mask takes as long as the softmax there, and looking at it costs nothing
        x.index_fill_(0, chosen.nonzero().squeeze(-1), 0)
    else:
        x.masked_fill_(chosen.unsqueeze(-1), 0)
