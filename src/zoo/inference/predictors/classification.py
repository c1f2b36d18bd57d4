"""Predicts the class of a text, a pair or an image, several classes, or a number."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from zoo.data.ids import LABEL
from zoo.data.task import Task
from zoo.inference.gathered import About, Passed
from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, Told, predictors
from zoo.inference.typed import picture_inputs, score_texts, typed_examples
from zoo.objectives.label_losses import LABEL_LOSSES, LabelLoss


@predictors.register("classification")
class LikeliestClass(Predictor):
    """Predicts the most likely class; with `labels: several`, all classes above 1/2; with `labels: number`, a number.

    Scores are the probabilities of all classes, or the number.
    """

    pairs = True

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        known = loaded.task.columns  # empty for an imported model: whether it was trained on pairs is not recorded
        if "pair" in known and pair is None:
            return "this checkpoint classifies pairs; give the second text"
        if known and "pair" not in known and pair is not None:
            what = "texts" if loaded.stream.image_size is None else "images"
            return f"this checkpoint classifies single {what}; leave it out"
        return None

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        if loaded.stream.image_size is None:
            pairs = None if asked.pairs is None else loaded.tokenizer.encode(asked.pairs)
            examples = typed_examples(loaded, loaded.tokenizer.encode(asked.texts), pairs)
            logits = score_texts(loaded, examples, "classification").exact()
        else:
            logits = loaded.run(tokens=picture_inputs(loaded, asked.texts)[0]).scores["classification"].exact()
        answers = answer_for(loaded.task, logits.shape[-1]).named_predictions(logits)
        return [Prediction(given, *answer) for given, answer in zip(asked.inputs, answers, strict=True)]

    def keep(self, passed: Passed) -> list[Any]:
        return list(passed.scores.exact()[passed.filled()])

    def tell(self, about: About, document: int, kept: Sequence[Any]) -> Told:
        return tell_label(about, document, kept[0])


def answer_for(task: Task, scores: int) -> LabelLoss:
    """The kind of a task's labels, with the names of its classes; without names, their numbers serve as names."""
    return LABEL_LOSSES[task.label_kind](task.labels or [str(i) for i in range(scores)])


def tell_label(about: About, document: int, logits: Tensor) -> Told:
    """The prediction from a document's logits, beside the row's own label."""
    answer, label = answer_for(about.loaded.task, len(logits)), about.split.rows[document].get(LABEL)
    return Told(*answer.named_predictions(logits[None])[0], None if label is None else answer.named_label(label))
