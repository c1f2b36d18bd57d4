"""Objective `similarity`: classify a pair of texts independently of their order."""

from jaxtyping import Int
from torch import Tensor

from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.classification import Classification
from zoo.objectives.objective import Term, Weights, objectives

ORDERS = 2  # examples per pair: each text is the first one in one of them


@objectives.register("similarity")
class Similarity(Classification):
    """log p(class | text 1, text 2), from the sum of a decoder's last hidden states over both orders of the texts.

    The task's `labels` sets the kind of labels, as for classification.
    Source: Radford et al. 2018 (GPT), section 3.3 and figure 1.

    Args:
        label_smoothing: probability mass that is spread evenly over the classes.
        class_weights: weight of each class in the loss, by name; 1 for the others.
    """

    head = "similarity"
    forms = ("both_orders",)
    causal = True
    why = "an encoder sees both texts at each position, so it need not read both orders"
    places_per_target = ORDERS

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        return super().term(add_orders(scores), targets, weights)


def add_orders(scores: Scores) -> Scores:
    """Add the hidden states of both orders of each pair, which are adjacent."""
    orders = scores.states.reshape(-1, ORDERS, scores.states.shape[-1])
    return scores.with_states(orders.sum(1))
