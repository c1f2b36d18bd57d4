"""Predict for texts or images: each input goes to the predictor of the checkpoint's first objective that fits it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch

from zoo.devices.memory import map_batches
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.model_inputs import BATCH, SORT_WINDOW
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, Texts, pair_obstacle, predictors
from zoo.inference.text_generation import GeneratedCounts, TextGeneration
from zoo.models.attention_backend import use_fastest
from zoo.models.generation.fast import fast_generation
from zoo.models.generation.settings import GenerateSettings
from zoo.registry import check, refuse_below


class Unanswered(NamedTuple):
    """An input without an answer, its number among the inputs, from 1, and the reason."""

    input: Any
    line: int
    error: str


class NumberedInput(NamedTuple):
    """An input, its number, from 1, and its predictor, or the reason why there is none."""

    number: int
    text: str
    pair: str | None
    predictor: Predictor | str


def predict(
    loaded: Loaded,
    texts: Texts,
    pairs: Texts | None,
    settings: GenerateSettings,
    writes: bool = False,
    batch: int = BATCH,
) -> list[Prediction]:
    """Answer all inputs, or raise an error; arguments as in `predict_each`.

    Raises:
        ValueError: as `predict_each`, or an input has no answer: it is too long, or fits no objective of the model.
    """
    found = []
    for answer in predict_each(loaded, texts, pairs, settings, writes, batch):
        if isinstance(answer, Unanswered):
            raise ValueError(f"input {answer.line}: {answer.error}" if len(texts) > 1 else answer.error)
        found.append(answer)
    return found


def predict_each(
    loaded: Loaded,
    texts: Texts,
    pairs: Texts | None,
    settings: GenerateSettings,
    writes: bool = False,
    batch: int = BATCH,
) -> Iterator[Prediction | Unanswered]:
    """Yield an answer per input, in order; an input that cannot be answered gives `Unanswered`.

    If the checkpoint has several objectives, the first that fits an input answers it: BERT, for example, fills the
    masks of a text, and judges whether the second text of a pair follows the first.

    Args:
        pairs: second texts, for models that read pairs.
        settings: how text is generated.
        writes: whether the answer must be generated text, so that only predictors that generate are used.
        batch: texts per forward pass; texts of similar length are batched together.

    Raises:
        ValueError: the checkpoint has no tokenizer, or its head was never trained.
        RuntimeError: the model fails, or its outputs are not finite.
    """
    refuse_below(1, **{"--batch": check(batch, int, "--batch")})
    dtype = next(loaded.model.parameters()).dtype
    use_fastest(loaded.model, None if dtype == torch.float32 else dtype)
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"--pair: {len(pairs)} second texts for {len(texts)} first ones; give one for each")
    known = {name: predictors.build(name) for name in loaded.mixture.members if name in predictors.names()}
    second: Sequence[str | None] = pairs or [None] * len(texts)
    numbered, generation = enumerate(zip(texts, second, strict=True), 1), TextGeneration(settings, GeneratedCounts())
    while window := list(islice(numbered, min(SORT_WINDOW * batch, sys.maxsize))):  # islice takes no larger number
        inputs = [
            NumberedInput(n, text, pair, choose_predictor(loaded, known, text, pair, writes))
            for n, (text, pair) in window
        ]
        answers = predict_sorted(loaded, inputs, generation, batch)
        yield from (answers[one.number] for one in inputs)
    generation.counts.warn_unfinished(loaded)


def predict_sorted(
    loaded: Loaded, inputs: Sequence[NumberedInput], generation: TextGeneration, batch: int
) -> dict[int, Prediction | Unanswered]:
    """Answer inputs, by number; each batch has inputs of one predictor and of similar length."""
    by_predictor: dict[int, list[NumberedInput]] = {}
    for one in inputs:
        by_predictor.setdefault(id(one.predictor), []).append(one)
    answers: dict[int, Prediction | Unanswered] = {}
    for alike in by_predictor.values():
        # longest first, so that if memory runs out it does so in the first batch, and later ones are smaller
        alike.sort(key=lambda one: len(one.text) + len(one.pair or ""), reverse=True)
        predictor = alike[0].predictor
        writes = not isinstance(predictor, str) and predictor.writes
        with fast_generation(loaded.model) if writes and generation.settings.fast else nullcontext():
            found = [
                answer
                for some in map_batches(alike, batch, partial(predict_batch, loaded, generation=generation))
                for answer in some
            ]
        answers |= {one.number: answer for one, answer in zip(alike, found, strict=True)}
    return answers


def choose_predictor(
    loaded: Loaded, known: dict[str, Predictor], text: str, pair: str | None, writes: bool
) -> Predictor | str:
    """Return the predictor of the first objective that fits an input, or why none does.

    Raises:
        ValueError: the head that would answer is newly initialized.
    """
    obstacles = []
    for name in loaded.mixture.members:
        obstacle = find_obstacle(loaded, name, pair, writes) or known[name].obstacle(loaded, text, pair)
        if obstacle is None:
            loaded.refuse_untrained(name)
            return known[name]
        obstacles.append(obstacle)
    return "; or ".join(obstacles)


def find_obstacle(loaded: Loaded, name: str, pair: str | None, writes: bool) -> str | None:
    """Why an objective's predictor cannot answer with or without this pair, or cannot generate text; None: it can."""
    if name not in predictors.names():
        return f"no predictor is registered for the objective {name}"
    if said := pair_obstacle(loaded, name, pair):
        return f"--pair: {said}"
    if writes and not predictors[name].writes:
        return f"--set generate.…: this checkpoint was trained for {name}, which generates no text; leave it out"
    return None


def predict_batch(
    loaded: Loaded, inputs: Sequence[NumberedInput], generation: TextGeneration
) -> list[Prediction | Unanswered]:
    """Answer inputs of one predictor; if it refuses the batch, halve it until the refused inputs are found."""
    predictor, texts = inputs[0].predictor, [one.text for one in inputs]
    if isinstance(predictor, str):
        return [Unanswered(one.text, one.number, predictor) for one in inputs]
    pairs = [one.pair for one in inputs if one.pair is not None] or None
    try:
        # the numbers seed the draws, so that an answer depends neither on the batch nor on the order by length
        numbered = replace(generation, numbers=[one.number - 1 for one in inputs])
        found = predictor.predict(loaded, InputBatch(texts, pairs, numbered))
        refuse_not_finite(number for prediction in found for number in numeric_scores(prediction.scores))
        return list(found)
    except ValueError as error:
        if len(inputs) == 1:
            return [Unanswered(texts[0], inputs[0].number, str(error))]
    middle = len(inputs) // 2
    return [
        *predict_batch(loaded, inputs[:middle], generation),
        *predict_batch(loaded, inputs[middle:], generation),
    ]


def numeric_scores(scores: Any) -> Iterator[float]:
    """Yield the numbers in a prediction's scores: a score, probabilities by name, or a list of either."""
    for one in scores if isinstance(scores, list) else [scores]:
        yield from (n for n in (one.values() if isinstance(one, dict) else [one]) if isinstance(n, float))
