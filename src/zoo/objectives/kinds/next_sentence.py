"""Tell whether the second part of a pair follows the first."""

from typing import ClassVar

from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.objective import objectives


@objectives.register("next_sentence")
class NextSentence(DocumentLabel):
    """log p(is next | A, B): 0 where B follows A, 1 where it comes from another document, or stood before A.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2; `order`: Lan et al. 2020 (ALBERT),
    arXiv:1909.11942, section 3.1.

    Args:
        label_smoothing: the share of probability that is spread evenly over both answers.
        order: tell sentence order: in half of the pairs the two parts are exchanged, and none is drawn from elsewhere.
    """

    head: ClassVar[str] = "next_sentence"
    forms: ClassVar[tuple[str, ...]] = ("sentences",)
    causal: ClassVar[bool | None] = False
    why: ClassVar[str] = "its answer is read from the first place, which in a decoder sees nothing of the pair"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.0, order: bool = False) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        self.form_options = {"order": order}
