"""Objective `next_sentence`: predict whether the second part of a pair follows the first."""

from zoo.data.ids import Lengths
from zoo.examples.form import Limits
from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.objective import Obstacle, objectives


@objectives.register("next_sentence")
class NextSentence(DocumentLabel):
    """log p(is next | A, B): class 0 if B follows A, 1 if it comes from another document (with `order`: precedes A).

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2; `order`: Lan et al. 2020 (ALBERT),
    arXiv:1909.11942, section 3.1.

    Args:
        label_smoothing: probability mass that is spread evenly over both answers.
        order: predict sentence order: half of the pairs are swapped, and none is drawn from another document.
    """

    head = "next_sentence"
    forms = ("sentences",)
    causal = False
    why = "its answer is read at the first position, which in a decoder sees nothing of the pair"
    metrics = ("accuracy",)

    def __init__(self, *, weight: float = 1.0, label_smoothing: float = 0.0, order: bool = False) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        self.order, self.form_options = order, {"order": order}

    def obstacle_in(self, lengths: Lengths, limits: Limits) -> Obstacle | None:
        if self.order or lengths.documents != 1:
            return None
        needs = "half of next_sentence's pairs take their second part from another document"
        where = "source.documents sets where a document ends, source.validation the fraction of train that is held out"
        return Obstacle(f"this is the only document, and {needs}; {where}", 0)
