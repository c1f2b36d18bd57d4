"""Chooses the text that continues a context."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from zoo.data.columns.lists import MOST_CHOICES
from zoo.data.ids import CHOICES, LABEL
from zoo.examples.example import Example
from zoo.examples.template import join_documents
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import build_examples, score_texts
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, RowPrediction, predictors


@predictors.register("choice")
class BestChoice(Predictor):
    """Chooses the most likely of several texts, the lines of the pair, to continue the text; scores: probabilities."""

    pairs = True
    pair_name = CHOICES

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        choices = [] if pair is None else lines(pair)
        if not 2 <= len(choices) <= MOST_CHOICES:
            return (
                "this checkpoint chooses one of several texts: give them for each TEXT, which is the context, "
                f"one per line; got {len(choices)}, expected 2 to {MOST_CHOICES}"
            )
        return None if len(set(choices)) == len(choices) else "a choice is given twice"

    def example(self, loaded: Loaded, text: str, pair: str | None) -> Example:
        assert pair is not None
        choices = loaded.tokenizer.encode(lines(pair))
        return join_documents(build_examples(loaded, loaded.tokenizer.encode([text]) * len(choices), choices))

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        assert inputs.pairs is not None
        choices = [lines(pair) for pair in inputs.pairs]
        contexts = loaded.tokenizer.encode(inputs.texts)
        repeated = [ids for ids, own in zip(contexts, choices, strict=True) for _ in own]
        examples = build_examples(loaded, repeated, loaded.tokenizer.encode([text for own in choices for text in own]))
        logits = score_texts(loaded, examples, "choice").exact()[:, 0]
        found, apart = [], torch.split(logits, [len(own) for own in choices])
        for text, own, scores in zip(inputs.texts, choices, apart, strict=True):
            shares = dict(zip(own, scores.softmax(0).tolist(), strict=True))
            found.append(Prediction([text, own], max(shares, key=shares.__getitem__), shares))
        return found

    def collect_results(self, result: ForwardResult) -> list[Any]:
        scores, ends = result.scores.exact()[result.filled(), 0], np.cumsum([len(p.pieces) // 2 for p in result.plans])
        return list(torch.tensor_split(scores, ends[:-1].tolist()))

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        row = evaluated.split.rows[document]
        choices, label = list(row[CHOICES]), row.get(LABEL, -1)
        chosen = choices[int(collected[0].argmax())]
        return RowPrediction(chosen, collected[0].softmax(0).tolist(), choices[label] if label >= 0 else None)


def lines(pair: str) -> list[str]:
    """The choices in a second text: its lines that are not blank."""
    return [line.strip() for line in pair.split("\n") if line.strip()]
