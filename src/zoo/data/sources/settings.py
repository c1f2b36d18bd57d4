"""The settings of a task's data: where its rows come from, and how they are read."""

import math
import re
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal

from zoo import config
from zoo.data.builtin.builtin import builtins
from zoo.data.formats.format import ReadOptions, formats
from zoo.data.sources.filtering import EVERY_ROW, RowFilter
from zoo.data.sources.origin import SPLITS
from zoo.wording import refuse_unknown

MOST_ROWS = 10**9  # a mixed source must have at least one in this many
FOR_ALL = ("language", "mix")  # keys that no source of a mix has; `SourceSettings.verify_mix` says why


@dataclass(frozen=True)
class SourceSettings:
    """Where a task's rows come from, and how they are read; an imported model without data has empty settings.

    Args:
        files: split -> a data file, or a map of columns to text files that are read line by line together. In place of
            a file, you can name a folder, a pattern such as `wiki/*.jsonl.zst`, or a list of these.
        format: of the files; None: by their extension.
        quoting: whether double quotes hold a field together (csv) or are text (none); None: csv for csv, none for tsv.
        header: the columns' names where the files do not hold them; one list, or split -> list.
        documents: what is one row of a text file.
        validation: fraction of train that is held out, where there is no validation split.
        hub: `org/name`, optionally followed by `@REVISION` and `:configuration`, read if the files are missing.
        builtin: the name of a source that needs no file.
        language: code of the texts' language, such as de, by whose abbreviations sentencex splits them into sentences;
            None: one rule splits all scripts.
        mix: by name, several sources in place of one, each with these same keys and a `weight`, by which their rows are
            drawn in training. Keys next to `mix` apply to all of them.
        filter: which rows of train are kept.
        columns: input -> column, for a mixed source whose columns differ from the task's.
    """

    files: dict[str, str | list[str] | dict[str, str | list[str]]] | None = None
    format: str | None = None
    quoting: Literal["none", "csv"] | None = None
    header: list[str] | dict[str, list[str]] | None = None
    documents: Literal["line", "blank_line", "file"] = "line"
    validation: float = 0.05
    hub: str | None = None
    builtin: str | None = None
    language: str | None = None
    filter: RowFilter = EVERY_ROW
    mix: dict[str, dict[str, Any]] | None = None
    columns: dict[str, str | list[str]] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each mixed source, by name."""
        return {name: tree.get("weight", 1) for name, tree in (self.mix or {}).items()}

    def mixed(self, place: str = "source") -> dict[str, "SourceSettings"]:
        """The settings of each mixed source, by name.

        Raises:
            ValueError: an unknown key or a wrong type.
        """
        shared = {key: value for key, value in config.dump(self).items() if key != "mix" and value is not None}
        trees = {name: {k: v for k, v in tree.items() if k != "weight"} for name, tree in (self.mix or {}).items()}
        known = ["weight", *(setting.name for setting in fields(self) if setting.name not in FOR_ALL)]
        for name, tree in trees.items():
            for key in tree:
                if key not in FOR_ALL:
                    refuse_unknown(str(key), known, "key", f"{place}.mix.{name}")
        return {
            name: config.build(SourceSettings, config.merge(shared, tree), f"{place}.mix.{name}")
            for name, tree in trees.items()
        }

    def reading(self, split: str) -> ReadOptions:
        """How the files of a split are read."""
        header = self.header.get(split) if isinstance(self.header, dict) else self.header
        return ReadOptions(self.format, self.quoting, tuple(header) if header else None, self.documents)

    def verify(self, place: str) -> None:
        """Raise a ValueError if a setting is invalid, or settings contradict each other."""
        if self.mix is not None:
            self.verify_mix(place)
        if self.builtin is not None and (self.files or self.hub):
            raise ValueError(f"{place}: 'builtin' does not combine with 'files' or 'hub'")
        if self.builtin is not None:
            refuse_unknown(self.builtin, builtins.names(), "built-in source", f"{place}.builtin")
        if self.format is not None:
            refuse_unknown(self.format, formats.names(), "format", f"{place}.format")
        for split in self.files or {}:
            refuse_unknown(split, SPLITS, "split", f"{place}.files")
        for split in self.header if isinstance(self.header, dict) else ():
            refuse_unknown(split, SPLITS, "split", f"{place}.header")
        if self.language is not None and not re.fullmatch("[a-z]{2,3}", self.language):
            raise ValueError(f"{place}.language: {self.language!r} is not a language code, such as de, en or ko")
        self.filter.verify(f"{place}.filter")
        if not 0 < self.validation < 1:
            raise ValueError(f"{place}.validation: {self.validation} must lie between 0 and 1")

    def verify_mix(self, place: str) -> None:
        """Raise a ValueError if a mixed source is invalid, or another source is named next to `mix`."""
        if self.files or self.hub or self.builtin:
            raise ValueError(f"{place}: 'mix' does not combine with 'files', 'hub' or 'builtin'")
        if not self.mix:
            raise ValueError(f"{place}.mix: names no source")
        for name, weight in self.weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise ValueError(f"{place}.mix.{name}.weight: must be a number above 0, got {weight!r}")
        total = sum(map(Fraction, self.weights.values()))
        for name, weight in self.weights.items():
            if Fraction(weight) < total / MOST_ROWS:
                said = f"{weight!r} is less than a billionth of all weights, so none of its rows would be drawn"
                raise ValueError(f"{place}.mix.{name}.weight: {said}; leave the source out")
        for name, source in self.mixed(place).items():
            if "language" in self.mix[name]:
                said = f"all sources split sentences by one rule; set {place}.language"
                raise ValueError(f"{place}.mix.{name}.language: {said}")
            if source.mix is not None:
                raise ValueError(f"{place}.mix.{name}: a source of a mix cannot be a mix itself")
            source.verify(f"{place}.mix.{name}")
