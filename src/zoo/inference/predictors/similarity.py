"""Predicts the class of a pair of texts, or a number, independent of their order."""

from collections.abc import Sequence
from typing import Any

import torch

from zoo.examples.example import Example
from zoo.examples.template import join_documents
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import build_examples, score_texts
from zoo.inference.predictors.classification import label_loss_for, label_prediction
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, RowPrediction, Texts, predictors
from zoo.objectives.kinds.similarity import ORDERS, add_orders


@predictors.register("similarity")
class PairSimilarity(Predictor):
    """Predicts the class of a pair of texts, several classes or a number, independent of the order of the texts."""

    pairs = True

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        return "similarity compares two texts: give the second one" if pair is None else None

    def example(self, loaded: Loaded, text: str, pair: str | None) -> Example:
        assert pair is not None
        return join_documents([order for (order,) in in_both_orders(loaded, [text], [pair])])

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        assert inputs.pairs is not None
        orders = in_both_orders(loaded, inputs.texts, inputs.pairs)
        examples = [example for pair in zip(*orders, strict=True) for example in pair]
        with torch.no_grad():
            logits = add_orders(score_texts(loaded, examples, "similarity")).exact()
        answers = label_loss_for(loaded.task, logits.shape[-1]).named_predictions(logits)
        assert len(examples) == ORDERS * len(answers)
        return [Prediction(given, *answer) for given, answer in zip(inputs.inputs, answers, strict=True)]

    def collect_results(self, result: ForwardResult) -> list[Any]:
        return list(add_orders(result.scores).exact()[result.filled()])

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        return label_prediction(evaluated, document, collected[0])


def in_both_orders(loaded: Loaded, texts: Texts, pairs: Texts) -> list[list[Example]]:
    """The examples of all pairs as given, and those of all pairs with their texts swapped."""
    both = [loaded.tokenizer.encode(given) for given in (texts, pairs)]
    return [build_examples(loaded, *order) for order in (both, both[::-1])]
