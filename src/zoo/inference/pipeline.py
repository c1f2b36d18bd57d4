"""A trained run as one object that is loaded once and answers as often as it is asked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import merge
from zoo.data.ids import MESSAGES
from zoo.devices.defaults import ordinary_tensors
from zoo.devices.precision import mixed
from zoo.inference.loaded import Loaded
from zoo.inference.predict import predict
from zoo.inference.predictors.causal_lm import chats
from zoo.inference.typed import BATCH
from zoo.models.generation.settings import parse_generate
from zoo.python_words import for_python
from zoo.strict_json import parse_json

SPEAKER = {"role", "from"}  # either key of a turn names it
Turns = Sequence[Mapping[str, str]]
Conversation = Turns | Mapping[str, Turns]


@dataclass(frozen=True)
class Pipeline:
    """Model, tokenizer and task together; a call gives what `zoo predict --json` prints.

    Args:
        batch: texts per forward pass.
    """

    loaded: Loaded
    batch: int = BATCH

    @for_python
    @ordinary_tensors()
    def __call__(
        self,
        texts: str | Iterable[str] | Conversation | Iterable[Conversation],
        pair: str | Iterable[str] | None = None,
        generate: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """A list of predictions in the order of the texts, each with `input`, `output` and `scores`.

        Args:
            texts: one text or image file, or several in a list or another iterable, such as a column of pandas. A model
                that was trained on conversations also takes one or several of them: lists of maps with `role` and
                `content`, or `from` and `value`, or maps `{"messages": …}` of such a list.
            pair: for a model that reads pairs: a second text for each text.
            generate: how text is generated, by the keys of `--set generate.…`; None: the task's settings.

        Raises:
            ValueError: a text is too long, or asks for what the model was not trained for.
            RuntimeError: the model fails, or its outputs are not finite.
        """
        refuse_table(texts, "texts")
        refuse_table(pair, "pair")
        settings = parse_generate(merge(self.loaded.task.generate, {} if generate is None else generate))
        seconds = None if pair is None else several(pair, "pair")
        first = several(as_texts(self.loaded, texts), "texts")
        with mixed(self.loaded.model.device, None):  # whatever autocast the caller is in
            found = predict(self.loaded, first, seconds, settings, writes=bool(generate), batch=self.batch)
        return [answer._asdict() for answer in found]


def as_texts(loaded: Loaded, given: Any) -> Any:
    """Conversations as the lines of JSON that `predict` reads, where the model answers some; else what is given.

    Raises:
        ValueError: a conversation cannot be written as JSON.
    """
    if not chats(loaded):
        return given
    known = listed(given)
    if is_turns(known) and not isinstance(given, Mapping):
        known = [known]
    maps = [{MESSAGES: one} if is_turns(one) else one for one in known]
    return [as_line(one) if isinstance(one, Mapping) and MESSAGES in one else one for one in maps]


def is_turns(given: Any) -> bool:
    """Whether it is a list of turns, which a table of pandas has as an array."""
    counted = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1)
    return counted and len(given) > 0 and all(isinstance(turn, Mapping) and is_turn(turn) for turn in given)


def is_turn(given: Mapping[str, Any]) -> bool:
    """Whether a map names a speaker; one of a whole conversation may have any columns beside it."""
    return MESSAGES not in given and not SPEAKER.isdisjoint(given)


def as_line(conversation: Mapping[str, Any]) -> str:
    turns = conversation[MESSAGES]
    try:
        line = json.dumps({**conversation, MESSAGES: list(turns) if is_turns(turns) else turns})
    except (TypeError, ValueError) as error:
        raise ValueError(f"texts: a conversation must be made of texts: {error}") from None
    parse_json(line, "texts: a conversation")  # what this refuses, such as NaN, would be read as a text
    return line


def refuse_table(given: Any, place: str) -> None:
    """Check that what is asked is no table: one of pandas counts off the names of its columns in place of its rows.

    Its class says so: a column of pandas has a row of its own as an attribute, if its index names it.

    Raises:
        ValueError: it is one.
    """
    kind = type(given)
    if hasattr(kind, "columns"):
        raise ValueError(f"{place}: a table, of type {kind.__name__}, has several columns; give one of them")


def listed(given: Any) -> list[Any]:
    """An iterable as a list; a text, a map, or what is not iterable, as the only one of a list."""
    if isinstance(given, str | Path | bytes | Mapping):
        return [given]
    try:
        entries = iter(given)
    except TypeError:  # an array of no dimension has `__iter__`, too
        return [given]
    return list(entries)


def several(texts: Any, place: str) -> list[str]:
    """A list of texts, also for one; files of pictures may be paths.

    Raises:
        ValueError: one of them is no text.
    """
    known = listed(texts)
    for number, one in enumerate(known, 1):
        if not isinstance(one, str | Path):
            said = f"{place}: input {number} is {one!r:.200}, of type {type(one).__name__}; give a str"
            chat = isinstance(one, Mapping) and bool({"role", MESSAGES} & set(one))
            raise ValueError(said + (", since zoo did not train this checkpoint on conversations" if chat else ""))
    return [str(one) for one in known]
