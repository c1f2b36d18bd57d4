"""Say what two texts have to do with each other, whichever comes first."""

from jaxtyping import Int
from torch import Tensor

from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.classification import Classification
from zoo.objectives.objective import Term, Weights, objectives

ORDERS = 2


@objectives.register("similarity")
class Similarity(Classification):
    """log p(class | text 1, text 2), of a decoder that reads both orders: their last states are added, then mapped.

    `labels` of the task says what a label is, as for classification.
    Source: Radford et al. 2018 (GPT), section 3.3 and figure 1.

    Args:
        label_smoothing: the share of probability that is spread evenly over the classes.
        class_weights: by class, how much a pair of it counts; a class that is not named counts 1.
    """

    head = "similarity"
    forms = ("both_orders",)
    causal = True
    why = "an encoder sees both texts at each position, so it need not read both orders"
    places_each = ORDERS

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        return super().term(added(scores), targets, weights)


def added(scores: Scores) -> Scores:
    """What is said of pairs, from what is said of both of their orders, one after the other."""
    orders = scores.states.reshape(-1, ORDERS, scores.states.shape[-1])
    return scores.of_others(orders.sum(1))
