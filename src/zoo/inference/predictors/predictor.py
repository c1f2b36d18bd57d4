"""Slot `predictor`: what a model does with a text or a picture once an objective has trained it, by its name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from zoo.inference.loaded import Loaded
from zoo.models.generation.settings import GenerateSettings
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
        numbers: of the texts among all that are typed, from 0, which samples depend on.
        settings: how text is generated.
    """

    texts: Texts
    pairs: Texts | None
    numbers: Sequence[int]
    settings: GenerateSettings


class Predictor(ABC):
    """Uses a model for what an objective trained it to do.

    Class attributes:
        pairs: whether it takes a second text.
        writes: whether it generates text.
    """

    pairs: ClassVar[bool] = False
    writes: ClassVar[bool] = False

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        """Why it cannot answer an input, as a message tells it; None: it can, unless the input is too long."""
        return None

    @abstractmethod
    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        """A prediction for each text.

        Raises:
            ValueError: a text is too long, or a file is no picture.
        """


def likeliest(inputs: Sequence[Any], names: Sequence[str], logits: Tensor) -> list[Prediction]:
    """The likeliest of the named answers to each input; scores are the probabilities of all of them."""
    shares = [dict(zip(names, share, strict=True)) for share in logits.float().softmax(-1).tolist()]
    return [Prediction(i, max(s, key=s.__getitem__), s) for i, s in zip(inputs, shares, strict=True)]


predictors: Slot[Predictor] = Slot("predictor")
