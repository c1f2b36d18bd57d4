"""Predicted and true answers for metrics, gathered from each forward pass."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.batches.order import Examples, PackedRow
from zoo.blocks.rows.documents import Documents
from zoo.data.ids import ANSWERS
from zoo.data.ids import CONTEXT as CONTEXT_COLUMN
from zoo.data.store.split import Split
from zoo.data.tokenizers.token_spans import encode_with_spans
from zoo.examples.example import ExamplePlan
from zoo.inference.loaded import Loaded
from zoo.inference.spans import WindowAnswer, answer_from_windows, best_span
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.span import CONTEXT, FIRST, AnswerSpan
from zoo.objectives.objective import Objective, Term

AnswerPair = tuple[Any, Any]  # predicted, true; from `span_pairs`: (document, example number), best span


class ForwardResult(NamedTuple):
    """One objective's results of one forward pass.

    Args:
        rows, part: the rows, and the micro-batch made of them.
        targets: of its scored positions or documents, as in `MicroBatch.targets`.
        term: its loss.
        scores: of its head.
    """

    objective: Objective
    rows: Sequence[PackedRow]
    part: MicroBatch
    targets: Tensor
    term: Term
    scores: Scores

    @property
    def plans(self) -> list[ExamplePlan]:
        """The examples, in the order of `part.examples`."""
        return [plan for row in self.rows for plan in row.plans]

    @property
    def places(self) -> NDArray[np.int64] | None:
        """Per target, the first of its flat scored positions, -1 if unused; None: every position is scored."""
        places = self.part.inputs.get("places", {})
        if not isinstance(places, dict) or self.objective.head not in places:
            return None
        by_target = places[self.objective.head].view(-1, self.objective.places_per_target)
        found: NDArray[np.int64] = by_target[:, 0].cpu().numpy()
        return found

    def filled(self) -> NDArray[np.bool_]:
        """Whether each target of a head with a capacity is in use."""
        places = self.places
        assert places is not None, "a head with a capacity is asked for positions"
        return places >= 0

    def owners(self) -> NDArray[np.int64]:
        """Per target, the index of its example in `plans`; -1 at padding and unused targets."""
        documents = self.part.inputs["documents"]
        assert isinstance(documents, Documents)
        owner = np.full(documents.numbers.shape, -1, dtype=np.int64)  # (rows, length)
        numbers = iter(range(len(self.plans)))
        for at, row in zip(owner, self.rows, strict=False):
            taken = np.repeat([next(numbers) for _ in row.plans], [plan.length for plan in row.plans])
            at[: len(taken)] = taken
        flat, places = owner.reshape(-1), self.places
        return flat if places is None else np.where(places >= 0, flat[places], -1)


def answer_pairs(result: ForwardResult) -> list[AnswerPair]:
    """Predicted and true answer of each scored position or document: a class, or a number."""
    assert result.term.guesses is not None, "an objective with metrics of single answers guesses"
    targets = result.targets
    scored = targets.isfinite() if targets.is_floating_point() else targets >= 0
    return list(zip(result.term.guesses[scored].tolist(), targets[scored].tolist(), strict=True))


def set_pairs(result: ForwardResult) -> list[AnswerPair]:
    """Predicted and true classes of each document, as 0 or 1 per class."""
    assert result.term.guesses is not None, "an objective with metrics of sets guesses"
    known = (result.targets >= 0).all(-1)
    return list(zip(result.term.guesses[known].tolist(), result.targets[known].tolist(), strict=True))


def tag_pairs(result: ForwardResult) -> list[AnswerPair]:
    """Predicted and true tags of each document, at its scored positions in order."""
    scored = (result.targets >= 0).flatten().cpu().numpy()
    _, sizes = np.unique(result.owners()[scored], return_counts=True)
    pairs, found = iter(answer_pairs(result)), []
    for size in sizes.tolist():
        predicted, true = zip(*(next(pairs) for _ in range(size)), strict=True)
        found.append((list(predicted), list(true)))
    return found


def span_pairs(result: ForwardResult) -> list[AnswerPair]:
    """The best span of each window, with (document, number) of the window's example."""
    targets, logits = result.targets.cpu().numpy(), result.scores.exact().cpu().numpy()
    names, found = iter(result.part.examples), []
    for row_logits, known in zip(logits, targets, strict=True):
        firsts = np.flatnonzero((known >= 0) & (known & FIRST > 0))  # where the windows of the row begin
        for first, stop in zip(firsts, [*firsts[1:], int((known >= 0).sum())], strict=True):
            _, document, number = next(names)
            context = np.flatnonzero(known[first:stop] & CONTEXT)
            found.append(((document, number), best_span(row_logits[first:stop], context, 0)))
    return found


class EvaluatedSplit(NamedTuple):
    """What is evaluated."""

    loaded: Loaded
    examples: Examples
    split: Split


def two_lists(compared: Sequence[AnswerPair], evaluated: EvaluatedSplit) -> dict[str, list[Any]]:
    """Predictions and references in two lists."""
    return {"predictions": [predicted for predicted, _ in compared], "references": [true for _, true in compared]}


def class_numbers(compared: Sequence[AnswerPair], evaluated: EvaluatedSplit) -> dict[str, Any]:
    """Predicted and true class numbers, and the number of classes."""
    return {**two_lists(compared, evaluated), "classes": len(evaluated.split.labels)}


def tag_names(compared: Sequence[AnswerPair], evaluated: EvaluatedSplit) -> dict[str, list[Any]]:
    """Predicted and true tags by name."""
    names, lists = evaluated.split.labels, two_lists(compared, evaluated)
    return {side: [[names[tag] for tag in one] for one in documents] for side, documents in lists.items()}


def answer_texts(windows: Sequence[AnswerPair], evaluated: EvaluatedSplit) -> dict[str, list[Any]]:
    """The answer to each question from all its windows ("" for none), and the reference answers."""
    by_document: dict[int, dict[int, WindowAnswer]] = {}
    for (document, number), window in windows:
        by_document.setdefault(document, {})[number] = window
    predictions, references = [], []
    for document, found in sorted(by_document.items()):
        answer, _ = answer_of_document(found, evaluated, document)
        predictions.append("" if answer is None else answer["text"])
        references.append(list(evaluated.split.rows[document][ANSWERS]["text"]))
    return {"predictions": predictions, "references": references}


def answer_of_document(
    windows: Mapping[int, WindowAnswer], evaluated: EvaluatedSplit, document: int
) -> tuple[dict[str, Any] | None, float]:
    """Return the answer to a question from all its windows, and its probability, as `answer_from_windows` does.

    Args:
        windows: by the number of the window's example.
    """
    objective, context = evaluated.loaded.mixture.members["span"], evaluated.split.rows[document][CONTEXT_COLUMN]
    assert isinstance(objective, AnswerSpan)
    plans = {plan.number: plan for plan in evaluated.examples.plan(0, [document])}
    shifted = [window.shifted(plans[number].pieces[-1].start) for number, window in windows.items()]
    return answer_from_windows(
        context, encode_with_spans(evaluated.loaded.tokenizer, [context])[0], shifted, objective.no_answer
    )


class MetricCollector(NamedTuple):
    """How a metric's inputs are made.

    Args:
        collect: the answers of a forward pass.
        arguments: the metric's keyword arguments, from the answers of all passes.
    """

    collect: Callable[[ForwardResult], list[AnswerPair]]
    arguments: Callable[[Sequence[AnswerPair], EvaluatedSplit], dict[str, Any]]


METRIC_COLLECTORS = {  # by `Metric.needs`
    "classes": MetricCollector(answer_pairs, class_numbers),
    "numbers": MetricCollector(answer_pairs, two_lists),
    "sets": MetricCollector(set_pairs, two_lists),
    "tags": MetricCollector(tag_pairs, tag_names),
    "answers": MetricCollector(span_pairs, answer_texts),
}
