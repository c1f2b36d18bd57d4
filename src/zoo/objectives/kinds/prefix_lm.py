"""Objective `prefix_lm`: predict the rest of a text whose beginning is the source."""

from zoo.objectives.next_token import NextToken
from zoo.objectives.objective import objectives


@objectives.register("prefix_lm")
class PrefixLM(NextToken):
    """sum_i log p(y_i | y_1 … y_{i-1}, x): x is the beginning of a text up to a random position, y the rest.

    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 3.3.1; Liu et al. 2018, arXiv:1801.10198.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
    """

    forms = ("prefix",)
    why = "the rest of a text is written from left to right"
    metrics = ("perplexity",)
    assumed_on_import = False
