"""Objective `translation`: predict each token of the target from the tokens before it and the source."""

from zoo.objectives.next_token import NextToken
from zoo.objectives.objective import objectives


@objectives.register("translation")
class Translation(NextToken):
    """sum_i log p(y_i | y_1 … y_{i-1}, x), with teacher forcing and label smoothing.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.4.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
    """

    forms = ("source_target",)
    why = "the target is written from left to right"
    metrics = ("bleu", "chrf", "sequence_accuracy", "perplexity")

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.1) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
