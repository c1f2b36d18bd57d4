"""Answers within a context: read in the forms that data sets use, and checked."""

from collections.abc import Mapping
from typing import Any

from zoo.data.ids import ANSWERS, CONTEXT, QUESTION

STARTS = ("answer_start", "start")  # names of the key that holds the character at which an answer begins
ALLOWED = (
    "a map of two lists, 'text' and 'answer_start', a list of maps of one text and one answer_start, or a list of texts"
)


def describe_unanswered(lacking: int, questions: int, setting: str) -> str:
    """The error text for questions without an answer.

    Args:
        setting: the task setting that allows them.
    """
    how_many = f"the question has no answer ({lacking:,} of {questions:,} have none)"
    return f"{how_many}; if questions may have none, set {setting}"


def normalize_answers(row: dict[str, Any]) -> None:
    """Replace a row's answers by a map of two lists: the texts, and the index of the character at which each begins.

    Raises:
        ValueError: a question or a context is empty, or an answer is not in the context where it is said to begin.
    """
    if not {QUESTION, CONTEXT, ANSWERS} <= set(row):
        return
    for name in (QUESTION, CONTEXT):
        if not isinstance(row[name], str) or not row[name].strip():
            raise ValueError(f"the {name} is empty")
    pairs = [normalize_answer(text, start, row[CONTEXT]) for text, start in read_answers(row[ANSWERS])]
    row[ANSWERS] = {"text": [text for text, _ in pairs], "start": [start for _, start in pairs]}


def read_answers(given: Any) -> list[tuple[Any, Any]]:
    """Each answer's text and start (None if not given); empty for a question without an answer.

    Raises:
        ValueError: they are none of the known forms.
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [(given, None)]
    if isinstance(given, Mapping):
        starts = next((given[name] for name in STARTS if name in given), None)
        texts = given.get("text")
        if isinstance(texts, str):
            return [(texts, starts)]
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            return list(zip(texts, starts, strict=True))
    elif isinstance(given, list):
        return [pair for one in given for pair in read_answers(one)]
    raise ValueError(f"'{ANSWERS}' must be {ALLOWED}; got {given!r:.80}")


def normalize_answer(text: Any, start: Any, context: str) -> tuple[str, int]:
    """An answer and the character at which it begins; if no start is given, its first occurrence in the context.

    Raises:
        ValueError: the answer is not there.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            f"the answer {text!r:.80} must be a text; for a question without an answer, give an empty list"
        )
    found = context.find(text)
    if found < 0:
        raise ValueError(f"the answer {text!r:.80} is not in the context")
    if start is None:
        return text, found
    if type(start) is not int:
        raise ValueError(
            f"the start of the answer {text!r:.80} must be a whole number, such as {found}; got {start!r:.80}"
        )
    if not 0 <= start < len(context):
        size = f"{len(context):,} characters"
        raise ValueError(
            f"the start {start} of the answer {text!r:.80} is outside the context of {size}; expected {found}"
        )
    there = context[start : start + len(text)]
    if there != text:
        raise ValueError(
            f"the answer {text!r:.80} does not start at character {start} of the context, which reads {there!r}; "
            f"expected {found}"
        )
    return text, start
