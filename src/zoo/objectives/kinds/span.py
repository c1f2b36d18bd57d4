"""Objective `span`: find the span of a context that answers a question."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.data.columns.answers import describe_unanswered
from zoo.data.ids import ANSWERS, Lengths, Roles
from zoo.examples.example import Example
from zoo.examples.form import Limits
from zoo.examples.forms.span import Span
from zoo.examples.randomness import Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Objective, Obstacle, Term, Weights, objectives
from zoo.registry import refuse_below

# bits of a position's target: the answer begins here, ends here, the document begins here, this is part of the context
BEGINS, ENDS, FIRST, CONTEXT = 1, 2, 4, 8
ALLOW = "objective: {span: {no_answer: true}}"


@objectives.register("span")
class AnswerSpan(Objective):
    """(log p(begin) + log p(end)) / 2, each a softmax over all positions of a document; counted per document.

    For a window without the answer, and a question without one, both targets are the first position.
    Source: Devlin et al. 2019, arXiv:1810.04805, sections 4.2 and 4.3.

    Args:
        stride: maximum distance between the starts of consecutive windows of a long context (tokens).
        no_answer: whether a question may have no answer, as in SQuAD 2.0; else the most likely span is always given.
    """

    head = "span"
    forms = ("span",)
    whole = True
    causal = False
    why = "where an answer begins depends on what follows, which a decoder does not see"
    metrics = ("f1", "exact_match")

    def __init__(self, *, weight: float = 1.0, stride: int = 128, no_answer: bool = False) -> None:
        super().__init__(weight=weight)
        refuse_below(1, stride=stride)
        self.form_options: dict[str, Any] = {"stride": stride}
        self.stride, self.no_answer = stride, no_answer
        self.nonempty_lists = {} if no_answer else {ANSWERS: ALLOW}

    def obstacle_in(self, lengths: Lengths, limits: Limits) -> Obstacle | None:
        answered = np.diff(lengths.offsets[ANSWERS][:])
        lacking = np.flatnonzero(answered == 0)
        if self.no_answer or not len(lacking):
            return None
        return Obstacle(describe_unanswered(len(lacking), len(answered), ALLOW), int(lacking[0]))

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        assert example.marked is not None and example.truth is not None, "a form of contexts marks them"
        targets = np.zeros(len(example.tokens), dtype=np.int64)
        targets[example.marked] += CONTEXT
        targets[0] += FIRST
        targets[example.truth[0]] += BEGINS
        targets[example.truth[1]] += ENDS
        example.targets[self.head] = targets

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        logits = scores.logits()
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        with torch.autocast(exact.device.type, enabled=False):
            total = span_loss(exact, targets)
        return Term(total, self.count(targets), self.weight, total)

    def count(self, targets: Int[Tensor, "*places"]) -> Tensor:
        return ((targets >= 0) & (targets & FIRST > 0)).sum()


def span_loss(logits: Float[Tensor, "batch length 2"], targets: Int[Tensor, "batch length"]) -> Float[Tensor, ""]:
    """Sum over documents of (logsumexp_i b_i - b_begin + logsumexp_i e_i - e_end) / 2, i over its own positions."""
    known = targets >= 0
    number = ((targets & FIRST > 0) & known).cumsum(1) * known  # of each position's document, from 1; 0: padding
    every = torch.arange(1, most_in_row(number) + 1, device=targets.device)
    its = number[:, None, :] == every[:, None]  # (batch, documents, length)
    there = its.any(-1, keepdim=True)
    right = torch.stack([(targets & bit > 0) & known for bit in (BEGINS, ENDS)], -1)
    # a document number that does not occur keeps all positions, since the gradient of a fully masked logsumexp is NaN
    sums = logits[:, None].masked_fill(~(its | ~there)[..., None], -torch.inf).logsumexp(2)  # (batch, documents, 2)
    losses = torch.where(there, sums, 0).sum() - torch.where(right, logits, 0).sum()
    return losses / 2


def most_in_row(number: Int[Tensor, "batch length"]) -> int:
    """Upper bound of the documents per row: exact on a CPU; on a GPU, without waiting, as many as a row can hold."""
    if number.device.type == "cpu" and number.numel():  # saves work: rows hold far fewer documents than would fit
        return max(1, int(number.amax()))
    return number.shape[1] // Span.min_length + 1
