"""Claims about what metrics compare: which positions are scored, whose they are, and all references of a row."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from looking import loaded, picture
from test_predictions import predictions
from torch import Tensor

from zoo.batches.collate import MicroBatch, documents_from
from zoo.batches.order import PackedRow
from zoo.examples.example import ExamplePlan
from zoo.inference.metric_inputs import ForwardResult, answer_pairs, set_pairs, span_pairs
from zoo.inference.predictors.classification import LikeliestClass
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.span import CONTEXT, FIRST
from zoo.objectives.objective import Term

ZERO = torch.zeros(())


def test_numbers_below_zero_are_compared_and_unknown_ones_are_not():
    targets, guesses = torch.tensor([-1.5, torch.nan, 2.0]), torch.tensor([0.25, 9.0, -1.0])
    term = Term(ZERO, ZERO, 1.0, guesses=guesses)
    passed = ForwardResult(
        Mock(), [], MicroBatch({}, {}, [], 0, 0.0), targets, term, Scores.from_logits(guesses[:, None])
    )
    assert answer_pairs(passed) == [(0.25, -1.5), (-1.0, 2.0)]


def test_a_position_without_a_token_and_one_that_nothing_fills_belong_to_no_example():
    documents = documents_from(np.array([[1, 1, 2, 0], [1, 1, 1, 1]]))
    rows = [PackedRow(0, tuple(Mock(length=length) for length in lengths)) for lengths in ((2, 1), (4,))]

    def owners(places: dict[str, Tensor]) -> list[int]:
        part = MicroBatch({"documents": documents, "places": places}, {}, [], 0, 0.0)
        objective = Mock(head="masked_lm", places_per_target=1)
        term, scores = Term(ZERO, ZERO, 1.0), Scores.from_logits(torch.zeros(1, 1))
        return ForwardResult(objective, rows, part, torch.zeros(1), term, scores).owners().tolist()

    assert owners({}) == [0, 0, 1, -1, 2, 2, 2, 2]
    assert owners({"masked_lm": torch.tensor([1, 2, 6, -1])}) == [0, 1, 2, -1]


def test_classes_of_a_document_whose_classes_are_unknown_are_not_compared():
    targets, guesses = torch.tensor([[1, 0], [-1, -1]]), torch.tensor([[1, 1], [0, 1]])
    part, term = MicroBatch({}, {}, [], 0, 0.0), Term(ZERO, ZERO, 1.0, guesses=guesses)
    passed = ForwardResult(Mock(), [], part, targets, term, Scores.from_logits(guesses.float()))
    assert set_pairs(passed) == [([1, 1], [1, 0])]


def test_an_answer_is_not_looked_for_in_the_padding():
    targets = torch.tensor([[FIRST, CONTEXT, CONTEXT, -1]])
    logits = torch.tensor([[[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [9.0, 9.0]]])
    part, term = MicroBatch({}, {}, [(0, 5, 2)], 3, 0.75), Term(ZERO, ZERO, 1.0)
    ((name, found),) = span_pairs(ForwardResult(Mock(), [], part, targets, term, Scores.from_logits(logits)))
    assert (name, found.first, found.stop, found.score) == ((5, 2), 0, 2, 6.0)
    assert found.share == pytest.approx(float(torch.tensor([0.0, 3.0, 0.0]).softmax(0)[1]) ** 2)


def test_each_document_has_the_scores_of_its_own_place():
    rows = [PackedRow(0, (ExamplePlan(number, 0, 3),)) for number in range(2)]
    part = MicroBatch({"places": {"classification": torch.tensor([0, -1, 8, -1])}}, {}, [], 0, 0.0)
    objective, scores = Mock(head="classification", places_per_target=1), Scores.from_logits(torch.eye(4))
    found = LikeliestClass().collect_results(ForwardResult(objective, rows, part, ZERO, Term(ZERO, ZERO, 1.0), scores))
    assert [one.argmax().item() for one in found] == [0, 2]


def test_of_several_captions_each_is_right_and_coverage_is_part_of_their_loss(tmp_path: Path):
    columns, losses, said = {"image": "a", "text": "b"}, [], "a dog"
    for coverage in (0.0, 5.0):
        model = loaded("captioner-rnn-nano", {"captioning": {"coverage": coverage}})
        rows = [{"a": picture(tmp_path), "b": ["cats", said]}]
        found, (line,) = predictions(model, tmp_path, rows, columns, metrics=["sequence_accuracy"])
        assert line["expected"] == ["cats", said]
        assert found["captioning/sequence_accuracy"] == (line["output"] == said)
        losses.append(found["loss"])
        said = line["output"]
    assert found["captioning/sequence_accuracy"] == 1 and losses[1] > losses[0] + 0.01


def test_what_a_test_split_keeps_to_itself_is_not_expected(tmp_path: Path):
    choices = [{"a": "cats", "o": ["dogs", "runs"], "y": label} for label in (None, 1)]
    columns = {"context": "a", "choices": "o", "label": "y"}
    _, lines = predictions(loaded("bert-nano", "choice"), tmp_path, choices, columns, "test")
    assert [line["expected"] for line in lines] == [None, "runs"]
    model = loaded("bert-nano", "tagging", heads=[{"name": "tagging", "labels": 2}])
    tagged = [{"w": ["cats", "dogs"], "t": tags} for tags in (["b", "a"], None)]
    _, lines = predictions(model, tmp_path, tagged, {"words": "w", "tags": "t"}, "test", labels=["a", "b"])
    assert [line["expected"] for line in lines] == [["b", "a"], [None, None]]
