"""Columns of the data -> the inputs that forms and objectives read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.data.ids import CHOICES, MESSAGES, NOT_TEXT, PICTURE, WORDS
from zoo.registry import refuse_unknown

Column = str | list[str]  # of the data; several become one list of choices, or one text of as many lines


@dataclass(frozen=True)
class Columns:
    """Which column of the data each input is read from.

    Args:
        inputs: the names that an input may have. Columns come in their order, which decides the hash that holds rows
            out and the order in which a tokenizer sees the texts.
        wanted: input -> column of the data, or `column.entry` of a column of maps; empty: every column that is named
            like an input. A list of columns becomes the choices, or the lines of one text.
        optional: inputs that the data may lack.
    """

    inputs: Sequence[str]
    wanted: Mapping[str, Column] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def unread(self, present: Sequence[str]) -> list[str]:
        """The columns that would be read if they were there; none where the task names those to read."""
        return [] if self.wanted else [name for name in self.inputs if name not in present]

    def choose(self, present: Sequence[str], place: str) -> dict[str, Column]:
        """Input -> column, for data that has the columns `present`.

        Raises:
            ValueError: an input is unknown, a column is missing, or no column has an input's name.
        """
        for name in self.wanted:
            refuse_unknown(name, self.inputs, "input", "task.columns")
        wanted: Mapping[str, Column] = self.wanted or {name: name for name in self.inputs if name in present}
        if not wanted:
            raise ValueError(
                f"{place}: no column is named {', '.join(self.inputs)}; found: {', '.join(present)}; "
                "say which to read under 'columns'"
            )
        named = {name: wanted[name] for name in self.inputs if name in wanted}
        chosen = {
            name: column
            for name, column in named.items()
            if stored_columns([column], present) <= set(present) or name not in self.optional
        }
        for name, column in chosen.items():
            # pictures are read where they are stored
            for each in [column] if name == PICTURE else stored_columns([column], present):
                refuse_unknown(str(each), present, "column", place)
        return chosen


def stored_column(column: str, present: Collection[str]) -> str:
    """The column that a name is read from: of `question.stem`, unless a column is called so, the one of maps."""
    return column if column in present else column.partition(".")[0]


def stored_columns(columns: Iterable[Column], present: Collection[str]) -> set[str]:
    """The columns that several names are read from."""
    return {stored_column(name, present) for column in columns for name in names_of(column)}


def check_named(columns: Mapping[str, Column], place: str) -> None:
    """Raise a ValueError where two inputs read one column, or an input reads several that can read only one."""
    for name, column in columns.items():
        if not isinstance(column, str) and (name in (*NOT_TEXT, WORDS, MESSAGES) or len(column) < 2):
            raise ValueError(f"{place}.{name}: a list names two or more columns, of texts or of choices; got {column}")
    named = [name for column in columns.values() for name in names_of(column)]
    if len(set(named)) < len(named):
        raise ValueError(f"{place}: two inputs cannot read the same column")


def names_of(column: Column) -> list[str]:
    return [column] if isinstance(column, str) else column


def read_input(row: Mapping[str, Any], name: str, column: Column) -> Any:
    """What a row holds for an input: in a column, or in several.

    Raises:
        KeyError: as `read_column`.
        ValueError: one of several columns that are joined holds no text.
    """
    if isinstance(column, str):
        return read_column(row, column)
    values = [read_column(row, each) for each in column]
    if name == CHOICES:
        return values
    for each, value in zip(column, values, strict=True):
        if not isinstance(value, str):
            raise ValueError(f"'{each}' must be a text, got {value!r:.200}")
    return "\n".join(value for value in values if value.strip())


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
