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


def classes(passed: Passed) -> list[Compared]:
    """Predicted and true class of each scored place."""
    assert passed.term.guesses is not None, "an objective with metrics of classes has an accuracy"
    scored = passed.targets >= 0
    return list(zip(passed.term.guesses[scored].tolist(), passed.targets[scored].tolist(), strict=True))


def tags(passed: Passed) -> list[Compared]:
    """Predicted and true tags of each document, of its scored places in their order."""
    documents = passed.part.inputs["documents"]
    assert isinstance(documents, Documents)
    numbers = documents.numbers
    rows = torch.arange(len(numbers), device=numbers.device)[:, None] * (numbers.shape[1] + 1)
    _, sizes = torch.unique_consecutive((rows + numbers)[passed.targets >= 0], return_counts=True)
    pairs, found = iter(classes(passed)), []
    for size in sizes.tolist():
        predicted, true = zip(*(next(pairs) for _ in range(size)), strict=True)
        found.append((list(predicted), list(true)))
    return found


GATHERED: dict[str, Callable[[Passed], list[Compared]]] = {"classes": classes, "tags": tags}  # by what metrics need


def as_given(needs: str, compared: Sequence[Compared], labels: Sequence[str]) -> dict[str, Any]:
    """What a metric is given of all that was gathered for it.

    Args:
        labels: the names of classes and tags, by number.
    """
    predictions, references = [predicted for predicted, _ in compared], [true for _, true in compared]
    if needs == "classes":
        return {"predictions": predictions, "references": references, "classes": len(labels)}
    named = ([[labels[tag] for tag in one] for one in side] for side in (predictions, references))
    return dict(zip(("predictions", "references"), named, strict=True))
