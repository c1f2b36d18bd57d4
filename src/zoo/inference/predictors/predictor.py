"""Slot `predictor`: what a model does with a text or a picture once an objective has trained it, by its name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.example import Example
from zoo.inference.gathered import About, Passed
from zoo.inference.loaded import Loaded
from zoo.inference.typed import typed_examples
from zoo.inference.writing import Writing
from zoo.registry import Slot

Texts = Sequence[str]


class Prediction(NamedTuple):
    """An input, what the model makes of it, and how sure it is."""

    input: Any
    output: Any
    scores: Any


class Questions(NamedTuple):
    """What is asked of one predictor.

    Args:
        texts: or the files of pictures, for a model that reads pictures.
        pairs: second texts, where they are asked for.
        writing: how text is written; it has the texts' numbers among all that are typed, from 0.
    """

    texts: Texts
    pairs: Texts | None
    writing: Writing

    @property
    def inputs(self) -> list[Any]:
        """What predictions give back: each text, or both texts of each pair."""
        return list(self.texts if self.pairs is None else map(list, zip(self.texts, self.pairs, strict=True)))


class Told(NamedTuple):
    """What the model says of a row of data, how sure it is, and what the data says."""

    output: Any
    scores: Any
    expected: Any


class Predictor(ABC):
    """Uses a model for what an objective trained it to do.

    Class attributes:
        pairs: whether it takes a second text.
        writes: whether it generates text.
        second: what its second text is.
    """

    pairs: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    second: ClassVar[str] = "second text"

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        """Why it cannot answer an input, as a message tells it; None: it can, unless the input is too long."""
        return None

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        """Why it cannot do with such a second text, or without one: what a message says behind the option's name."""
        return None

    def reads_roles(self, tokenizer: Tokenizer) -> bool:
        """Whether what spells a role in a text, such as [MASK], stands for that role, with such a tokenizer."""
        return False

    def encode(self, loaded: Loaded, texts: Texts) -> list[Ids]:
        """The ids of texts as it reads them."""
        tokenizer = loaded.tokenizer
        return [*map(tokenizer.encode_with_roles, texts)] if self.reads_roles(tokenizer) else tokenizer.encode(texts)

    def example(self, loaded: Loaded, text: str, pair: str | None) -> Example:
        """What the model reads of an input, in one row; here the text, or both, in the template of its training.

        Raises:
            ValueError: it is too long.
        """
        pairs = None if pair is None else self.encode(loaded, [pair])
        return typed_examples(loaded, self.encode(loaded, [text]), pairs)[0]

    @abstractmethod
    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        """A prediction for each text.

        Raises:
            ValueError: a text is too long, or a file is no picture.
        """

    def keep(self, passed: Passed) -> list[Any]:
        """What is kept of each example of a pass of evaluation, for `tell`; here its loss, summed, and of how many.

        Forms that ask for a text keep that instead, and ask this for nothing.
        """
        states, targets, owners = passed.scores.states.flatten(0, -2), passed.targets.flatten(), passed.owners()
        found = []
        for number in range(len(passed.plans)):
            its = torch.from_numpy(np.flatnonzero(owners == number)).to(states.device)
            scores = passed.scores.of_others(states[its])
            term = passed.objective.term(scores, targets[its])
            found.append((term.sum.item(), int(term.count)))
        return found

    def tell(self, about: About, document: int, kept: Sequence[Any]) -> Told:
        """What the model says of a row, from what was kept of its examples."""
        if about.examples.form.writes:
            return Told(kept[0], None, about.examples.form.expected(about.split.rows[document]))
        loss, count = (sum(each) for each in zip(*kept, strict=True))
        return Told(None, {"loss": loss / count if count else 0.0, "tokens": count}, None)


predictors: Slot[Predictor] = Slot("predictor")


def first_predictor(loaded: Loaded) -> Predictor:
    """What uses the model for what its first objective trained it for."""
    return predictors.build(next(iter(loaded.mixture.members)))


def pair_obstacle(loaded: Loaded, name: str, pair: str | None) -> str | None:
    """Why an objective's predictor cannot do with such a second text, or without one."""
    if pair is not None and not predictors[name].pairs:
        what = "text" if loaded.stream.image_size is None else "image"
        return f"this checkpoint was trained for {name}, which reads one {what}; leave it out"
    return predictors.build(name).pair_obstacle(loaded, pair)
