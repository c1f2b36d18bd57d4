"""Cross entropy that never holds a float32 copy of all its logits."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

# what one chunk may hold in float32: small enough for a CPU's cache, large enough to keep a GPU busy
ELEMENTS_ON_CPU = 2**20
ELEMENTS_ON_GPU = 2**26


def cross_entropy(
    logits: Float[Tensor, "*places n"], targets: Int[Tensor, "*places"], label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """sum over places of -sum_k q(k) log p(k), with q(k) = (1 - e) [k = target] + e / n; a target of -1 costs nothing.

    Float32 inside (float64 for float64 logits), in chunks of rows; the gradient has the logits' dtype.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4; Szegedy et al. 2015, arXiv:1512.00567, section 7.
    """
    rows = logits.reshape(-1, logits.shape[-1])
    total: Tensor = CrossEntropy.apply(rows, targets.reshape(-1), label_smoothing)  # type: ignore[no-untyped-call]
    return total


class CrossEntropy(torch.autograd.Function):
    """The sum and its gradient, softmax - q, from the log-sum-exp that the forward pass keeps for each row."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
        normalizers = torch.empty(logits.shape[0], dtype=exact, device=logits.device)
        total = torch.zeros((), dtype=exact, device=logits.device)
        for rows in chunks(logits):
            scores, answers = logits[rows].to(exact), targets[rows]
            normalizers[rows] = scores.logsumexp(dim=-1)
            of_answers = scores.gather(-1, answers.clamp_min(0).unsqueeze(-1)).squeeze(-1)
            losses = normalizers[rows] - (1 - label_smoothing) * of_answers
            if label_smoothing:
                losses -= label_smoothing * scores.mean(dim=-1)
            # `where`, not a product: what stands at an unscored place may be infinite
            total += torch.where(answers >= 0, losses, 0).sum()
        ctx.save_for_backward(logits, targets, normalizers)
        ctx.label_smoothing = label_smoothing
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, normalizers = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        for rows in chunks(logits):
            answers = targets[rows].unsqueeze(-1)
            differences = logits[rows].to(normalizers.dtype, copy=True)
            differences.sub_(normalizers[rows].unsqueeze(-1)).exp_()
            if ctx.label_smoothing:
                differences -= ctx.label_smoothing / logits.shape[-1]
            right = torch.full_like(answers, ctx.label_smoothing - 1, dtype=differences.dtype)
            differences.scatter_add_(-1, answers.clamp_min(0), right)
            gradient[rows] = differences.mul_(gradients[0]).masked_fill_(answers < 0, 0).to(logits.dtype)
        return gradient, None, None


def chunks(logits: Tensor) -> list[slice]:
    """The rows of a matrix of logits, some at a time; shapes alone decide, so a GPU is never waited for."""
    limit = ELEMENTS_ON_CPU if logits.device.type == "cpu" else ELEMENTS_ON_GPU
    step = max(1, limit // max(1, logits.shape[-1]))
    return [slice(start, start + step) for start in range(0, logits.shape[0], step)]
