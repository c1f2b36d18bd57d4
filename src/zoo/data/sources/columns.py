"""Columns of the data -> the objectives' inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from datasets import Dataset

from zoo.data.ids import PICTURE
from zoo.registry import refuse_unknown

INPUTS = ("text", "pair", "source", "target", "label", PICTURE)
TEXTS = ("text", "pair", "source", "target")


@dataclass(frozen=True)
class Columns:
    """Which column of the data each input is read from.

    Args:
        wanted: input -> column of the data; empty: every column that is named like an input.
        optional: inputs that the data may lack.
    """

    wanted: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def choose(self, present: Sequence[str], place: str) -> dict[str, str]:
        """Input -> column, for data that has the columns `present`.

        Raises:
            ValueError: a column is missing, or none has an input's name.
        """
        if not self.wanted:
            chosen = {name: name for name in INPUTS if name in present}
            if not chosen:
                raise ValueError(
                    f"{place}: no column is named {', '.join(INPUTS)}; found: {', '.join(present)}; "
                    "say which to read under 'columns'"
                )
            return chosen
        chosen = {k: v for k, v in self.wanted.items() if v in present or k not in self.optional}
        for name in chosen.values():
            refuse_unknown(name, present, "column", place)
        return chosen

    def pick(self, data: Dataset, place: str) -> Dataset:
        """The chosen columns of `data` under the names of the inputs."""
        chosen = self.choose(data.column_names, place)
        picked = data.select_columns(list(chosen.values()))
        return picked.rename_columns({column: name for name, column in chosen.items() if column != name})
