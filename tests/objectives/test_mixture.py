from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from zoo.data.ids import Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import ModelTraits, forms, inputs
from zoo.examples.forms.pair import Pair
from zoo.examples.forms.sentences import Sentences
from zoo.examples.forms.source_target import SourceTarget
from zoo.examples.forms.text import Text
from zoo.examples.randomness import Purpose, Randomness
from zoo.models.heads.head import heads
from zoo.models.heads.scores import Scores
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives

ENCODER, DECODER = ModelTraits(causal=False, segments=True), ModelTraits(causal=True)
BOTH = ModelTraits(causal=True, source=True)
ROLES = Roles(vocab_size=100, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)


def test_a_name_and_a_map_say_the_same():
    assert Mixture.parse("causal_lm").heads == Mixture.parse({"causal_lm": {}}).heads == ["language"]


def test_heads_come_in_the_order_of_the_map():
    mixture = Mixture.parse({"masked_lm": {"whole_word": True}, "next_sentence": None})
    assert mixture.heads == ["masked_lm", "next_sentence"]
    assert list(mixture.metrics) == ["masked_lm", "next_sentence"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("causal_ml", r"objective: unknown objective 'causal_ml' \(did you mean 'causal_lm'\?\); allowed: "),
        ({"masked_lm": {"whole_words": True}}, r"unknown option of objective 'masked_lm': 'whole_words' \(did you"),
        ({"masked_lm": {"share": "much"}}, r"objective\.share: expected a number, got 'much'"),
        ({"masked_lm": {"share": [0.1, 0.2]}}, r"objective 'masked_lm': share: expected one value, not a list"),
        ({"masked_lm": {"name": "causal_lm"}}, r"objective\.masked_lm: expected a map of options, got \{'name': "),
        ({"masked_lm": 3}, r"objective\.masked_lm: expected a map of options, got 3"),
        ({}, r"objective: expected the name of an objective or a map of names to options, got \{\}"),
        *(
            ({name: {"label_smoothing": 1.0}}, rf"{name}: label_smoothing must be in \[0, 1\), got 1\.0")
            for name in objectives.names()
            if "label_smoothing" in objectives.options(name)
        ),
        ({"captioning": {"label_smoothing": -0.1}}, r"captioning: label_smoothing must be in \[0, 1\), got -0\.1"),
        ({"causal_lm": {}, "translation": {}}, "causal_lm and translation train the same head 'language'; keep one"),
        (
            {"next_sentence": {}, "translation": {}},
            "next_sentence needs the form sentences; translation needs the",
        ),
    ],
)
def test_mistakes_are_refused_by_name(value: object, message: str):
    with pytest.raises(ValueError, match=message):
        Mixture.parse(value)


@pytest.mark.parametrize(
    ("names", "columns", "form"),
    [
        (["masked_lm"], ["text"], "text"),
        (["masked_lm", "next_sentence"], ["text"], "sentences"),
        (["translation"], ["source", "target"], "source_target"),
        (["classification"], ["text", "pair", "label"], "pair"),
        (["classification", "causal_lm"], ["text", "label"], "text"),
        (["causal_lm"], ["text", "pair"], "text"),
        (["causal_lm"], ["prompt", "text"], "prompted"),
        (["classification"], ["image", "label"], "image"),
        (["captioning"], ["image", "text"], "image_text"),
    ],
)
def test_objectives_and_columns_decide_the_form(names: list[str], columns: list[str], form: str):
    assert Mixture.parse(dict.fromkeys(names, {})).form_class(columns) is forms[form]


def test_each_form_is_built_for_the_stream():
    assert isinstance(Mixture.parse({"masked_lm": {}, "next_sentence": {}}).form(["text"], ENCODER), Sentences)
    assert isinstance(Mixture.parse("translation").form(["source", "target"], BOTH), SourceTarget)
    assert isinstance(Mixture.parse("classification").form(["text", "pair"], DECODER), Pair)
    form = Mixture.parse({"classification": {}, "causal_lm": {}}).form(["text"], DECODER)
    assert isinstance(form, Text) and form.whole


@pytest.mark.parametrize(
    ("objective", "columns", "stream", "message"),
    [
        (
            "next_sentence",
            ["text"],
            DECODER,
            "next_sentence cannot train this model: .* It needs an encoder without a decoder",
        ),
        ("masked_lm", ["text"], DECODER, "masked_lm cannot train this model: .* a decoder sees only the left"),
        ("causal_lm", ["text"], ENCODER, "causal_lm cannot train this model: .* It needs a decoder"),
        ("translation", ["source", "target"], DECODER, "translation needs an encoder and a decoder"),
        (
            "classification",
            ["image", "text", "label"],
            ENCODER,
            "cnn-attention does; to train on texts beside them, name",
        ),
        ("causal_lm", ["text"], BOTH, "causal_lm has no input for the model's encoder"),
        ("translation", ["text"], BOTH, "task.columns: 'source' is missing, which translation needs; given: text"),
        ("translation", ["sorce"], BOTH, r"task.columns: unknown input 'sorce' \(did you mean 'source'\?\)"),
    ],
)
def test_a_model_or_data_that_cannot_be_trained_on_is_refused_with_the_reason(
    objective: str, columns: list[str], stream: ModelTraits, message: str
):
    with pytest.raises(ValueError, match=message):
        Mixture.parse(objective).form(columns, stream)


@pytest.mark.parametrize("objective", ["classification", "similarity"])
def test_an_encoder_and_a_decoder_that_cannot_classify_texts_are_told_what_can_write_labels(objective: str):
    known = (
        f"{objective} has no input for the model's encoder; translation has, and its target may be a column of labels"
    )
    assert Mixture.parse(objective).obstacle(BOTH) == f"objective: {known}"


def test_a_tokenizer_needs_the_roles_of_the_form_and_of_the_objectives():
    mixture = Mixture.parse({"masked_lm": {}, "next_sentence": {}})
    assert mixture.roles(mixture.form(["text"], ENCODER)) == ("start", "separator", "mask")
    mixture = Mixture.parse({"classification": {}, "causal_lm": {}})
    assert mixture.roles(mixture.form(["text"], DECODER)) == ("start", "extract")


def said(logits: dict[str, torch.Tensor]) -> dict[str, Scores]:
    """What heads with these logits say."""
    return {name: Scores.from_logits(numbers) for name, numbers in logits.items()}


def test_terms_are_sums_with_counts_and_weights():
    mixture = Mixture.parse({"classification": {}, "causal_lm": {"weight": 0.5}})
    logits = {"classification": torch.randn(3, 2), "language": torch.randn(2, 5, 7)}
    targets = {"classification": torch.tensor([1, -1, 0]), "causal_lm": torch.randint(-1, 7, (2, 5))}
    terms, counts = mixture.terms(said(logits), targets), mixture.counts(targets)
    assert {name: term.weight for name, term in terms.items()} == {"classification": 1.0, "causal_lm": 0.5}
    assert counts["classification"] == terms["classification"].count == 2
    expected = F.cross_entropy(logits["classification"], targets["classification"], ignore_index=-1, reduction="sum")
    torch.testing.assert_close(terms["classification"].sum, expected)


def test_the_likelihood_of_a_smoothed_objective_is_not_smoothed():
    mixture = Mixture.parse("translation")
    logits, targets = {"language": torch.randn(2, 3, 7)}, {"translation": torch.randint(0, 7, (2, 3))}
    plain = F.cross_entropy(logits["language"].flatten(0, 1), targets["translation"].flatten(), reduction="sum")
    term = mixture.terms(said(logits), targets)["translation"]
    torch.testing.assert_close(term.likelihood, plain)
    assert not torch.isclose(term.sum, plain)


def test_accuracy_is_measured_over_scored_positions():
    mixture = Mixture.parse("next_sentence")
    logits = torch.tensor([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    targets = {"next_sentence": torch.tensor([0, 1, -1])}
    right, count = mixture.terms(said({"next_sentence": logits}), targets)["next_sentence"].measured["accuracy"]
    assert (right.item(), count.item()) == (1, 2)


def test_a_document_is_scored_at_its_summary_and_language_everywhere():
    example = Example(np.array([2, 10, 5]), np.array([False, True, False]), np.array([10, 5, -1]), summary=-1, label=1)
    mixture = Mixture.parse({"classification": {}, "causal_lm": {}})
    mixture.annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert example.places["classification"].tolist() == [2] and example.targets["classification"].tolist() == [1]
    assert example.targets["language"].tolist() == [10, 5, -1] and "language" not in example.places


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("captioning", {"label_smoothing": 0.1, "coverage": 0.0, "weight": 1.0}),
        ("translation", {"label_smoothing": 0.1, "weight": 1.0}),
        ("masked_lm", {"share": 0.15, "masked": 0.8, "random": 0.1, "whole_word": False, "label_smoothing": 0.0}),
        ("replaced_token", {"weight": 50.0}),
        ("span", {"form_options": {"stride": 128}, "no_answer": False}),
        ("span_corruption", {"form_options": {"share": 0.15, "mean_span": 3.0, "sentinels": 100}}),
        ("next_sentence", {"form_options": {"order": False}}),
    ],
)
def test_options_that_nobody_has_set_are_those_of_the_papers(name: str, defaults: dict[str, Any]):
    built = objectives.build(name)
    assert {key: getattr(built, key) for key in defaults} == defaults


def test_the_order_of_sentences_reaches_the_form():
    form = Mixture.parse({"next_sentence": {"order": True}}).form(["text"], ENCODER)
    assert isinstance(form, Sentences) and form.order


@pytest.mark.parametrize("name", objectives.names())
def test_every_objective_keeps_its_contract(name: str):
    member = objectives.build(name)
    capacity = member.capacity(64)
    assert capacity is None or member.scored(ExamplePlan(0, 0, 64)) <= capacity <= 64
    whole = heads[member.head].softmax_over_positions  # then rows are scored as they are, by two kinds of scores
    classes = 1 if heads[member.head].detects else 7
    logits = torch.randn(2, 4, 2) if whole else torch.randn(4 * member.places_per_target, classes)
    term = member.term(Scores.from_logits(logits), torch.full((2, 4) if whole else (4,), -1))
    assert term.sum.item() == 0.0 and term.count.item() == 0 and term.weight == member.weight


@pytest.mark.parametrize("name", objectives.names())
def test_every_objective_keeps_its_weight_and_its_label_smoothing(name: str):
    smooths = "label_smoothing" in objectives.options(name)
    usual, given = objectives[name](), objectives[name](weight=3.0, **({"label_smoothing": 0.25} if smooths else {}))
    assert (usual.weight, given.weight) == (50.0 if name == "replaced_token" else 1.0, 3.0)  # 50: ELECTRA's
    assert usual.label_smoothing == (0.1 if name in ("translation", "captioning") else 0.0)  # 0.1: the Transformer's
    assert given.label_smoothing == (0.25 if smooths else 0.0)


@pytest.mark.parametrize(
    ("objective", "named", "read"),
    [
        ("causal_lm", [], ["messages", "prompt", "text"]),
        ("masked_lm", ["label"], ["label", "text"]),
        ({"classification": {}, "causal_lm": {}}, [], ["image", "label", "pair", "text"]),
        ("tagging", [], ["tags", "words"]),
        ("translation", [], ["source", "target"]),
    ],
)
def test_a_task_reads_the_columns_of_its_objectives_and_those_it_names(
    objective: Any, named: list[str], read: list[str]
):
    found = Mixture.parse(objective).inputs(named)
    assert sorted(found) == read and found == [name for name in inputs() if name in read]
