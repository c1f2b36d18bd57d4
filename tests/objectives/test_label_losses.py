"""What labels cost, beside torch's own losses, and what they are called."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zoo.data.task import read_task
from zoo.models.heads.cross_entropy import FEW
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.classification import Classification
from zoo.objectives.kinds.tagging import Tagging
from zoo.objectives.label_losses import LABEL_LOSSES, LabelLoss, OneClass, OneNumber, SeveralClasses
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import Objective

NAMES = ("a", "b", "c")
LOGITS = torch.tensor([[0.3, -1.2, 2.0], [0.1, 0.2, -0.4], [1.5, 0.0, 0.7]], dtype=torch.float64)


def mean(answer: LabelLoss, targets: Tensor, logits: Tensor = LOGITS, smoothing: float = 0.0) -> Tensor:
    found = answer.cost(Scores.from_logits(logits), targets, smoothing)
    return found.sum / found.count


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_weighted_classes_cost_what_torch_says(smoothing: float):
    weights, targets = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64), torch.tensor([2, 0, 2])
    expected = nn.CrossEntropyLoss(weights, label_smoothing=smoothing)(LOGITS, targets)
    torch.testing.assert_close(mean(OneClass(NAMES, {"a": 0.5, "c": 3.0}), targets, smoothing=smoothing), expected)


@pytest.mark.parametrize("weights", [None, {"a": 0.5, "c": 3.0}])
def test_the_likelihood_of_classes_is_neither_weighted_nor_smoothed(weights: dict[str, float] | None):
    targets = torch.tensor([2, -1, 0])
    found = OneClass(NAMES, weights).cost(Scores.from_logits(LOGITS), targets, 0.2)
    expected = nn.CrossEntropyLoss(ignore_index=-1, reduction="sum")(LOGITS, targets)
    torch.testing.assert_close(found.likelihood, expected)
    assert not torch.isclose(found.sum, expected)


def test_weights_are_copied_to_a_device_once():
    """A GPU would finish all of its work before each copy."""
    answer, elsewhere = OneClass(NAMES, {"a": 0.5}), torch.device("meta")
    assert answer.weights_on(elsewhere) is answer.weights_on(elsewhere)
    assert answer.weights_on(torch.device("cpu")).tolist() == [0.5, 1.0, 1.0]


def test_several_classes_cost_what_torch_says():
    targets = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])
    expected = nn.BCEWithLogitsLoss()(LOGITS, targets.double())
    torch.testing.assert_close(mean(SeveralClasses(NAMES), targets), expected)


def test_several_classes_smoothed_have_targets_between():
    targets = torch.tensor([[1, 0, 1]])
    expected = nn.BCEWithLogitsLoss()(LOGITS[:1], torch.tensor([[0.9, 0.1, 0.9]], dtype=torch.float64))
    torch.testing.assert_close(mean(SeveralClasses(NAMES), targets, LOGITS[:1], 0.2), expected)


def test_a_number_costs_its_squared_error():
    targets = torch.tensor([1.0, -2.0, 0.5])
    torch.testing.assert_close(mean(OneNumber(), targets, LOGITS[:, :1]), nn.MSELoss()(LOGITS[:, 0], targets.double()))


@pytest.mark.parametrize(
    ("answer", "known", "logits"),
    [
        (OneClass(NAMES, {"a": 2.0}), torch.tensor(1), LOGITS),
        (SeveralClasses(NAMES), torch.tensor([0, 1, 1]), LOGITS),
        (OneNumber(), torch.tensor(0.5), LOGITS[:, :1]),
    ],
    ids=["one", "several", "number"],
)
def test_what_nobody_knows_costs_nothing(answer: LabelLoss, known: Tensor, logits: Tensor):
    nothing = torch.from_numpy(np.asarray(answer.unscored))
    some = torch.stack([known.to(nothing.dtype), nothing, nothing])
    torch.testing.assert_close(mean(answer, some, logits), mean(answer, some[:1], logits[:1]))
    assert not answer.count(nothing[None])


def test_an_answer_names_classes_or_gives_the_number():
    assert OneClass(NAMES).named_predictions(LOGITS[:1])[0][0] == "c"
    assert [said for said, _ in SeveralClasses(NAMES).named_predictions(LOGITS[:2])] == [["a", "c"], ["a", "b"]]
    assert OneNumber().named_predictions(torch.tensor([[2.5]])) == [(2.5, 2.5)]


@pytest.mark.parametrize("kind", [OneClass, SeveralClasses])
def test_scores_of_classes_are_their_probabilities(kind: type[LabelLoss]):
    shares = LOGITS[0].softmax(-1) if kind is OneClass else LOGITS[0].sigmoid()
    ((_, scores),) = kind(NAMES).named_predictions(LOGITS[:1])
    assert scores == pytest.approx(dict(zip(NAMES, shares.tolist(), strict=True)))


def test_a_class_that_is_as_likely_as_not_is_neither_said_nor_measured():
    (said, shares), *_ = SeveralClasses(NAMES).named_predictions(torch.zeros(1, 3))
    guessed = (
        SeveralClasses(NAMES)
        .cost(Scores.from_logits(torch.zeros(1, 3)), torch.ones(1, 3, dtype=torch.long), 0.0)
        .guesses
    )
    assert said == [] and set(shares.values()) == {0.5} and not guessed.any()


def test_labels_become_targets():
    assert SeveralClasses(NAMES).target((0, 2)).tolist() == [1, 0, 1]
    assert SeveralClasses(NAMES).target(()).tolist() == [0, 0, 0]
    assert SeveralClasses(NAMES).target((-1,)).tolist() == [-1, -1, -1]
    assert OneNumber().target(2.5) == 2.5 and math.isnan(OneNumber().target(math.nan))


def test_the_score_of_a_number_is_not_rounded_to_the_precision_of_the_states():
    scores = Scores(torch.ones(1, 3, dtype=torch.bfloat16), torch.tensor([[1.0, 0.001, 0.001]]))
    assert scores.exact().item() == pytest.approx(1.002, abs=1e-6)


def of(labels: Any, options: dict[str, Any] | None = None, objective: str = "classification") -> Mixture:
    return Mixture.of(read_task({"objective": {objective: options or {}}, "source": {}, "labels": labels}, "task"))


def test_accuracy_counts_documents_and_not_their_weights():
    (objective,) = of(list(NAMES), {"class_weights": {"a": 0.5, "c": 3.0}}).members.values()
    right, asked = objective.term(Scores.from_logits(LOGITS), torch.tensor([2, -1, 2])).measured["accuracy"]
    assert (int(right), int(asked)) == (1, 2)


@pytest.mark.parametrize("objective", [Classification(), Tagging()])
def test_accuracy_of_many_classes_tells_scores_apart_that_bfloat16_rounds_to_one_number(objective: Objective):
    weight = torch.zeros(FEW, 2)
    weight[2], weight[5] = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    scores = Scores(torch.tensor([[1.0, 0.001]], dtype=torch.bfloat16), weight)
    right, asked = objective.term(scores, torch.tensor([5])).measured["accuracy"]
    assert (int(right), int(asked)) == (1, 1)


@pytest.mark.parametrize("kind", LABEL_LOSSES)
def test_each_kind_of_label_offers_its_metrics(kind: str):
    mixture = of(list(NAMES) if kind == "one" else kind)
    assert mixture.metrics == {"classification": LABEL_LOSSES[kind].metrics}


@pytest.mark.parametrize(
    ("labels", "options", "objective", "words"),
    [
        ("number", {}, "causal_lm", "causal_lm takes no labels of kind number; allowed: classification"),
        ("numbers", {}, "classification", r"unknown kind of labels .*'numbers' \(did you mean 'number'\?\)"),
        ({"some": ["a"]}, {}, "classification", "unknown kind of labels 'some'"),
        (list(NAMES), {"class_weights": {"d": 1.0}}, "classification", "class_weights: unknown class 'd'"),
        (list(NAMES), {"class_weights": {"a": 0.0}}, "classification", r"class_weights\.a must be above 0, got 0\.0"),
        ("number", {"class_weights": {"a": 1.0}}, "classification", "class_weights need one class per row, .* number"),
        (
            "number",
            {"label_smoothing": 0.1},
            "similarity",
            r"similarity: label_smoothing \(0\.1\) needs classes, but .* is number",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, options: dict[str, Any], objective: str, words: str):
    with pytest.raises(ValueError, match=words):
        of(labels, options, objective)


@pytest.mark.parametrize("labels", [None, ["a", "b"], "several", "number", {"several": ["a", "b"]}])
def test_a_task_is_written_as_it_is_read(labels: Any):
    task = read_task({"objective": "classification", "source": {"builtin": "pydocs"}, "labels": labels}, "task")
    assert task.plain().get("labels") == labels and read_task(task.plain(), "task") == task


def test_a_file_says_what_a_label_is_by_labels_alone():
    with pytest.raises(ValueError, match="task: unknown key 'label_kind'"):
        read_task({"objective": "classification", "source": {}, "label_kind": "several"}, "task")


SMOOTHED = ["tagging", "next_sentence", "causal_lm", "masked_lm", "prefix_lm", "span_corruption", "translation"]


@pytest.mark.parametrize("objective", SMOOTHED)
def test_labels_are_smoothed_wherever_classes_are_scored(objective: str):
    (one,) = Mixture.parse({objective: {"label_smoothing": 0.2}}).members.values()
    logits, targets = LOGITS[:, :2], torch.tensor([1, -1, 0])
    term = one.term(Scores.from_logits(logits), targets)
    expected = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=0.2)(logits, targets)
    torch.testing.assert_close(term.sum / term.count, expected)


def test_a_metric_of_somebody_elses_objective_suits_every_label():
    class Own(Classification):
        metrics = ("own", "accuracy", "pearson")

    own = Own()
    assert own.available_metrics == ("own", "accuracy")
    own.take_labels("number")
    assert own.available_metrics == ("own", "pearson")
