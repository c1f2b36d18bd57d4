"""A trained run as one object: loaded once, called for any number of predictions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import merge
from zoo.data.ids import MESSAGES
from zoo.devices.defaults import default_torch_settings
from zoo.devices.precision import autocast_to
from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import BATCH
from zoo.inference.predict import predict
from zoo.inference.predictors.causal_lm import trained_on_conversations
from zoo.models.generation.settings import parse_generate
from zoo.python_errors import for_python
from zoo.strict_json import parse_json

SPEAKER = {"role", "from"}  # keys of a turn, either of which names its speaker
Turns = Sequence[Mapping[str, str]]
Conversation = Turns | Mapping[str, Turns]


@dataclass(frozen=True)
class Pipeline:
    """Model, tokenizer and task together; a call returns what `zoo predict --json` prints.

    Args:
        batch: texts per forward pass.
    """

    loaded: Loaded
    batch: int = BATCH

    @for_python
    @default_torch_settings()
    def __call__(
        self,
        texts: str | Iterable[str] | Conversation | Iterable[Conversation],
        pair: str | Iterable[str] | None = None,
        generate: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return a prediction per text, in order, each with `input`, `output` and `scores`.

        Args:
            texts: one text or image file, or several in a list or another iterable, such as a column of pandas. A model
                that was trained on conversations also takes one or several of them: lists of dicts with `role` and
                `content`, or `from` and `value`, or dicts `{"messages": …}` with such a list.
            pair: for a model that reads pairs: one second text per text.
            generate: how text is generated, by the keys of `--set generate.…`; None: the task's settings.

        Raises:
            ValueError: a text is too long, or the model was not trained for such an input.
            RuntimeError: the model fails, or its outputs are not finite.
        """
        refuse_table(texts, "texts")
        refuse_table(pair, "pair")
        settings = parse_generate(merge(self.loaded.task.generate, {} if generate is None else generate))
        seconds = None if pair is None else text_list(pair, "pair")
        reads_images = self.loaded.traits.image_size is not None
        first = text_list(conversations_to_json(self.loaded, texts), "texts", reads_images)
        with autocast_to(self.loaded.model.device, None):  # turns off the caller's autocast
            found = predict(self.loaded, first, seconds, settings, writes=bool(generate), batch=self.batch)
        return [answer._asdict() for answer in found]


def conversations_to_json(loaded: Loaded, given: Any) -> Any:
    """Convert conversations to the JSON lines that `predict` reads, if the model was trained on any; else do nothing.

    Raises:
        ValueError: a conversation cannot be written as JSON.
    """
    if not trained_on_conversations(loaded):
        return given
    known = as_list(given)
    if is_turns(known) and not isinstance(given, Mapping):
        known = [known]
    maps = [{MESSAGES: one} if is_turns(one) else one for one in known]
    return [conversation_to_json(one) if isinstance(one, Mapping) and MESSAGES in one else one for one in maps]


def is_turns(given: Any) -> bool:
    """Whether it is a list of turns, or an array of them, as in a pandas table."""
    counted = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1)
    return counted and len(given) > 0 and all(isinstance(turn, Mapping) and is_turn(turn) for turn in given)


def is_turn(given: Mapping[str, Any]) -> bool:
    """Whether a dict is a turn: it names a speaker, and is not a whole conversation, which may have any columns."""
    return MESSAGES not in given and not SPEAKER.isdisjoint(given)


def conversation_to_json(conversation: Mapping[str, Any]) -> str:
    """A conversation as a line of JSON.

    Raises:
        ValueError: it cannot be written as JSON.
    """
    turns = conversation[MESSAGES]
    try:
        line = json.dumps({**conversation, MESSAGES: list(turns) if is_turns(turns) else turns})
    except (TypeError, ValueError) as error:
        raise ValueError(f"texts: a conversation must be made of texts: {error}") from None
    parse_json(line, "texts: a conversation")  # refuses NaN, for which `predict` would take the line for plain text
    return line


def refuse_table(given: Any, place: str) -> None:
    """Refuse a table: iterating over a pandas DataFrame yields column names instead of rows.

    The class is checked, not the object: a pandas Series has an attribute `columns` if its index has such a label.

    Raises:
        ValueError: it is a table.
    """
    kind = type(given)
    if hasattr(kind, "columns"):
        raise ValueError(f"{place}: a table, of type {kind.__name__}, has several columns; give one of them")


def as_list(given: Any) -> list[Any]:
    """Convert an iterable to a list; put a text, a dict or a non-iterable into a list of its own."""
    if isinstance(given, str | Path | bytes | Mapping):
        return [given]
    try:
        entries = iter(given)
    except TypeError:  # tried, since a 0-dimensional array has `__iter__` too
        return [given]
    return list(entries)


def text_list(texts: Any, place: str, are_images: bool = False) -> list[str]:
    """Convert one or several texts to a list of str.

    Args:
        are_images: they are paths of image files, which may be `Path` objects. A model of texts would read the path.

    Raises:
        ValueError: one of them is not a text.
    """
    known = as_list(texts)
    for number, one in enumerate(known, 1):
        if not isinstance(one, str | Path if are_images else str):
            expected = "the path of an image" if are_images else "a str"
            said = f"{place}: input {number} is {one!r:.200}, of type {type(one).__name__}; give {expected}"
            chat = isinstance(one, Mapping) and bool({"role", MESSAGES} & set(one))
            raise ValueError(said + (", since zoo did not train this checkpoint on conversations" if chat else ""))
    return [str(one) for one in known]
