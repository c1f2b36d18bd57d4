"""A task: its objectives, data, sequence length and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from zoo import config
from zoo.data.columns.columns import check_named, name_classes
from zoo.data.columns.pictures import Augment
from zoo.data.sources.settings import SourceSettings
from zoo.registry import check
from zoo.wording import refuse_unknown

SIDES = ("source", "target")
LabelKind = Literal["one", "several", "number"]
DERIVED = ("label_kind",)  # set by another key of the file
LABEL_KINDS: tuple[str, ...] = get_args(LabelKind)
STATED = ("length", "pack")  # written even at their defaults, since they define the rows


class Sides(NamedTuple):
    """A number of tokens on each side, source and target; a model with one stream reads `target`."""

    source: int
    target: int


@dataclass(frozen=True)
class Card:
    """What only the author knows and the model card of an export says.

    Args:
        license: the Hub's name for it, such as mit or cc-by-4.0.
        language: codes of the languages that the model reads or writes.
        datasets: names on the Hub; empty: the task's own repository, if it names one.
        limitations: what the model should not be used for, in a sentence.
    """

    license: str | None = None
    language: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    limitations: str | None = None


@dataclass(frozen=True)
class Task:
    """The content of a task file; other layers own and check `tokenizer`, `metrics`, `generate` and `training`.

    Args:
        objective: name -> options.
        columns: the objective's input -> column of the data, as in `Columns`; empty: columns named like inputs.
        labels: the classes by name; None: those that the data declares, else the sorted distinct values of train. A
            file may also have `several` (a row has any number of classes; `{several: NAMES}` names them) or `number` (a
            row has a number).
        label_kind: what a row's label is; a file sets it by `labels`.
        length: tokens per packed sequence; for source and target, one number for both or a map.
        longest: tokens per example, special tokens included; None: `length`.
        pack: whether a sequence may hold several examples; each image has a sequence of its own.
        augment: how training images are varied.
        by_file: whether a split of several files is measured file by file, and its metrics are the means of theirs.
    """

    objective: dict[str, dict[str, Any]]
    source: SourceSettings
    columns: dict[str, str | list[str]] = field(default_factory=dict)
    labels: list[str] | None = None
    label_kind: LabelKind = "one"
    tokenizer: dict[str, Any] | None = None
    length: int | dict[str, int] = 128
    longest: int | dict[str, int] | None = None
    pack: bool = True
    augment: Augment = Augment()
    metrics: list[str] = field(default_factory=list)
    by_file: bool = False
    generate: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    card: Card = field(default_factory=Card)

    @property
    def row_length(self) -> Sides:
        """Tokens in a row, per side."""
        return sides(self.length)

    @property
    def example_length(self) -> Sides:
        """The maximum number of tokens in one example, per side."""
        return self.row_length if self.longest is None else sides(self.longest)

    @property
    def named_inputs(self) -> list[str]:
        """The inputs whose columns are named, by the task or by a source of its mix."""
        return [*self.columns, *(name for source in self.source.mixed().values() for name in source.columns)]

    def plain(self) -> dict[str, Any]:
        """The task as a map that `read_task` reads back: the keys in `STATED`, and those not at their default."""
        default = config.dump(Task({}, SourceSettings()))
        tree = {key: value for key, value in config.dump(self).items() if key in STATED or value != default[key]}
        if kind := tree.pop("label_kind", None):
            tree["labels"] = {kind: self.labels} if self.labels else kind
        for part in ("source", "card", "augment"):
            if part in tree:
                tree[part] = {key: value for key, value in tree[part].items() if value != default[part][key]}
        return tree

    def verify(self, place: str) -> None:
        """Raise a ValueError if settings contradict each other."""
        self.source.verify(f"{place}.source")
        self.augment.verify(f"{place}.augment")
        if self.source.columns:
            raise ValueError(f"{place}.source.columns: only for sources of a mix; set {place}.columns")
        check_named(self.columns, f"{place}.columns", self.label_kind == "several")
        for name, source in self.source.mixed().items():
            check_named(source.columns, f"{place}.source.mix.{name}.columns", self.label_kind == "several")
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            got = ", ".join(self.labels) or "none"
            raise ValueError(f"{place}.labels: expected two or more names, all distinct, got {got}")
        for key, value in (("length", self.length), ("longest", self.longest)):
            verify_length(value, f"{place}.{key}")
        for side, row, example in zip(SIDES, self.row_length, self.example_length, strict=True):
            if example > row:
                raise ValueError(
                    f"{place}.longest: {example} tokens ({side}) do not fit into a sequence of 'length' {row}"
                )


def sides(value: int | dict[str, int]) -> Sides:
    return Sides(**value) if isinstance(value, dict) else Sides(value, value)


def verify_length(value: int | dict[str, int] | None, place: str) -> None:
    """Raise a ValueError unless the length is positive, or a map with a positive one per side."""
    if isinstance(value, dict):
        for side in value:
            refuse_unknown(side, SIDES, "key", place)
        if len(value) < len(SIDES):
            raise ValueError(f"{place}: a map needs both 'source' and 'target'")
    if value is not None and min(sides(value)) < 1:
        raise ValueError(f"{place}: must be at least 1, got {value}")


def load_task(name_or_path: str | Path, sets: Mapping[str, Any] | None = None) -> Task:
    """Read a task file by its name or path, overridden by `sets`.

    Raises:
        ValueError: there is no such file, or its content is invalid; the message names the key.
    """
    tree = config.read_with_base(str(name_or_path), "tasks")
    return read_task(config.merge(tree, sets or {}), str(name_or_path))


def read_task(tree: Mapping[str, Any], place: str) -> Task:
    """A task from its map of settings.

    Raises:
        ValueError: an unknown key, a wrong type or settings that contradict each other.
    """
    tree = dict(tree)
    if "tasks" in tree:
        raise ValueError(f"{place}: it is a list of tasks, which only zoo finetune takes; name one of them")
    if "objective" in tree:
        tree["objective"] = read_objectives(tree["objective"], f"{place}.objective")
    for key in tree:
        refuse_unknown(str(key), [f.name for f in fields(Task) if f.name not in DERIVED], "key", place)
    tree |= read_labels(tree.get("labels"), f"{place}.labels")
    if tree["label_kind"] == "several" and isinstance(tree.get("columns"), Mapping):
        tree["labels"] = name_classes(tree["labels"], tree["columns"], f"{place}.labels")
    if isinstance(tree.get("tokenizer"), str):
        tree["tokenizer"] = {"name": tree["tokenizer"]}
    task = config.build(Task, tree, place)
    task.verify(place)
    return task


def read_labels(value: Any, place: str) -> dict[str, Any]:
    """The names of the classes and the kind of label, from names, `several`, `{several: NAMES}` or `number`."""
    kind = "one"
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, value),) = value.items()
        refuse_unknown(str(kind), ["several"], "kind of labels", place)
    elif isinstance(value, str):
        refuse_unknown(value, LABEL_KINDS[1:], "kind of labels (or a list of names)", place)
        kind, value = value, None
    names = None if value is None else [str(name) for name in check(value, list[str | int], place)]
    return {"labels": names, "label_kind": kind}


def read_objectives(value: Any, place: str) -> dict[str, dict[str, Any]]:
    """Name -> options, from a name, a map with `name`, or a map of names.

    In a map with `name`, an entry that is itself a map is one more objective: that is how `--set` adds to a bare name.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, str):
        return {value: {}}
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{place}: expected the name of an objective or a map of names to options, got {value!r}")
    if "name" in value:
        first = str(value["name"])
        own = {k: v for k, v in value.items() if k != "name" and not isinstance(v, Mapping)}
        others = {k: dict(v) for k, v in value.items() if isinstance(v, Mapping)}
        return {first: {**own, **others.pop(first, {})}, **others}
    for name, options in value.items():
        if not isinstance(options, Mapping | None) or (options and "name" in options):  # a name would replace this one
            raise ValueError(f"{place}.{name}: expected a map of options, got {options!r}")
    return {str(name): dict(options or {}) for name, options in value.items()}
