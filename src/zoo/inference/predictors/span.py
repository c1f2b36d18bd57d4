"""Finds the answer to a question in a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zoo.data.ids import ANSWERS, CONTEXT, QUESTION, Ids, Lengths, Piece
from zoo.data.tokenizers.token_spans import encode_with_spans
from zoo.inference.loaded import Loaded
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult, answer_of_document, span_pairs
from zoo.inference.model_inputs import BATCH, collate_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, RowPrediction, predictors
from zoo.inference.shape import row_shape
from zoo.inference.spans import WindowAnswer, answer_from_windows, best_span
from zoo.objectives.kinds.span import AnswerSpan
from zoo.wording import counted


@predictors.register("span")
class FoundAnswer(Predictor):
    """Finds the answer to a question (the text) in a context (its pair), which may be longer than the model reads.

    The output is {text, start, end}, the characters of the context from start to end, or None where there is no
    answer; the score is its probability in the window that it was found in.
    """

    pairs = True
    pair_name = CONTEXT

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        said = "this checkpoint answers questions: TEXT is the question; give the context to answer it from"
        return said if pair is None else None

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        assert pair is not None
        if not text.strip() or not pair.strip():
            return f"the {'context' if text.strip() else 'question'} is empty"
        return None

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        assert inputs.pairs is not None
        objective = loaded.mixture.members["span"]
        assert isinstance(objective, AnswerSpan)
        placed = encode_with_spans(loaded.tokenizer, inputs.pairs)
        read = Windows(loaded, loaded.tokenizer.encode(inputs.texts), [tokens.ids for tokens in placed])
        found = []
        for number, (question, context, tokens) in enumerate(zip(inputs.texts, inputs.pairs, placed, strict=True)):
            answer = answer_from_windows(context, tokens, read.answers(number), objective.no_answer)
            found.append(Prediction([question, context], *answer))
        return found

    def collect_results(self, result: ForwardResult) -> list[Any]:
        return [(number, window) for (_, number), window in span_pairs(result)]

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        answers = list(evaluated.split.rows[document][ANSWERS]["text"])
        return RowPrediction(*answer_of_document(dict(collected), evaluated, document), answers)


class Windows:
    """Questions and their contexts; the model reads a context in windows, a batch of windows at a time."""

    def __init__(self, loaded: Loaded, questions: Sequence[Ids], contexts: Sequence[Ids]) -> None:
        self.loaded = loaded
        self.fields = {
            QUESTION: questions,
            CONTEXT: contexts,
            ANSWERS: [np.empty(0, dtype=np.int64) for _ in questions],
        }
        self.flat = {name: np.concatenate([*ids, np.empty(0, dtype=np.int64)]) for name, ids in self.fields.items()}
        self.lengths = Lengths({name: np.cumsum([0, *map(len, ids)]) for name, ids in self.fields.items()})
        self.form = loaded.mixture.build_form("span", loaded.traits)

    def read(self, piece: Piece) -> Ids:
        return self.flat[piece.field][piece.start : piece.stop]

    def answers(self, number: int) -> list[WindowAnswer]:
        """The best span of each window of a question.

        Raises:
            ValueError: the context has no tokens, or the question is too long.
        """
        # windows are as long as in training and evaluation, even if the model can read longer ones
        limits = row_shape(self.loaded.task, self.loaded.model).limits
        plans = self.form.plan(self.lengths, number, 0, 0, limits)
        if not plans:
            raise ValueError("the context has no tokens")
        if plans[0].truncated:
            most = len(self.fields[QUESTION][number]) - plans[0].truncated
            raise ValueError(
                f"the question is {counted(plans[0].truncated, 'token')} too long: with a context, it may have {most}"
            )
        found = []
        for start in range(0, len(plans), BATCH):
            some = plans[start : start + BATCH]
            built = [self.form.build(plan, self.read, self.loaded.tokenizer.roles) for plan in some]
            logits = self.loaded.run(**collate_inputs(self.loaded, built)).scores["span"].exact().cpu().numpy()
            for plan, example, row_logits in zip(some, built, logits, strict=True):
                assert example.marked is not None, "a form of windows marks their positions"
                found.append(best_span(row_logits[: len(example.tokens)], example.marked, plan.pieces[-1].start))
        return found
