"""Objective `choice`: choose the text that continues a context."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from zoo.data.columns.lists import MOST_CHOICES
from zoo.data.ids import CHOICES, CONTEXT, Lengths, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Limits
from zoo.examples.forms.choices import Choices
from zoo.examples.randomness import Randomness
from zoo.examples.template import ENCODED_PAIR, overhead
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Objective, Obstacle, Term, Weights, objectives

ALLOW = "objective: {choice: {any_number: true}}"
TRUNCATE = "objective: {choice: {truncate: true}}"
RIGHT, FIRST = 1, 2  # bits of a choice's target: it is the right one, it is the first one of its example


@objectives.register("choice")
class RightChoice(Objective):
    """log p(right choice), with a softmax over the scores of all choices of an example; counted per example.

    All choices of an example lie in one row. Source: Radford et al. 2018 (GPT), figure 1, "Multiple Choice"; Devlin et
    al. 2019, arXiv:1810.04805, section 4.4.

    Args:
        label_smoothing: probability mass that is spread evenly over the choices of an example.
        any_number: whether the number of choices may differ between rows of data.
        truncate: whether to truncate a context and a choice that are too long together; else they are refused.
    """

    head = "choice"
    forms = (CHOICES,)
    whole = True
    metrics = ("accuracy",)
    labeled = True
    measured_metrics = ("accuracy",)

    def __init__(
        self, *, weight: float = 1.0, label_smoothing: float = 0.0, any_number: bool = False, truncate: bool = False
    ) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        self.equal_length_lists = {} if any_number else {CHOICES: ALLOW}
        self.truncate = truncate

    def obstacle_in(self, lengths: Lengths, limits: Limits) -> Obstacle | None:
        counts = np.diff(lengths.lists[CHOICES][:])
        examples = np.full_like(counts, Choices.min_length) if self.truncate else longest_examples(lengths, counts)
        needed = int((counts * examples).max(initial=0))
        beyond = np.flatnonzero(counts * Choices.min_length > limits.row)
        if len(beyond):
            first = int(beyond[0])
            said = f"a sequence of {limits.row} tokens is too short for its {counts[first]} choices"
            return Obstacle(f"{said}; 'length' must be at least {needed}", first)
        return None if self.truncate else too_long(counts, examples, needed, limits)

    def scored(self, plan: ExamplePlan) -> int:
        return len(plan.pieces) // 2

    def capacity(self, length: int) -> int | None:
        return max(1, length // Choices.min_length)

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        targets = np.zeros(len(example.documents), dtype=np.int64)  # one per choice
        assert isinstance(example.label, int), "the label of choices is the number of one"
        targets[0] += FIRST
        targets[example.label] += RIGHT
        example.places[self.head] = example.summaries
        example.targets[self.head] = targets if example.label >= 0 else np.full_like(targets, -1)

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        logits = scores.logits()[..., 0]
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        with torch.autocast(exact.device.type, enabled=False):
            total, likelihood = choice_loss(exact, targets, self.label_smoothing)
        right = count_right(scores.exact().detach()[..., 0], targets)  # as predictions rank them
        count = self.count(targets)
        return Term(total, count, self.weight, likelihood, measured={"accuracy": (right, count)})

    def count(self, targets: Int[Tensor, "*places"]) -> Tensor:
        return ((targets >= 0) & (targets & FIRST > 0)).sum()


def longest_examples(lengths: Lengths, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Length of each document's context with its longest choice (tokens, special ones included), from offsets alone.

    Args:
        counts: number of choices per document; a document without choices gets length 0.
    """
    # both templates of the form have the same number of special tokens
    begins, choices = lengths.lists[CHOICES][:], np.diff(lengths.offsets[CHOICES][:])
    # for a document without choices `reduceat` returns another one's value, which `where` discards
    longest = np.maximum.reduceat(np.append(choices, 0), begins[:-1]) if len(counts) else counts
    return np.where(counts > 0, np.diff(lengths.offsets[CONTEXT][:]) + longest + overhead(ENCODED_PAIR), 0)


def too_long(counts: NDArray[np.int64], examples: NDArray[np.int64], needed: int, limits: Limits) -> Obstacle | None:
    """The first document that has a choice too long to fit beside its context; None: all fit.

    Args:
        counts: number of choices per document.
        examples: length of its context with the longest choice, per document (tokens).
        needed: the row length that has room for every document (tokens).
    """
    beyond = np.flatnonzero(examples > np.minimum(limits.longest, limits.row // np.maximum(counts, 1)))
    if not len(beyond):
        return None
    first = int(beyond[0])
    said = f"the context and its longest choice are {examples[first]} tokens long, special tokens included"
    if limits.longest < limits.row // counts[first]:  # else the row is too short
        most = (
            f"an example has at most {limits.longest} (the smaller of the task's 'longest' and the model's max_length)"
        )
    else:
        most = (
            f"a sequence of {limits.row} holds {counts[first]} examples of {limits.row // counts[first]}; 'length' "
            f"must be at least {needed} for all of them"
        )
        if limits.longest < (longest := int(examples.max())):  # else a longer row would be refused for this
            most += f", and 'longest' and the model's max_length at least {longest}"
    return Obstacle(f"{said}, and {most}; to truncate the longer text of each, set {TRUNCATE}", first)


def choice_loss(
    logits: Float[Tensor, " choices"], targets: Int[Tensor, " choices"], label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum over examples of logsumexp_k s_k - s_right; returned with and without label smoothing.

    With label smoothing e, s_right is replaced by (1 - e) s_right + e mean_k s_k.
    """
    begins, its = example_masks(targets)
    shown = windows(logits, its.shape[1])
    # rows that start no example keep all entries, since the gradient of a fully masked logsumexp is NaN
    shown = shown.masked_fill(~its & begins[:, None], -torch.inf)
    chosen = torch.where((targets >= 0) & (targets & RIGHT > 0), logits, 0).sum()
    losses = torch.where(begins, shown.logsumexp(1), 0).sum() - chosen
    smoothed = losses
    if label_smoothing:
        its = its & begins[:, None]
        mean = torch.where(its, shown, 0).sum(1) / its.sum(1).clamp_min(1)
        smoothed = losses + label_smoothing * (chosen - mean.sum())
    return smoothed, losses.detach()


def count_right(logits: Float[Tensor, " choices"], targets: Int[Tensor, " choices"]) -> Int[Tensor, ""]:
    """Number of examples whose right choice has the highest score."""
    begins, its = example_masks(targets)
    best = windows(logits, its.shape[1]).masked_fill(~its, -torch.inf).argmax(1)
    is_right = (targets >= 0) & (targets & RIGHT > 0)
    return ((best == windows(is_right.int(), its.shape[1]).argmax(1)) & begins).sum()


def example_masks(targets: Int[Tensor, " choices"]) -> tuple[Bool[Tensor, " choices"], Bool[Tensor, "choices most"]]:
    """Return where examples begin and, for `windows`, which entries belong to the same example."""
    known = targets >= 0
    begins = (targets & FIRST > 0) & known
    example = begins.cumsum(0) * known  # the number of each choice's example, from 1; 0: padding
    return begins, windows(example, min(len(targets), MOST_CHOICES)) == example[:, None]


def windows(values: Shaped[Tensor, " choices"], most: int) -> Shaped[Tensor, "choices most"]:
    """Return windows: row i has the values of choices i to i + most - 1, with 0 past the end."""
    return F.pad(values, (0, most - 1)).unfold(0, most, 1)
