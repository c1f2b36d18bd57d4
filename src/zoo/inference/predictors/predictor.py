"""Slot `predictor`: what a model does with a text or a picture once an objective has trained it, by its name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from zoo.inference.loaded import Loaded
from zoo.models.generation.settings import GenerateSettings
from zoo.registry import Slot

Texts = Sequence[str]


class Prediction(NamedTuple):
    """An input, what the model makes of it, and how sure it is."""

    input: Any
    output: Any
    scores: Any


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
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings, numbers: Sequence[int]
    ) -> list[Prediction]:
        """A prediction for each text; a model that reads pictures is given the paths of their files.

        Raises:
            ValueError: a text is too long, or a file is no picture.
        """


predictors: Slot[Predictor] = Slot("predictor")
