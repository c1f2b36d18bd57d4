"""Columns of the data -> the inputs that forms and objectives read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.ids import PICTURE
from zoo.registry import refuse_unknown


@dataclass(frozen=True)
class Columns:
    """Which column of the data each input is read from.

    Args:
        inputs: the names that an input may have. Columns come in their order, which decides the hash that holds rows
            out and the order in which a tokenizer sees the texts.
        wanted: input -> column of the data, or `column.entry` of a column of maps; empty: every column that is named
            like an input.
        optional: inputs that the data may lack.
    """

    inputs: Sequence[str]
    wanted: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def unread(self, present: Sequence[str]) -> list[str]:
        """The columns that would be read if they were there; none where the task names those to read."""
        return [] if self.wanted else [name for name in self.inputs if name not in present]

    def choose(self, present: Sequence[str], place: str) -> dict[str, str]:
        """Input -> column, for data that has the columns `present`.

        Raises:
            ValueError: an input is unknown, a column is missing, or no column has an input's name.
        """
        for name in self.wanted:
            refuse_unknown(name, self.inputs, "input", "task.columns")
        wanted = self.wanted or {name: name for name in self.inputs if name in present}
        if not wanted:
            raise ValueError(
                f"{place}: no column is named {', '.join(self.inputs)}; found: {', '.join(present)}; "
                "say which to read under 'columns'"
            )
        named = {name: wanted[name] for name in self.inputs if name in wanted}
        chosen = {
            name: column
            for name, column in named.items()
            if stored_column(column, present) in present or name not in self.optional
        }
        for name, column in chosen.items():
            inside = name != PICTURE  # pictures are read where they are stored
            refuse_unknown(stored_column(column, present) if inside else column, present, "column", place)
        return chosen


def stored_column(column: str, present: Collection[str]) -> str:
    """The column that a name is read from: of `question.stem`, unless a column is called so, the one of maps."""
    return column if column in present else column.partition(".")[0]


def read_column(row: Mapping[str, Any], column: str) -> Any:
    """What a row holds in a column; `question.stem` is the entry `stem` of a map in the column `question`.

    Raises:
        KeyError: the row lacks the column, or the map the entry.
    """
    if column in row:
        return row[column]
    name, dot, inside = column.partition(".")
    value = row[name]
    if not dot or not isinstance(value, Mapping):
        raise KeyError(column)
    try:
        return read_column(value, inside)
    except KeyError:
        raise KeyError(column) from None
