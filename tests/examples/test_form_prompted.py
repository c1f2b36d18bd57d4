"""Only the text behind a prompt is predicted."""

import numpy as np

from zoo.data.ids import Lengths, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Limits, ModelTraits
from zoo.examples.forms.prompted import Prompted

ROLES = Roles(100, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
FORM = Prompted(ModelTraits(causal=True), False)
IDS = {"prompt": np.arange(10, 20), "text": np.arange(50, 60)}


def built(prompt: int, text: int, longest: int) -> tuple[ExamplePlan, Example]:
    lengths = Lengths({"prompt": np.array([0, prompt]), "text": np.array([0, text])})
    (plan,) = FORM.plan(lengths, 0, 0, 0, Limits(longest))
    return plan, FORM.build(plan, lambda piece: IDS[piece.field][piece.start : piece.stop], ROLES)


def test_the_prompt_is_read_and_the_text_predicted():
    plan, example = built(3, 2, longest=20)
    assert example.tokens.tolist() == [2, 10, 11, 12, 50, 51] and plan.length == 6
    assert example.next_tokens.tolist() == [-1, -1, -1, 50, 51, 3]
    assert example.prompt.tolist() == [2, 10, 11, 12]


def test_a_long_prompt_loses_its_beginning():
    plan, example = built(8, 2, longest=7)
    assert example.tokens.tolist() == [2, 14, 15, 16, 17, 50, 51] and plan.truncated == 4


def test_a_long_text_loses_its_end_and_does_not_end():
    plan, example = built(2, 9, longest=7)
    assert example.tokens.tolist() == [2, 10, 11, 50, 51, 52] and example.next_tokens[-1] == 53
    assert (plan.length, plan.truncated, plan.final) == (6, 6, False)
