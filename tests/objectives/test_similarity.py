"""Both orders of two texts are read, and their states added: the order in which they are given changes nothing."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from zoo.batches.collate import collate
from zoo.batches.order import Examples, PackedRow
from zoo.batches.packing import RowShape
from zoo.data.ids import Ids, Lengths, Piece, Roles
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded, model_traits
from zoo.inference.pipeline import Pipeline
from zoo.models.create import create_model
from zoo.models.heads.scores import Scores
from zoo.models.kinds.part import PartInput
from zoo.models.model import Model
from zoo.objectives.kinds.similarity import Similarity
from zoo.objectives.mixture import Mixture

ROLES = Roles(50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
TASK = {"objective": "similarity", "source": {"builtin": "pydocs"}, "labels": ["no", "yes", "maybe"]}
TEXTS = {"text": np.array([7, 8, 9, 20, 21]), "pair": np.array([30, 31, 40])}  # of two documents: 3 + 2, and 2 + 1


def build() -> Model:
    model = create_model("gpt2-nano", heads=[{"name": "similarity", "labels": 3}], vocab_size=50, dropout=0.0)
    return model.initialize(3).double().eval()


def examples(model: Model, longest: int = 24, row: int = 32) -> Examples:
    mixture = Mixture.of(read_task(TASK, "task"))
    lengths = Lengths({"text": np.array([0, 3, 5]), "pair": np.array([0, 2, 3])}, labels=np.array([2, 0]))

    def read(piece: Piece) -> Ids:
        return TEXTS[piece.field][piece.start : piece.stop]

    form = mixture.form(["text", "pair"], model_traits(model))
    return Examples(form, mixture, lengths, read, ROLES, RowShape(row, longest=longest))


def test_both_orders_are_documents_of_their_own():
    given = examples(build())
    (one,) = given.build(PackedRow(0, tuple(given.plan(0, [0]))))
    first, second = one.split()
    assert first.tolist() == [2, 7, 8, 9, 4, 30, 31, 5] and second.tolist() == [2, 30, 31, 4, 7, 8, 9, 5]


@pytest.mark.parametrize(("places_per_target", "scored"), [(2, [7, 15]), (1, [15])])
def test_as_many_positions_are_scored_as_the_objective_has_for_each_label(
    places_per_target: int, scored: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Similarity, "places_per_target", places_per_target)
    given = examples(build())
    (one,) = given.build(PackedRow(0, tuple(given.plan(0, [0]))))
    assert one.places["similarity"].tolist() == scored and one.targets["similarity"].tolist() == [2]


def test_texts_that_are_too_long_are_cut_alike_in_both_orders():
    given = examples(build(), longest=6)  # positions for each order, 3 of them special
    (plan,) = given.plan(0, [0])
    assert (plan.length, plan.truncated, [piece.length for piece in plan.pieces]) == (12, 2, [2, 1])


def test_texts_that_do_not_fit_in_a_row_in_both_orders_are_cut():
    given = examples(build(), longest=24, row=14)  # 7 positions for each order
    (plan,) = given.plan(0, [0])
    assert (plan.length, plan.truncated, [piece.length for piece in plan.pieces]) == (14, 1, [2, 2])


def test_the_loss_is_that_of_the_added_states_of_two_rows():
    """Rows that hold several documents, beside each order as a row of its own: GPT-1's figure 1."""
    model = build()
    given = examples(model)
    part = collate([PackedRow(0, tuple(given.plan(0, [0, 1])))], given, 1)
    term = given.mixture.terms(model(**part.inputs).scores, part.targets)["similarity"]
    assert model.decoder is not None
    head = model.get_parameter("heads.similarity.output.weight")
    expected = torch.zeros((), dtype=torch.float64)
    for (a, b), label in ((([7, 8, 9], [30, 31]), 2), (([20, 21], [40]), 0)):
        rows = [torch.tensor([[2, *first, 4, *second, 5]]) for first, second in ((a, b), (b, a))]
        states = [model.decoder(PartInput(row))[0, -1] for row in rows]
        expected -= (head @ (states[0] + states[1])).log_softmax(-1)[label]
    torch.testing.assert_close(term.sum, expected, atol=1e-10, rtol=0)
    assert int(term.count) == 2


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), ["a small dog", "one big cat"])
    model = create_model("gpt2-nano", heads=[{"name": "similarity", "labels": 3}], vocab_size=tokenizer.vocab_size)
    task = read_task(TASK, "task")
    return Loaded(model.initialize(1).eval(), tokenizer, task, Mixture.of(task))


def test_the_order_of_the_texts_does_not_change_the_answer(loaded: Loaded):
    ask = Pipeline(loaded)
    (one,), (other,) = ask("a dog", "big cat"), ask("big cat", "a dog")
    assert one["output"] == other["output"] and one["scores"] == pytest.approx(other["scores"])


def test_one_text_alone_is_refused(loaded: Loaded):
    with pytest.raises(ValueError, match="pair: similarity compares two texts: give the second one"):
        Pipeline(loaded)("a dog")


def test_an_encoder_is_told_why_not():
    obstacle = Mixture.parse("similarity").obstacle(model_traits(create_model("bert-nano")))
    assert "similarity cannot train this model: an encoder sees both texts" in obstacle


def test_a_class_may_count_more_as_in_classification():
    mixture = Mixture.of(read_task({**TASK, "objective": {"similarity": {"class_weights": {"maybe": 4.0}}}}, "task"))
    (objective,) = mixture.members.values()
    states, weight = torch.randn(6, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    targets = torch.tensor([2, 0, 1])
    term = objective.term(Scores(states, weight), targets)
    weights = torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64)
    wanted = cross_entropy((states[::2] + states[1::2]) @ weight.T, targets, weights)
    torch.testing.assert_close(term.sum / term.count, wanted)
