"""Cross entropy in one Triton kernel, which overwrites the logits with their gradient to save memory."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

# Logits per block and warps per program: the fastest of eleven combinations on an H200, for 50,257 classes.
BLOCK, WARPS = 2048, 4
NOWHERE, LOWEST = tl.constexpr(2**31 - 1), tl.constexpr(-3.4028234663852886e38)  # no index found; the lowest float32


def cross_entropy_(
    logits: Float[Tensor, "rows room"],
    classes: int,
    targets: Int[Tensor, " rows"],
    label_smoothing: float,
    guess: bool,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the loss and -log p(target), each summed over rows in float32, and the argmax of each row.

    Args:
        logits: contiguous, on a GPU; overwritten if `gradient`. Columns from `classes` on are padding with gradient 0.
        classes: number of classes.
        targets: class per row; -1: the row is not scored.
        label_smoothing: probability that is spread evenly over the classes.
        guess: whether to compute the argmax; else it is None.
        gradient: whether to overwrite the logits with the gradient of the summed loss.
    """
    numbers = torch.empty(len(logits), 2, device=logits.device)
    guesses = torch.empty_like(targets) if guess else None
    tensors, shape = (logits, targets.contiguous(), numbers, guesses), (classes, logits.shape[1], BLOCK)
    with torch.cuda.device(logits.device):  # Triton launches kernels on the current GPU
        options = {"num_warps": WARPS, "enable_fp_fusion": True}  # the default; Triton 3.9 warns if unset
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
    """Compute one row: loss and -log p(target) into `numbers` (rows, 2), argmax into `guesses`, gradient into `logits`.

    Args:
        shape: number of classes, columns of a row of logits, columns per block.
        wanted: whether to compute the argmax, and the gradient.
    """
    classes: tl.constexpr = shape[0]
    room: tl.constexpr = shape[1]
    block: tl.constexpr = shape[2]
    guess: tl.constexpr = wanted[0]
    gradient: tl.constexpr = wanted[1]
    row = tl.program_id(0).to(tl.int64)  # offsets into the logits may exceed 2^31
    logits += row * room
    target = tl.load(targets + row)
    known = target >= 0
    # a target outside the classes gives NaN, so that the mistake shows in the loss
    answered = tl.load(logits + tl.maximum(target, 0), mask=target < classes, other=float("nan")).to(tl.float32)
    top, log_total, above = read_row(logits, answered, shape, label_smoothing > 0)
    likelihood = log_total + (top - answered)
    loss = likelihood - label_smoothing * (above / classes) if label_smoothing > 0 else likelihood
    # `where`, not a product: the loss of an unscored row may be infinite
    tl.store(numbers + 2 * row, tl.where(known, loss, 0.0))
    tl.store(numbers + 2 * row + 1, tl.where(known, likelihood, 0.0))
    first = tl.full([block], NOWHERE, tl.int32)  # per lane of the block: its first column that holds the maximum
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
    if guess:  # with NaN logits no class may equal the maximum
        tl.store(guesses + row, tl.minimum(tl.min(first, 0), classes - 1))


@triton.jit  # type: ignore[untyped-decorator]
def read_row(logits: tl.tensor, answered: tl.tensor, shape: tl.constexpr, smoothed: tl.constexpr) -> tl.tuple:
    """Return max x, log sum exp(x - max x) and, if `smoothed`, the sum of x - x(target), for a row of logits x.

    Differences keep precision for logits far from 0. Loads run to the end of the padded row, not of the classes: a GPU
    loads eight logits at once only if their number is a multiple of eight.

    Source: Milakov and Gimelshein 2018, arXiv:1805.02867, for the sum of exponentials in one pass.
    """
    classes: tl.constexpr = shape[0]
    room: tl.constexpr = shape[1]
    block: tl.constexpr = shape[2]
    top = LOWEST  # not -inf: for a logit of -inf the difference would be NaN
    totals, above = tl.zeros([block], tl.float32), tl.zeros([block], tl.float32)
    for start in range(0, room, block):
        at = start + tl.arange(0, block)
        x = tl.load(logits + at, mask=at < room, other=0.0).to(tl.float32)
        if smoothed:
            above += tl.where(at < classes, x - answered, 0.0)
        x = tl.where(at < classes, x, -float("inf"))
        higher = tl.maximum(top, tl.max(x, 0))
        totals = totals * tl.exp(top - higher) + tl.exp(x - higher)  # rescaled to the new maximum
        top = higher
    return top, tl.log(tl.sum(totals, 0)), tl.sum(above, 0)
