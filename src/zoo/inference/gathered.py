"""What metrics compare, gathered pass by pass: the answers of an objective, and what the data says."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.batches.order import Examples
from zoo.blocks.documents import Documents
from zoo.data.ids import ANSWERS
from zoo.data.ids import CONTEXT as CONTEXT_COLUMN
from zoo.data.store.split import Split
from zoo.data.tokenizers.placed import place_tokens
from zoo.inference.loaded import Loaded
from zoo.inference.spans import WindowAnswer, best_span, choose_answer, cut_out
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Term
from zoo.objectives.span import CONTEXT, FIRST, AnswerSpan

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


def spans(passed: Passed) -> list[Compared]:
    """The best span of each window, beside the number of its document and its own."""
    targets, logits = passed.targets.cpu().numpy(), passed.scores.logits().float().cpu().numpy()
    names, found = iter(passed.part.examples), []
    for said, known in zip(logits, targets, strict=True):
        firsts = np.flatnonzero((known >= 0) & (known & FIRST > 0))
        for first, behind in zip(firsts, [*firsts[1:], int((known >= 0).sum())], strict=True):
            _, document, number = next(names)
            context = np.flatnonzero(known[first:behind] & CONTEXT)
            found.append(((document, number), best_span(said[first:behind], context, 0)))
    return found


GATHERED: dict[str, Callable[[Passed], list[Compared]]] = {  # by what metrics need
    "classes": answers,
    "numbers": answers,
    "sets": sets,
    "tags": tags,
    "answers": spans,
}


class About(NamedTuple):
    """What was measured."""

    loaded: Loaded
    examples: Examples
    split: Split


def as_given(needs: str, compared: Sequence[Compared], about: About) -> dict[str, Any]:
    """What a metric is given of all that was gathered for it."""
    if needs == "answers":
        return answers_found(compared, about)
    labels = about.split.labels  # the names of classes and tags, by number
    predictions, references = [predicted for predicted, _ in compared], [true for _, true in compared]
    if needs != "tags":
        known = {"classes": len(labels)} if needs == "classes" else {}
        return {"predictions": predictions, "references": references, **known}
    named = ([[labels[tag] for tag in one] for one in side] for side in (predictions, references))
    return dict(zip(("predictions", "references"), named, strict=True))


def answers_found(windows: Sequence[Compared], about: About) -> dict[str, list[Any]]:
    """The answer that the windows of each question show together, and those that are right."""
    by_document: dict[int, list[WindowAnswer]] = {}
    numbers: dict[int, list[int]] = {}
    for (document, number), window in windows:
        by_document.setdefault(document, []).append(window)
        numbers.setdefault(document, []).append(number)
    objective = about.loaded.mixture.members["span"]
    assert isinstance(objective, AnswerSpan)
    predictions, references = [], []
    for document, found in sorted(by_document.items()):
        row, plans = about.split.rows[document], about.examples.plan(0, [document])
        moved = [window.moved(plans[n].pieces[-1].start) for window, n in zip(found, numbers[document], strict=True)]
        best = choose_answer(moved, objective.no_answer)
        (tokens,) = place_tokens(about.loaded.tokenizer, [row[CONTEXT_COLUMN]])
        start, end = (0, 0) if best is None else cut_out(row[CONTEXT_COLUMN], tokens, best)
        predictions.append(row[CONTEXT_COLUMN][start:end])
        references.append(list(row[ANSWERS]["text"]) or [""])
    return {"predictions": predictions, "references": references}
