"""The losses of rows of logits by one kernel of a GPU, which puts their gradient in their place. Needs Triton."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

# Logits that a program reads at a time, and its warps: the fastest of eleven pairs on an H200, for 50,257 classes.
BLOCK, WARPS = 2048, 4
NOWHERE, LOWEST = tl.constexpr(2**31 - 1), tl.constexpr(-3.4028234663852886e38)  # the least float32


def score_(
    logits: Float[Tensor, "rows room"],
    classes: int,
    targets: Int[Tensor, " rows"],
    label_smoothing: float,
    guess: bool,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The losses and -log p(target) of all rows, summed in float32, and their likeliest classes.

    The gradient of the losses takes the logits' place, unless it is not wanted.

    Args:
        logits: contiguous, on a GPU; those of a row that are beyond its classes get the gradient 0.
        targets: -1 costs nothing.
        label_smoothing: the share of probability that is spread evenly over the classes.
        guess: whether the likeliest classes are wanted.
    """
    numbers = torch.empty(len(logits), 2, device=logits.device)
    guesses = torch.empty_like(targets) if guess else None
    tensors, shape = (logits, targets.contiguous(), numbers, guesses), (classes, logits.shape[1], BLOCK)
    with torch.cuda.device(logits.device):  # Triton starts kernels on the GPU that is the current one
        options = {"num_warps": WARPS, "enable_fp_fusion": True}  # as ever; Triton 3.9 warns where nobody says so
        score_row[(len(logits),)](*tensors, label_smoothing, shape, (guess, gradient), **options)
    loss, likelihood = numbers.sum(0).unbind()
    return loss, likelihood, guesses


@triton.jit  # type: ignore[untyped-decorator]
def score_row(
    logits: tl.tensor,
    targets: tl.tensor,
    numbers: tl.tensor,
    guesses: tl.tensor,
    label_smoothing: tl.constexpr,
    shape: tl.constexpr,
    wanted: tl.constexpr,
) -> None:
    """Of one row the loss and the likelihood, which `numbers` has in pairs, the guess, and the gradient.

    Args:
        shape: classes, logits for which a row has room, logits that are read at a time.
        wanted: whether the guess is, and the gradient.
    """
    classes: tl.constexpr = shape[0]
    room: tl.constexpr = shape[1]
    block: tl.constexpr = shape[2]
    guess: tl.constexpr = wanted[0]
    gradient: tl.constexpr = wanted[1]
    row = tl.program_id(0).to(tl.int64)  # all logits may be more than 2^31
    logits += row * room
    target = tl.load(targets + row)
    known = target >= 0
    # no class: no loss that could pass for one
    answered = tl.load(logits + tl.maximum(target, 0), mask=target < classes, other=float("nan")).to(tl.float32)
    top, log_total, above = read_row(logits, answered, shape, label_smoothing > 0)
    likelihood = log_total + (top - answered)
    loss = likelihood - label_smoothing * (above / classes) if label_smoothing > 0 else likelihood
    # `where`, not a product: what stands at an unscored place may be infinite
    tl.store(numbers + 2 * row, tl.where(known, loss, 0.0))
    tl.store(numbers + 2 * row + 1, tl.where(known, likelihood, 0.0))
    first = tl.full([block], NOWHERE, tl.int32)
    even = label_smoothing / classes
    for start in range(0, room if guess or gradient else 0, block):
        at = start + tl.arange(0, block)
        x = tl.load(logits + at, mask=at < room, other=0.0).to(tl.float32)
        if guess:
            first = tl.minimum(first, tl.where((x == top) & (at < classes), at, NOWHERE))
        if gradient:
            share = tl.exp(x - top - log_total) - even
            share = tl.where(at == target, share + (label_smoothing - 1), share)
            tl.store(logits + at, tl.where(known & (at < classes), share, 0.0), mask=at < room)
    if guess:  # where logits are no numbers, none may be the top
        tl.store(guesses + row, tl.minimum(tl.min(first, 0), classes - 1))


@triton.jit  # type: ignore[untyped-decorator]
def read_row(logits: tl.tensor, answered: tl.tensor, shape: tl.constexpr, smoothed: tl.constexpr) -> tl.tuple:
    """max x, log sum exp(x - max x), and, where it is `smoothed`, the sum of x - x(target), for a row of logits x.

    All are of differences, so that logits far from 0 lose no digits. What is loaded ends with the room, not with the
    classes: a GPU loads eight logits at once only where their number is a multiple of eight.
    """
    classes: tl.constexpr = shape[0]
    room: tl.constexpr = shape[1]
    block: tl.constexpr = shape[2]
    top = LOWEST  # not -inf: the difference of a logit that is -inf to it would be no number
    totals, above = tl.zeros([block], tl.float32), tl.zeros([block], tl.float32)
    for start in range(0, room, block):
        at = start + tl.arange(0, block)
        x = tl.load(logits + at, mask=at < room, other=0.0).to(tl.float32)
        if smoothed:
            above += tl.where(at < classes, x - answered, 0.0)
        x = tl.where(at < classes, x, -float("inf"))
        higher = tl.maximum(top, tl.max(x, 0))
        totals = totals * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    return top, tl.log(tl.sum(totals, 0)), tl.sum(above, 0)
