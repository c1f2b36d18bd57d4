"""Examples of pictures: planned from numbers, built with a text or without, refused for models that read none."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from zoo.data.ids import NO_ROLES, Lengths, Piece, Roles
from zoo.examples.form import Limits, ModelTraits, forms
from zoo.examples.randomness import Purpose, Randomness
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.captioning import unevenness
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=20, pad=0, unk=1, start=2, end=3, separator=None, extract=None, mask=None)
CAPTIONER, CLASSIFIER = ModelTraits(causal=True, source=True, image_size=2), ModelTraits(causal=False, image_size=2)
LENGTHS = Lengths(
    {"image": np.array([0, 1, 2]), "text": np.array([0, 3, 8])}, labels=np.array([4, 5])
)  # two pictures with texts of 3 and 5 tokens


def read(piece: Piece) -> NDArray[np.int64]:
    """A picture filled with its number, or tokens that tell their position."""
    if piece.field == "image":
        return np.full((3, 2, 2), piece.start, dtype=np.uint8)
    return np.arange(10 + piece.start, 10 + piece.stop)


def test_a_picture_alone_is_one_position_with_its_label():
    form = forms.build("image", CLASSIFIER, True)
    (plan,) = form.plan(LENGTHS, 1, 0, 0, Limits(1))
    example = form.build(plan, read, NO_ROLES)
    assert (plan.length, plan.label, example.label, len(example.tokens)) == (1, 5, 5, 1)
    assert example.picture is not None and (example.picture == 1).all()
    mixture = Mixture.parse("classification")
    mixture.annotate(example, Randomness(Purpose.EXAMPLE, 0), NO_ROLES)
    assert (example.places["classification"], example.targets["classification"]) == ([0], [5])


@pytest.mark.parametrize(
    ("longest", "tokens", "following"),
    [(4, [2, 10, 11, 12], [10, 11, 12, 3]), (3, [2, 10, 11], [10, 11, 12]), (2, [2, 10], [10, 11])],
)
def test_a_text_is_predicted_from_its_picture_and_ends_where_it_was_not_cut(
    longest: int, tokens: list[int], following: list[int]
):
    form = forms.build("image_text", CAPTIONER, False)
    form.check(Limits(3))  # a picture is a source of one position, which no limit can be too short for
    (plan,) = form.plan(LENGTHS, 0, 0, 0, Limits(longest, 1))
    example = form.build(plan, read, ROLES)
    Mixture.parse("captioning").annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert (example.tokens.tolist(), example.targets["language"].tolist()) == (tokens, following)
    assert (plan.length, plan.source_length) == (len(tokens), 1)
    assert plan.truncated == 4 - longest  # of three tokens and the end
    assert example.picture is not None and example.source is None


def test_reading_some_positions_more_than_others_costs_what_the_published_penalty_does_but_for_its_least():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 1, 5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    written = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]) > 0
    weights = scores.softmax(-1)
    published = sum(
        (1 - sum(weights[row, 0, word, place] for word in range(5) if written[row, word])) ** 2
        for row in range(3)
        for place in range(4)
    )
    gradients = [
        torch.autograd.grad(cost, scores, retain_graph=True)[0] for cost in (published, unevenness(weights, written))
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)
    assert unevenness(torch.full((2, 2, 5, 4), 0.25), torch.ones(2, 5, dtype=torch.bool)) == 0
    everywhere_in_turn = torch.eye(4)[None, None]
    assert unevenness(everywhere_in_turn, torch.ones(1, 4, dtype=torch.bool)) == 0
    assert unevenness(everywhere_in_turn[:, :, [0, 0, 0, 0]], torch.ones(1, 4, dtype=torch.bool)) == 9 + 3


def test_heads_that_read_alike_are_as_uneven_as_one_of_them():
    weights, written = torch.rand(2, 1, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    torch.testing.assert_close(unevenness(weights.expand(-1, 5, -1, -1), written), unevenness(weights, written))


def test_coverage_asks_for_the_weights_and_adds_to_the_loss_of_each_position():
    logits, targets = torch.randn(2, 3, 7), torch.tensor([[0, 2, 3], [4, -1, -1]])
    layers = [None, torch.rand(2, 2, 3, 4), torch.rand(2, 1, 3, 4)]
    plain, costly = Mixture.parse("captioning"), Mixture.parse({"captioning": {"coverage": 0.5}})
    assert (plain.model_arguments, costly.model_arguments) == ({}, {"weights": ("decoder.cross",)})
    said, named = {"language": Scores.from_logits(logits)}, {"captioning": targets}
    one, other = (mixture.terms(said, named, {"decoder.cross": layers})["captioning"] for mixture in (plain, costly))
    uneven = [unevenness(layer, targets >= 0) for layer in layers if layer is not None]
    torch.testing.assert_close(other.sum - one.sum, 0.5 * sum(uneven) / 2)
    assert other.count == one.count == 4
    assert costly.terms(said, named, {"decoder.cross": [None]})["captioning"].sum == one.sum


def test_a_coverage_below_nothing_is_refused():
    with pytest.raises(
        ValueError, match="objective captioning: coverage must be a finite number of at least 0, got -1"
    ):
        Mixture.parse({"captioning": {"coverage": -1.0}})


WRONG = [
    (
        "captioning",
        ModelTraits(causal=True, source=True),
        "captioning trains on images, which this model does not read; captioner-rnn",
    ),
    (
        "classification",
        ModelTraits(causal=False),
        "classification trains on images, which this model does not read; cnn-attention",
    ),
    ("classification", CAPTIONER, "has no input for the model's encoder; captioning has"),
    ("captioning", CLASSIFIER, "captioning cannot train this model: the text is written from left to right"),
    (
        "masked_lm",
        CLASSIFIER,
        "this model reads images, but masked_lm trains on texts; use captioning, or classification with",
    ),
    ("translation", CAPTIONER, "this model reads images, but translation trains on texts"),
]


@pytest.mark.parametrize(
    ("name", "stream", "message"), WRONG, ids=[f"{name} {message[:9]}" for name, _, message in WRONG]
)
def test_an_objective_that_does_not_suit_the_model_is_refused(name: str, stream: ModelTraits, message: str):
    with pytest.raises(ValueError, match=message):
        Mixture.parse(name).form(["image", "text", "source", "target"], stream)
