"""SQuAD's JSON: articles of paragraphs with questions, their answers and where each begins."""

import itertools
from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from zoo.data.formats.format import FileFormat, ReadOptions, Row, formats
from zoo.data.formats.json_array import read_entries
from zoo.data.formats.lines import LineRange
from zoo.data.ids import ANSWERS, CONTEXT, QUESTION


@formats.register("squad")
class Squad(FileFormat):
    """One question per row, with its context and its answers; no answers if it is marked as impossible.

    The file is read article by article. Source: Rajpurkar et al. 2016, arXiv:1606.05250 (1.1), and 2018,
    arXiv:1806.03822 (2.0).
    """

    extensions: ClassVar[tuple[str, ...]] = ()  # none: .json is read as one object per line
    names_files: ClassVar[bool] = False

    def rows(self, line_range: LineRange, options: ReadOptions, wanted: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every question.

        Raises:
            ValueError: the file is not JSON, or lacks a key that SQuAD's files have.
        """
        for paragraph, question, place in questions(line_range):
            impossible = question.get("is_impossible", False)
            yield {
                "id": str(question.get("id", "")),
                QUESTION: find(question, "question", str, place),
                CONTEXT: find(paragraph, "context", str, place),
                ANSWERS: [] if impossible else find(question, "answers", list, place),
            }

    def where(self, line_range: LineRange, options: ReadOptions, row: int, entry: int | None) -> str | None:
        _, question, place = next(itertools.islice(questions(line_range), row - 1, None))
        return f"{place} (id {question.get('id', 'none')})"


def questions(line_range: LineRange) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yield each question with its paragraph and its location."""
    path = line_range.path
    for i, article in enumerate(read_entries(path, "data")):
        at = f"{path}: data[{i}]"
        for j, paragraph in enumerate(find(article, "paragraphs", list, at)):
            below = f"{at}.paragraphs[{j}]"
            for k, question in enumerate(find(paragraph, "qas", list, below)):
                yield paragraph, as_map(question, f"{below}.qas[{k}]"), f"{below}.qas[{k}]"


def as_map(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: expected a map, got {value!r:.80}")
    return value


def find(tree: Any, key: str, kind: type, place: str) -> Any:
    """The value under a key.

    Raises:
        ValueError: it is missing or of another type.
    """
    found = as_map(tree, place).get(key)
    if not isinstance(found, kind):
        what = "a list" if kind is list else "a text"
        raise ValueError(f"{place}: '{key}' must be {what}, got {found!r:.80}; is this SQuAD's JSON?")
    return found
