"""Scores of guessing labels from their frequencies in train, without reading the input: a baseline for a model."""

import math
from collections.abc import Mapping, Sequence

from zoo.data.columns.values import is_absent
from zoo.survey.rows import RowTally, label_counts

Scores = dict[str, float | None]


def guess_labels(tallies: Mapping[str, RowTally], first: str, names: tuple[str, ...]) -> dict[str, Scores]:
    """Score each split that has labels of its own; the frequencies are those of split `first`.

    Args:
        names: of the classes.
    """
    scores = {split: score_guess(tally, tallies[first], names) for split, tally in tallies.items()}
    return {split: of_split for split, of_split in scores.items() if of_split}


def score_guess(tally: RowTally, known: RowTally, names: tuple[str, ...]) -> Scores:
    """Score one split's labels; empty if it has none, or none of those known.

    Classes: the accuracy of always guessing the most frequent one, and the loss of predicting the frequencies (nats);
    None if it is infinite, since the split has a class that never occurs where the frequencies are from. Sets of
    classes: the mean over classes of that loss for each class. Numbers: the squared error of the mean.

    Args:
        tally: of the split that is scored.
        known: of the split that the frequencies and the mean are from.
        names: of the classes.
    """
    if known.numbers.count and tally.numbers.count:
        off = tally.numbers.mean - known.numbers.mean
        return {"mse": tally.numbers.variance + off * off}
    expected = label_counts(known, names)
    counts = label_counts(tally, names).items()
    # a test split may withhold labels
    given = {name: count for name, count in counts if name in expected or not is_absent(name)}
    if not given.keys() & expected.keys():
        return {}
    if known.sets:
        classes = {*given, *expected}
        shares = [(given.get(name, 0) / tally.sets, expected.get(name, 0) / known.sets) for name in classes]
        losses = [cross_entropy([one, 1 - one], [other, 1 - other]) for one, other in shares]
        return {"loss": finite(sum(losses) / max(len(names), len(classes)))}
    most = next(iter(expected))  # label_counts has the most frequent first
    total, total_known = sum(given.values()), sum(expected.values())
    shares = [(count / total, expected.get(name, 0) / total_known) for name, count in given.items()]
    loss = cross_entropy([one for one, _ in shares], [other for _, other in shares])
    return {"accuracy": given.get(most, 0) / total, "loss": finite(loss)}


def cross_entropy(shares: Sequence[float], predicted: Sequence[float]) -> float:
    """The mean loss (nats) of predicting `predicted` where `shares` occur; infinite if one that occurs has none."""
    pairs = [(share, guess) for share, guess in zip(shares, predicted, strict=True) if share]
    return -sum(share * math.log(guess) for share, guess in pairs) if all(guess for _, guess in pairs) else math.inf


def finite(loss: float) -> float | None:
    """The loss, or None if it is infinite, which JSON cannot write."""
    return loss if math.isfinite(loss) else None
