"""Objective `captioning`: predict each token of a caption from the tokens before it and the image."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.models.heads.scores import Scores
from zoo.objectives.next_token import NextToken
from zoo.objectives.objective import Term, Weights, objectives

READ = "decoder.cross"  # the decoder's attention to the image


@objectives.register("captioning")
class Captioning(NextToken):
    """sum_i log p(y_i | y_1 … y_{i-1}, image), with teacher forcing and label smoothing.

    Source: Xu et al. 2015, arXiv:1502.03044; label smoothing: Vaswani et al. 2017, arXiv:1706.03762, section 5.4.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
        coverage: weight of a penalty on attention that is uneven over the cells of an image, see `unevenness`.
    """

    forms = ("image_text",)
    why = "the text is written from left to right"
    metrics = ("bleu-4", "bleu-1", "bleu-2", "bleu-3", "bleu", "chrf", "sequence_accuracy", "perplexity")

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.1, coverage: float = 0.0) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        if not 0 <= coverage < math.inf:
            raise ValueError(f"objective captioning: coverage must be a finite number of at least 0, got {coverage}")
        self.coverage, self.reads_weights = coverage, (READ,) if coverage else ()

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        term = super().term(scores, targets)
        layers = [layer for layer in (weights or {}).get(READ, ()) if layer is not None]
        if not self.coverage or not layers:
            return term
        uneven = sum(unevenness(layer, targets >= 0) for layer in layers)
        return term._replace(sum=term.sum + self.coverage / len(layers) * uneven)


def unevenness(
    weights: Float[Tensor, "batch heads words places"], written: Bool[Tensor, "batch words"]
) -> Float[Tensor, ""]:
    """sum_i (c_i - mean c)^2 over the cells i of each image, where c_i = sum_t a_ti is its attention from all words.

    Its gradient is that of sum_i (1 - c_i)^2, Xu et al. 2015, arXiv:1502.03044, equation 14, since sum_i c_i is fixed
    (attention weights sum to 1); unlike that, it is 0 for even attention. Heads are averaged.

    Args:
        weights: attention weights of one layer.
        written: whether a position holds a word that is scored.
    """
    exact = weights.to(torch.promote_types(weights.dtype, torch.float32))
    read = (exact.mean(1) * written[..., None]).sum(1)  # c: (batch, places)
    return (read - read.mean(1, keepdim=True)).square().sum()
