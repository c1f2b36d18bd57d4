"""Read the names of labels, and what kind of label they are, from a config.json."""

from collections import Counter
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from zoo.hub.importing.config import ConfigReader
from zoo.hub.targets.declare.classes import classifies
from zoo.hub.targets.declare.spelling import join_values
from zoo.hub.targets.declare.target import NativeClass
from zoo.models.heads.head import has_classes
from zoo.objectives.label_losses import LABEL_LOSSES, OneClass, OneNumber

MOST_LABELS = 2**20
# control characters, which a terminal would obey, and surrogates, which UTF-8 cannot hold
FORBIDDEN_CATEGORIES = ("Cc", "Cs")


@dataclass(frozen=True)
class LabelNames:
    """The labels of a class.

    Args:
        names: names of the classes; empty if there are none.
        kind: kind of label, as in a task's `labels`. count: number of scores of the head.
        assumed_number: whether the one label is a number, as transformers trains it, without a `problem_type`.
    """

    names: list[str]
    kind: str = "one"
    count: int = 0
    assumed_number: bool = False

    def plain(self) -> Any:
        """The value of `labels` in a task."""
        if self.kind == "one":
            return self.names
        return {self.kind: self.names} if self.names else self.kind


def read_labels(config: ConfigReader, chosen: NativeClass) -> LabelNames:
    """Read the labels of a class, if it has any; without names in the file, transformers' LABEL_0, LABEL_1, … are used.

    Raises:
        ValueError: `id2label` is not a list of names, or zoo cannot read the problem type or this number of labels.
    """
    if not any(map(has_classes, chosen.heads)):
        return LabelNames([])
    names, problem = label_names(config), config.tree.get("problem_type")
    if not classifies(chosen):
        return LabelNames(names, count=len(names))
    assumed = problem is None
    if assumed:  # as transformers' classes decide it
        problem = (OneNumber if len(names) == 1 else OneClass).problem
    kinds = {answer.problem: kind for kind, answer in LABEL_LOSSES.items()}
    if not isinstance(problem, str) or problem not in kinds:
        raise ValueError(f"{config.place}: problem_type is {problem!r}; zoo reads {join_values(list(kinds), ' or ')}")
    number = kinds[problem] == "number"
    if number and len(names) != 1:
        raise ValueError(
            f"{config.place}: problem_type is {problem!r} with {len(names)} outputs; zoo predicts one number"
        )
    if not number and len(names) == 1:  # a head of one score inherits the problem_type of the classifier it replaces
        raise ValueError(
            f"{config.place}: problem_type is {problem!r} with one label; zoo reads two or more labels, or "
            f"{OneNumber.problem!r} if the model predicts a number"
        )
    return LabelNames([] if number else names, kinds[problem], len(names), assumed and number)


def label_names(config: ConfigReader) -> list[str]:
    """Read the names of the labels.

    Raises:
        ValueError: `id2label` does not name the classes 0, 1, …, gives two of them one name, or has control characters;
            `num_labels` is no number.
    """
    named = config.tree.get("id2label")
    if named is None:
        count = config.tree.get("num_labels", 2)
        if type(count) is not int or not 0 < count < MOST_LABELS:
            raise ValueError(f"{config.place}: num_labels must be 1 to {MOST_LABELS - 1}, got {count!r:.80}")
        return [f"LABEL_{i}" for i in range(count)]
    names: list[Any] = [named.get(str(i)) for i in range(len(named))] if isinstance(named, dict) else []
    names = [str(name) if type(name) is int else name for name in names]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{config.place}: id2label must name the classes 0, 1, …, got {named!r:.80}")
    if odd := [name for name in names if any(category(c) in FORBIDDEN_CATEGORIES for c in name)]:
        raise ValueError(f"{config.place}: id2label has control characters in {odd[0]!r:.80}")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"{config.place}: id2label gives {count} classes the name {name!r:.80}; zoo needs distinct names"
        )
    return names
