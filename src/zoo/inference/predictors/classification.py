"""Predicts the class of a text, a pair or an image, several classes, or a number."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from zoo.data.ids import LABEL
from zoo.data.task import Task
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import build_examples, image_inputs, score_texts
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, RowPrediction, predictors
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
            what = "texts" if loaded.traits.image_size is None else "images"
            return f"this checkpoint classifies single {what}; leave it out"
        return None

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        if loaded.traits.image_size is None:
            pairs = None if inputs.pairs is None else loaded.tokenizer.encode(inputs.pairs)
            examples = build_examples(loaded, loaded.tokenizer.encode(inputs.texts), pairs)
            logits = score_texts(loaded, examples, "classification").exact()
        else:
            logits = loaded.run(tokens=image_inputs(loaded, inputs.texts)[0]).scores["classification"].exact()
        answers = label_loss_for(loaded.task, logits.shape[-1]).named_predictions(logits)
        return [Prediction(given, *answer) for given, answer in zip(inputs.inputs, answers, strict=True)]

    def collect_results(self, result: ForwardResult) -> list[Any]:
        return list(result.scores.exact()[result.filled()])

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        return label_prediction(evaluated, document, collected[0])


def label_loss_for(task: Task, scores: int) -> LabelLoss:
    """The kind of a task's labels, with the names of its classes; without names, their numbers serve as names."""
    return LABEL_LOSSES[task.label_kind](task.labels or [str(i) for i in range(scores)])


def label_prediction(evaluated: EvaluatedSplit, document: int, logits: Tensor) -> RowPrediction:
    """The prediction from a document's logits (outputs,), beside the row's own label."""
    kind, label = label_loss_for(evaluated.loaded.task, len(logits)), evaluated.split.rows[document].get(LABEL)
    return RowPrediction(*kind.named_predictions(logits[None])[0], None if label is None else kind.named_label(label))
