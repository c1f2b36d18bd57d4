"""Cross entropy of a linear layer's logits, computed in chunks: the logits of all rows never exist at once."""

from functools import cache, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from zoo.devices.compiling import missing_for, with_fallback
from zoo.devices.large_products import linear_in_blocks, write_weight_gradient_
from zoo.lazy_import import import_object
from zoo.models.heads.scored_logits import LossesOfRows, LossOptions, score_

FEW = 2**10  # classes
# How many logits are held at a time, and how many of them in float32. On a CPU the latter fit in the cache; on a GPU
# both are enough to keep it busy. Each chunk is added to the weight's gradient, so many small chunks would be slow.
LOGITS_ON_CPU, EXACT_ON_CPU = 2**25, 2**20
LOGITS_ON_GPU, EXACT_ON_GPU = 2**28, 2**26
# Rows of logits are padded to a multiple of this many classes. A GPU's matrix products take six times as long if rows
# do not begin at multiples of 16 bytes, as with GPT-2's 50,257 classes (docs/benchmarks.md, "The loss of the head").
ALIGNED_ON_CPU, ALIGNED_ON_GPU = 1, 64
# Float16 overflows above 65,504. A lower loss scale cannot prevent that here, where nothing is scaled yet, so float16
# products sum at most this many rows at a time.
ROWS_IN_FLOAT16 = 2**13


def logits_at_once(device: torch.device) -> int:
    """About how many logits are held at a time; `chunks` holds more if that saves memory."""
    return LOGITS_ON_CPU if device.type == "cpu" else LOGITS_ON_GPU


def exact_at_once(device: torch.device) -> int:
    """How many logits are held in float32 at a time."""
    return EXACT_ON_CPU if device.type == "cpu" else EXACT_ON_GPU


def are_few(classes: int) -> bool:
    """Whether the logits of this many classes take too little time to be worth optimizing."""
    return classes < FEW


def aligned_classes(classes: int, device: torch.device) -> int:
    """Columns of a row of logits: the classes, and padding for alignment."""
    if are_few(classes):
        return classes
    aligned = ALIGNED_ON_CPU if device.type == "cpu" else ALIGNED_ON_GPU
    return -(-classes // aligned) * aligned


@cache
def has_kernel(device: torch.device) -> bool:
    """Whether the Triton kernel for logits can be used: on a CUDA GPU with everything that Triton needs."""
    return device.type == "cuda" and missing_for(device) is None


class SummedLoss(NamedTuple):
    """A cross entropy summed over its scored rows.

    Args:
        sum: of the losses; the only differentiable field.
        likelihood: the sum of -log p(target), without label smoothing.
        guesses: the most likely class per row; None unless requested.
    """

    sum: Tensor
    likelihood: Tensor
    guesses: Tensor | None


def whole_cross_entropy(logits: Tensor, targets: Tensor, options: LossOptions) -> SummedLoss:
    """Compute the summed cross entropy of all logits at once, with torch's `cross_entropy`.

    Args:
        logits: (rows, n).
        targets: (rows); -1: not scored.
    """
    # the logits of an unscored row may be infinite, and 0 times infinity is NaN
    exact = logits.masked_fill(targets[:, None] < 0, 0).to(options.sum_dtype)
    summed = partial(F.cross_entropy, target=targets, ignore_index=-1, reduction="sum")
    guesses = logits.argmax(-1) if options.guess else None
    return SummedLoss(summed(exact, label_smoothing=options.label_smoothing), summed(exact.detach()), guesses)


class LinearCrossEntropy(torch.autograd.Function):
    """sum over rows of -sum_k q(k) log p(k), with p = softmax(W x + b) and q(k) = (1 - e) [k = target] + e / n.

    Rows whose target is -1 are not scored. The forward pass takes a chunk of rows at a time: it computes their logits,
    then p, and overwrites the logits with their gradient p - q. From that it computes the gradients of x, W and b at
    once, so no matrix product is computed twice; the backward pass only scales them by the incoming gradient. Those of
    x and W are kept in the dtype of the products (W's in float32 if the products are in float16, or if several chunks
    are summed on a GPU), that of b in at least float32.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4; Szegedy et al. 2015, arXiv:1512.00567, section 7; the
    gradient in the chunk: Hsu et al. 2024 (Liger), arXiv:2410.10989, section 3.2.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "rows d_model"],
        weight: Float[Tensor, "n d_model"],
        bias: Float[Tensor, " n"] | None,
        targets: Int[Tensor, " rows"],
        options: LossOptions,
    ) -> SummedLoss:
        n, padded = len(weight), aligned_classes(len(weight), weight.device)
        x, w = states.to(options.dtype), pad_classes(weight, padded, options.dtype)
        b = None if bias is None else pad_classes(bias, padded, options.dtype)
        needed = [options.gradient and each for each in ctx.needs_input_grad[:3]]
        parts = chunks(options, len(x), w, summed=needed[1])
        # float32 for a sum over chunks, which would lose small terms in bfloat16
        summed = options.weight_gradient_dtype if len(parts) == 1 else options.sum_dtype
        of_states = torch.empty_like(x) if needed[0] else None
        of_weight = torch.empty_like(w, dtype=summed) if needed[1] else None
        of_bias = torch.zeros_like(w[:, 0], dtype=options.sum_dtype) if needed[2] else None
        totals = [torch.zeros((), dtype=options.sum_dtype, device=x.device) for _ in range(2)]
        guesses = torch.empty_like(targets) if options.guess else None
        for rows in parts:
            logits = linear_in_blocks(x[rows], w, b)
            guessed = None if guesses is None else guesses[rows]
            score_chunk_(logits, n, targets[rows], options._replace(gradient=any(needed)), totals, guessed)
            if of_states is not None:
                torch.mm(logits, w, out=of_states[rows])
            if of_weight is not None:
                write_product_(of_weight, logits, x[rows], add=rows.start > 0)
            if of_bias is not None:
                add_sums_(of_bias, logits)
        if of_weight is not None:
            of_weight = of_weight[:n]
            if of_weight.device.type != "cuda":
                of_weight = of_weight.to(options.weight_gradient_dtype)
        ctx.save_for_backward(of_states, of_weight, None if of_bias is None else of_bias[:n])
        ctx.dtypes = states.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(totals[1], *([] if guesses is None else [guesses]))
        return SummedLoss(totals[0], totals[1], guesses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        both = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return *(None if g is None else scale(g, by, dtype) for g, dtype in both), None, None


def scale(gradient: Tensor, by: Float[Tensor, ""], dtype: torch.dtype) -> Tensor:
    """Multiply a gradient by a number, in a dtype; only the product is rounded.

    A GPU's `gradient * by` would round a number without dimensions to the gradient's dtype: to 8 bits in bfloat16.
    With a vector of one number, in turn, a CPU takes four times as long.
    """
    if gradient.dtype == dtype and gradient.device.type == "cpu":
        return gradient * by
    if gradient.dtype == dtype:
        # not in place: a second backward pass (retain_graph) needs the saved gradient unchanged
        return torch.mul(gradient, by[None], out=torch.empty_like(gradient))
    return gradient.to(dtype).mul_(by)


def chunks(options: LossOptions, rows: int, weight: Float[Tensor, "n d_model"], summed: bool) -> list[slice]:
    """Split the rows into chunks whose logits are held at a time.

    All rows are one chunk if that takes no more memory: several chunks sum the weight's gradient in `sum_dtype`, a
    single one writes it in `weight_gradient_dtype`. With bfloat16 products the float32 sum takes four bytes per
    entry, as much as two logits.

    Args:
        summed: whether the weight's gradient is computed.
    """
    classes, width = weight.shape
    limit = logits_at_once(weight.device)
    if summed and options.weight_gradient_dtype != options.sum_dtype and rows * classes <= limit + 2 * width * classes:
        return [slice(0, rows)]
    return split(rows, max(classes, limit // ROWS_IN_FLOAT16 if options.dtype == torch.float16 else 0), limit)


def pad_classes(x: Float[Tensor, "n *width"], padded: int, dtype: torch.dtype) -> Float[Tensor, "padded *width"]:
    """Cast a head's weight or bias to the dtype of the products and pad it with zeros to `padded` classes.

    The padding's logits are 0, and `score_chunk_` sets their gradients to 0, so they add nothing to other gradients.
    """
    if padded == len(x):
        return x.to(dtype)
    wide = x.new_zeros(padded, *x.shape[1:], dtype=dtype)
    wide[: len(x)] = x
    return wide


def score_chunk_(
    logits: Float[Tensor, "rows padded"],
    classes: int,
    targets: Int[Tensor, " rows"],
    options: LossOptions,
    totals: list[Tensor],
    guesses: Int[Tensor, " rows"] | None,
) -> None:
    """Add a chunk's loss and -log p(target) to `totals`, and overwrite its logits with their gradient.

    Args:
        logits: columns beyond the classes get gradient 0.
        totals: the two sums.
        guesses: filled with the most likely class per row.
    """
    fits = not are_few(classes) and len(logits) > 0 and logits.dtype != torch.float64 and has_kernel(logits.device)
    fits = fits and not torch.compiler.is_compiling()  # the kernel would break the graph of a compiled model
    score = score_at_once_ if fits else score_in_parts_
    for rows, (loss, likelihood, likeliest) in score(logits, classes, targets, options):
        totals[0] += loss
        totals[1] += likelihood
        if guesses is not None and likeliest is not None:
            guesses[rows] = likeliest


def score_by_kernel_(
    logits: Tensor, classes: int, targets: Tensor, options: LossOptions
) -> list[tuple[slice, LossesOfRows]]:
    """Score all rows with one Triton kernel, which needs no float32 copy of the logits."""
    kernel = import_object("zoo.devices.logits_kernel:cross_entropy_")  # imported only here, since that needs Triton
    return [(slice(None), kernel(logits, classes, targets, options.label_smoothing, options.guess, options.gradient))]


def score_in_parts_(
    logits: Tensor, classes: int, targets: Tensor, options: LossOptions
) -> list[tuple[slice, LossesOfRows]]:
    """Score some rows at a time, so that no more than `exact_at_once` logits are in float32."""
    known, parts = logits[:, :classes], split(len(logits), classes, exact_at_once(logits.device))
    scored = [(rows, score_(known[rows], targets[rows], options)) for rows in parts]
    if logits.shape[1] > classes:  # the padding is 0 already unless states are infinite or NaN
        logits[:, classes:] = 0
    return scored


score_at_once_ = with_fallback(score_by_kernel_, score_in_parts_)


def write_product_(total: Tensor, gradients: Tensor, states: Tensor, add: bool) -> None:
    """Compute total = gradients^T states, or total += gradients^T states if `add`.

    The shapes are (classes, width) = (rows, classes)^T (rows, width).

    A GPU's product writes float32 directly. Elsewhere the product is rounded to its inputs' dtype before it is added,
    and computed for some classes at a time, since all of it would be as large as the weight.
    """
    if writes_wider(total, states):
        if add:
            torch.addmm(total, gradients.T, states, out_dtype=total.dtype, out=total)
        else:
            torch.mm(gradients.T, states, out_dtype=total.dtype, out=total)
        return
    for classes in split(total.shape[0], total.shape[1], 8 * exact_at_once(total.device)):
        write_weight_gradient_(total[classes], gradients[:, classes], states, add)


def add_sums_(total: Float[Tensor, " padded"], gradients: Float[Tensor, "rows padded"]) -> None:
    """Add the sum of the rows to `total`, some rows at a time: to sum in a wider dtype, a CPU casts its whole input."""
    for rows in split(len(gradients), len(total), exact_at_once(gradients.device)):
        total += gradients[rows].sum(0, dtype=total.dtype)


def writes_wider(total: Tensor, states: Tensor) -> bool:
    """Whether the matrix product writes a wider dtype than its inputs'; torch 2.11 cannot compile that."""
    return total.device.type == "cuda" and total.dtype != states.dtype and not torch.compiler.is_compiling()


def split(rows: int, width: int, limit: int) -> list[slice]:
    """Split the rows of a matrix into as few equal parts as possible, each of about `limit` entries at most."""
    parts = -(-rows * width // limit) or 1
    step = -(-rows // min(parts, max(1, rows))) or 1
    return [slice(start, start + step) for start in range(0, max(1, rows), step)]
