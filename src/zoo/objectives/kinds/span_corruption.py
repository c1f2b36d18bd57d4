"""Objective `span_corruption`: predict the spans that are missing from a text."""

import math

from zoo.objectives.next_token import NextToken
from zoo.objectives.objective import objectives


@objectives.register("span_corruption")
class SpanCorruption(NextToken):
    """sum_i log p(y_i | y_1 … y_{i-1}, x): x is a text with missing spans, y the missing spans, both with sentinels.

    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 3.1.4.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
        share: fraction of a text's tokens that are missing.
        mean_span: mean length of a missing span (tokens).
        sentinels: number of tokens `<extra_id_0>`, `<extra_id_1>`, … of the tokenizer, and so the most missing spans
            of an example.
    """

    forms = ("corrupted",)
    why = "the missing spans are written from left to right"
    metrics = ("perplexity",)
    assumed_on_import = False

    def __init__(
        self,
        *,
        weight: float = 1.0,
        label_smoothing: float = 0.0,
        share: float = 0.15,
        mean_span: float = 3.0,
        sentinels: int = 100,
    ) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        if not 0 < share < 1:
            raise ValueError(f"objective span_corruption: share must lie between 0 and 1, got {share}")
        if not 1 <= mean_span < math.inf:
            raise ValueError(f"objective span_corruption: mean_span must be a number of at least 1, got {mean_span}")
        if sentinels < 1:
            raise ValueError(f"objective span_corruption: sentinels must be at least 1, got {sentinels}")
        self.form_options = {"share": share, "mean_span": mean_span, "sentinels": sentinels}
        self.sentinels = sentinels
