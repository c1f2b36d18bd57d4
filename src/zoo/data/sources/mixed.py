"""Several sources as one: rows of each are drawn in proportion to its weight."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from zoo.data.sources.part import SourcePart
from zoo.data.sources.rows import SplitRows


@dataclass(frozen=True)
class MixedRows(SplitRows):
    """One split of several sources.

    Args:
        mixed: source name -> its split; `reader` is that of the first source.
        shares: source name -> its weight.
    """

    mixed: Mapping[str, SplitRows] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> Mapping[str, SplitRows]:
        return self.mixed

    @property
    def weights(self) -> Mapping[str, float]:
        return self.shares

    @property
    def parts(self) -> Sequence[SourcePart]:
        return [part for rows in self.mixed.values() for part in rows.parts]

    @property
    def place(self) -> str:
        return " and ".join(rows.place for rows in self.mixed.values())

    @property
    def cache_name(self) -> str:
        return " and ".join(f"{name}: {rows.cache_name}" for name, rows in self.mixed.items())

    @cached_property
    def inputs(self) -> list[str]:
        """The columns, the same in every source.

        Raises:
            ValueError: the sources have different ones.
        """
        found = {name: rows.inputs for name, rows in self.mixed.items()}
        self.refuse_different({name: ", ".join(columns) for name, columns in found.items()}, "columns")
        return next(iter(found.values()))

    def fingerprint_of(self, named: bool) -> str:
        decided = [f"{name} {self.shares[name]} {rows.fingerprint_of(named)}" for name, rows in self.mixed.items()]
        return hashlib.sha256("\n".join(decided).encode()).hexdigest()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, the same in every source.

        Raises:
            ValueError: the sources have different ones.
        """
        found = {name: rows.labels for name, rows in self.mixed.items()}
        self.refuse_different({name: ", ".join(labels) for name, labels in found.items()}, "labels")
        return next(iter(found.values()))

    def refuse_different(self, found: Mapping[str, str], what: str) -> None:
        """Raise a ValueError unless every source has the same value."""
        if len(set(found.values())) > 1:
            said = "; ".join(f"{name}: {one}" for name, one in found.items())
            raise ValueError(f"source.mix: the sources have different {what}; name them under '{what}': {said}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for rows in self.mixed.values():
            yield from rows
