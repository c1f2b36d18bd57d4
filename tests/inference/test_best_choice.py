"""Choices: the likeliest line of the pair, and what is refused."""

import pytest
import torch
from looking import loaded

from zoo.batches.collate import MicroBatch
from zoo.batches.order import PackedRow
from zoo.data.ids import Piece
from zoo.examples.example import ExamplePlan
from zoo.inference.metric_inputs import ForwardResult
from zoo.inference.pipeline import Pipeline
from zoo.inference.predictors.choice import BestChoice
from zoo.models.heads.scores import Scores
from zoo.objectives.kinds.choice import RightChoice
from zoo.objectives.objective import Term


@pytest.mark.parametrize("name", ["bert-nano", "gpt-nano"])
def test_each_choice_is_scored_with_its_context(name: str):
    answer = Pipeline(loaded(name, "choice"))
    (found,) = answer("the red cat", pair="sleeps\nruns over the house\n\ndogs")
    choices = ["sleeps", "runs over the house", "dogs"]
    assert found["input"] == ["the red cat", choices] and list(found["scores"]) == choices
    assert sum(found["scores"].values()) == pytest.approx(1) and found["output"] == max(
        found["scores"], key=found["scores"].__getitem__
    )


def test_space_around_a_choice_is_no_part_of_it():
    answer = Pipeline(loaded("bert-nano", "choice", "characters"))
    assert answer("the red cat", pair=" sleeps \n\truns\r\n") == answer("the red cat", pair="sleeps\nruns")


def test_contexts_may_have_different_numbers_of_choices():
    answer = Pipeline(loaded("bert-nano", "choice"))
    both = answer(["the red cat", "a blue dog"], pair=["sleeps\nruns", "cats\ndogs\ntrees"])
    alone = answer("a blue dog", pair="cats\ndogs\ntrees")
    assert len(both[0]["scores"]) == 2
    assert len(answer("cats", pair="\n".join(map(str, range(64))))[0]["scores"]) == 64
    torch.testing.assert_close(list(both[1]["scores"].values()), list(alone[0]["scores"].values()))


def test_choices_of_a_split_are_told_apart_where_bfloat16_rounds_both_scores_to_one_number():
    states = torch.tensor([[1.0, 0.0], [1.0, 0.001]], dtype=torch.bfloat16)
    part = MicroBatch({"places": {"choice": torch.tensor([0, 5])}}, {}, [], 0, 0.0)
    rows, zero = [PackedRow(0, (ExamplePlan(0, 0, 10, pieces=(Piece("context", 0, 1),) * 4),))], torch.zeros(())
    scores, term = Scores(states, torch.tensor([[1.0, 1.0]])), Term(zero, zero, 1.0)
    (found,) = BestChoice().collect_results(ForwardResult(RightChoice(), rows, part, zero, term, scores))
    assert found.argmax() == 1


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (None, "give them for each TEXT, which is the context, one per line; got 0, expected 2 to 64"),
        ("one", "got 1, expected 2 to 64"),
        ("\n".join(map(str, range(65))), "got 65, expected 2 to 64"),
        ("one\none", "a choice is given twice"),
        ("one\x0ctwo\u2028three", "got 1, expected 2 to 64"),
    ],
)
def test_choices_that_are_none_are_refused(pair: str | None, said: str):
    with pytest.raises(ValueError, match=said):
        Pipeline(loaded("bert-nano", "choice"))("the red cat", pair=pair)
