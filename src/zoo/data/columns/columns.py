"""Maps columns of the data to the inputs that forms and objectives read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zoo.data.ids import CHOICES, LABEL, MESSAGES, NOT_TEXT, PICTURE, TAGS, WORDS
from zoo.wording import refuse_unknown

# of the data; several become a list of choices, a text with a line for each, or the names of those that hold a 1
Column = str | list[str]
# how the column of a class writes that a row has it, has it not, or withholds it (`present_classes`)
SET, NOT_SET, HIDDEN = ("1", "1.0", "True", "true"), ("0", "0.0", "False", "false"), ("-1", "-1.0", "", "None")
DELIMITERS = ";,\t|"  # that a table may have been written with


@dataclass(frozen=True)
class Columns:
    """The column of the data that each input is read from.

    Args:
        inputs: the names of all inputs. Their order is the order of a row's columns, which affects the hash that holds
            rows out and the order in which a tokenizer sees the texts.
        wanted: input -> column of the data, or `column.entry` for a column of maps; if empty, every column named like
            an input is read. A list of columns becomes the choices, the lines of one text, or the classes of a row:
            those whose column holds a 1.
        forms: the inputs of each form of examples that rows may have, the preferred one first; only those of one form
            are read (`of_form`), and those that no form has. Empty: every input is.
        required: the inputs of the form that is read.
    """

    inputs: Sequence[str]
    wanted: Mapping[str, Column] = field(default_factory=dict)
    forms: Sequence[Sequence[str]] = ()
    required: Sequence[str] = ()

    def of_form(self, present: Collection[str]) -> "Columns":
        """Without the inputs of other forms than the first whose columns are all present; as it is if there is none."""
        fitting = [number for number, form in enumerate(self.forms) if set(form) <= set(present)]
        if not fitting:
            return self
        form = self.forms[fitting[0]]
        others = {name for other in self.forms for name in other}.difference(form)
        inputs = [name for name in self.inputs if name not in others]
        return replace(self, inputs=inputs, forms=self.forms[: fitting[0]], required=form)

    def unread(self, present: Sequence[str]) -> frozenset[str]:
        """The columns that would have been read if they were present, also those of preferred forms."""
        preferred = [name for form in self.forms for name in form]
        named = stored_columns(self.wanted.values(), present) if self.wanted else [*self.inputs, *preferred]
        return frozenset(named).difference(present)

    def choose(self, present: Sequence[str], place: str, optional: Collection[str] = ()) -> dict[str, Column]:
        """Input -> column, for data that has the columns `present`.

        Args:
            optional: inputs that the data may lack.

        Raises:
            ValueError: an input is unknown, a column is missing, no column has an input's name, or tags stand without
                words or beside a label.
        """
        for name in self.wanted:
            refuse_unknown(name, self.inputs, "input", "task.columns")
        wanted: Mapping[str, Column] = self.wanted or {name: name for name in self.inputs if name in present}
        lacking = [name for name in self.required if name not in wanted and name not in optional]
        if lacking or not wanted:
            which = f"{lacking[0]}, as in the first split" if lacking else ", ".join(self.inputs)
            found = f"{place}: no column is named {which}; found: {', '.join(present)}"
            raise ValueError(f"{found}; name those to read under 'columns'{in_one_column(present)}")
        chosen = {
            name: wanted[name]
            for name in self.inputs
            if name in wanted and (name not in optional or stored_columns([wanted[name]], present) & set(present))
        }
        for name, column in chosen.items():
            # an image column must be a column itself: its images are read from where they are stored
            for each in [column] if name == PICTURE else stored_columns([column], present):
                refuse_unknown(str(each), present, "column", place, in_one_column(present))
        if TAGS in chosen and (WORDS not in chosen or LABEL in chosen):
            wrong = f"without '{LABEL}'" if WORDS in chosen else f"with '{WORDS}'"
            raise ValueError(f"{place}: '{TAGS}' are labels of words, so they are read {wrong} only; set 'columns'")
        return chosen


def stored_columns(columns: Iterable[Column], present: Collection[str]) -> set[str]:
    """The columns to read from the file: `question` for `question.stem`, unless a column has that full name."""
    names = (name for column in columns for name in names_of(column))
    return {name if name in present else name.partition(".")[0] for name in names}


def check_named(columns: Mapping[str, Column], place: str, several: bool) -> None:
    """Raise a ValueError if two inputs read one column, or an input that can read only one column reads several.

    Args:
        several: whether a row may have several classes, each in its own column.
    """
    for name, column in columns.items():
        single = name in (*NOT_TEXT, WORDS, MESSAGES) and not (several and name == LABEL)
        if not isinstance(column, str) and (single or len(column) < 2):
            what = "two or more columns of texts, of choices or (labels: several) of classes"
            raise ValueError(f"{place}.{name}: a list must name {what}, got {column}")
    readers: dict[str, str] = {}
    for name, column in columns.items():
        for each in names_of(column):
            if each in readers:
                twice = f"'{each}' is read as {readers[each]} and as {name}"
                raise ValueError(f"{place}: two inputs cannot read the same column; {twice}")
            readers[each] = name


def name_classes(names: list[str] | None, columns: Mapping[str, Any], place: str) -> list[str] | None:
    """The names of the classes; if each class has its own column, the names of those, in the task's order if given.

    Raises:
        ValueError: the task names other classes.
    """
    column = columns.get(LABEL)
    if not isinstance(column, list):
        return names
    found = [str(name) for name in column]
    if names is not None and sorted(names) != sorted(found):
        raise ValueError(f"{place}: names {', '.join(names)}, but the columns of the classes are {', '.join(found)}")
    return names or found


def names_of(column: Column) -> list[str]:
    return [column] if isinstance(column, str) else column


def read_input(row: Mapping[str, Any], name: str, column: Column) -> Any:
    """The value of an input in a row, from one column or several.

    Raises:
        KeyError: as `read_column`.
        ValueError: one of several columns to be joined is not a text, or a class's column holds neither 0 nor 1.
    """
    if isinstance(column, str):
        return read_column(row, column)
    values = [read_column(row, each) for each in column]
    if name == CHOICES:
        return values
    if name == LABEL:
        return present_classes(column, values)
    for each, value in zip(column, values, strict=True):
        if not isinstance(value, str):
            raise ValueError(f"'{each}' must be a text, got {value!r:.200}")
    return "\n".join(value for value in values if value.strip())


def present_classes(names: Sequence[str], values: Sequence[Any]) -> list[str] | None:
    """The classes whose columns hold a 1; None if all columns are empty or -1, so that the label is withheld.

    Raises:
        ValueError: a column holds neither 0 nor 1.
    """
    written = [str(value) for value in values]
    if all(value in HIDDEN for value in written):
        return None
    for name, value, text in zip(names, values, written, strict=True):
        if text not in (*SET, *NOT_SET):
            raise ValueError(f"'{name}' must be 1 (the row has this class) or 0, got {value!r:.80}")
    return [name for name, text in zip(names, written, strict=True) if text in SET]


def in_one_column(present: Sequence[str]) -> str:
    """A hint for error messages, if a table's only column looks like several with another delimiter."""
    several = len(present) == 1 and any(mark in present[0] for mark in DELIMITERS)
    rule = "; if it should be several columns: a .csv file needs commas between fields, a .tsv file tabs"
    return rule if several else ""


def read_column(row: Mapping[str, Any], column: str) -> Any:
    """The value of a row's column; `question.stem` is the entry `stem` of the map in the column `question`.

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
