"""What metrics compare, gathered pass by pass: the answers of an objective, and what the data says."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.blocks.documents import Documents
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Term

Compared = tuple[Any, Any]  # predicted, true


class Passed(NamedTuple):
    """What one objective said in one pass.

    Args:
        part: the rows that were read. targets: what stands at the scored places, -1 where nothing does.
        term: its loss. scores: what its head said.
    """

    part: MicroBatch
    targets: Tensor
    term: Term
    scores: Scores


def answers(passed: Passed) -> list[Compared]:
    """Predicted and true answer of each scored place: a class, or a number."""
    assert passed.term.guesses is not None, "an objective with metrics of single answers guesses"
    targets = passed.targets
    scored = targets.isfinite() if targets.is_floating_point() else targets >= 0
    return list(zip(passed.term.guesses[scored].tolist(), targets[scored].tolist(), strict=True))


def sets(passed: Passed) -> list[Compared]:
    """Predicted and true classes of each document, 0 or 1 by class."""
    assert passed.term.guesses is not None, "an objective with metrics of sets guesses"
    known = (passed.targets >= 0).all(-1)
    return list(zip(passed.term.guesses[known].tolist(), passed.targets[known].tolist(), strict=True))


def tags(passed: Passed) -> list[Compared]:
    """Predicted and true tags of each document, of its scored places in their order."""
    documents = passed.part.inputs["documents"]
    assert isinstance(documents, Documents)
    numbers = documents.numbers
    rows = torch.arange(len(numbers), device=numbers.device)[:, None] * (numbers.shape[1] + 1)
    _, sizes = torch.unique_consecutive((rows + numbers)[passed.targets >= 0], return_counts=True)
    pairs, found = iter(answers(passed)), []
    for size in sizes.tolist():
        predicted, true = zip(*(next(pairs) for _ in range(size)), strict=True)
        found.append((list(predicted), list(true)))
    return found


GATHERED: dict[str, Callable[[Passed], list[Compared]]] = {  # by what metrics need
    "classes": answers,
    "numbers": answers,
    "sets": sets,
    "tags": tags,
}


def as_given(needs: str, compared: Sequence[Compared], labels: Sequence[str]) -> dict[str, Any]:
    """What a metric is given of all that was gathered for it.

    Args:
        labels: the names of classes and tags, by number.
    """
    predictions, references = [predicted for predicted, _ in compared], [true for _, true in compared]
    if needs != "tags":
        known = {"classes": len(labels)} if needs == "classes" else {}
        return {"predictions": predictions, "references": references, **known}
    named = ([[labels[tag] for tag in one] for one in side] for side in (predictions, references))
    return dict(zip(("predictions", "references"), named, strict=True))
