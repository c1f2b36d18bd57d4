"""Slot `predictor`: how a model answers a text or an image; registered under the objective that trained it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from zoo.data.ids import Ids
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.example import Example
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import build_examples
from zoo.inference.text_generation import TextGeneration
from zoo.registry import Slot

Texts = Sequence[str]


class Prediction(NamedTuple):
    """An input, the model's output, and its scores (probabilities, mostly)."""

    input: Any
    output: Any
    scores: Any


class InputBatch(NamedTuple):
    """A batch of inputs for one predictor.

    Args:
        texts: the texts, or paths of images, for a model that reads images.
        pairs: second texts, one per text; None: none.
        generation: how text is generated; its `numbers` are the texts' indices among all inputs.
    """

    texts: Texts
    pairs: Texts | None
    generation: TextGeneration

    @property
    def inputs(self) -> list[Any]:
        """The `input` of each prediction: the text, or both texts of the pair."""
        return list(self.texts if self.pairs is None else map(list, zip(self.texts, self.pairs, strict=True)))


class RowPrediction(NamedTuple):
    """The model's output for a row of data, its scores, and the expected output."""

    output: Any
    scores: Any
    expected: Any


class Predictor(ABC):
    """Answers inputs with a model that was trained on an objective.

    Class attributes:
        pairs: whether it takes a second text.
        writes: whether it generates text.
        pair_name: the name of its second text.
    """

    pairs: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    pair_name: ClassVar[str] = "second text"

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        """Why it cannot answer an input, for an error message; None: it can, unless the input is too long."""
        return None

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        """Why it cannot use this second text, or none, for an error message after the option's name; None: it can."""
        return None

    def reads_special_tokens(self, tokenizer: Tokenizer) -> bool:
        """Whether special tokens that are spelled out in a text, such as [MASK], are read as special tokens."""
        return False

    def encode(self, loaded: Loaded, texts: Texts) -> list[Ids]:
        """Encode texts, with special tokens if `reads_special_tokens`."""
        tokenizer = loaded.tokenizer
        if self.reads_special_tokens(tokenizer):
            return [tokenizer.encode_with_roles(text) for text in texts]
        return tokenizer.encode(texts)

    def example(self, loaded: Loaded, text: str, pair: str | None) -> Example:
        """Build what the model reads for an input, as one row; by default the text or pair in the training template.

        Raises:
            ValueError: the input is too long.
        """
        pairs = None if pair is None else self.encode(loaded, [pair])
        return build_examples(loaded, self.encode(loaded, [text]), pairs)[0]

    @abstractmethod
    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        """Return a prediction per text.

        Raises:
            ValueError: a text is too long, or a file is not an image.
        """

    def collect_results(self, result: ForwardResult) -> list[Any]:
        """Return what `row_prediction` needs of each example of a pass; by default the sum of its losses and a count.

        Not called for forms that generate text (`Form.writes`): for those the text is collected.
        """
        states, targets, owners = result.scores.states.flatten(0, -2), result.targets.flatten(), result.owners()
        found = []
        for number in range(len(result.plans)):
            its = torch.from_numpy(np.flatnonzero(owners == number)).to(states.device)
            scores = result.scores.with_states(states[its])
            term = result.objective.term(scores, targets[its])
            found.append((term.sum.item(), int(term.count)))
        return found

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        """Return the model's output for a row, from what was collected of each of its examples, or from its text."""
        if evaluated.examples.form.writes:
            return RowPrediction(
                collected[0], None, evaluated.examples.form.reference_texts(evaluated.split.rows[document])
            )
        loss, count = (sum(each) for each in zip(*collected, strict=True))
        return RowPrediction(None, {"loss": loss / count if count else 0.0, "tokens": count}, None)


predictors: Slot[Predictor] = Slot("predictor")


def first_predictor(loaded: Loaded) -> Predictor:
    """The predictor of the model's first objective."""
    return predictors.build(next(iter(loaded.mixture.members)))


def pair_obstacle(loaded: Loaded, name: str, pair: str | None) -> str | None:
    """Why an objective's predictor cannot use this second text, or none; None: it can."""
    if pair is not None and not predictors[name].pairs:
        what = "text" if loaded.traits.image_size is None else "image"
        return f"this checkpoint was trained for {name}, which reads one {what}; leave it out"
    return predictors.build(name).pair_obstacle(loaded, pair)
