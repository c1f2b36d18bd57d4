"""Claims about the rows that a model reads for a task."""

from dataclasses import replace

import pytest
from looking import loaded

from zoo.batches.packing import RowShape
from zoo.inference.shape import row_shape


@pytest.mark.parametrize(
    ("name", "objective", "shape"),
    [
        ("cnn-attention-nano", "classification", RowShape(1, pack=False)),
        ("captioner-rnn-nano", "captioning", RowShape(60, 1, 17, pack=False)),
        ("bert-nano", "masked_lm", RowShape(60, longest=17)),
        ("gpt2-nano", "causal_lm", RowShape(60, longest=17)),
        ("transformer-nano", "translation", RowShape(60, 50, 17, 17)),
    ],
)
def test_images_are_rows_of_one_position_and_texts_are_as_long_as_task_and_model_allow(
    name: str, objective: str, shape: RowShape
):
    sizes = {} if name == "cnn-attention-nano" else {"max_length": 17}
    given = loaded(name, objective, **sizes)
    task = replace(given.task, length={"source": 50, "target": 60}, longest={"source": 20, "target": 40})
    assert row_shape(task, given.model) == shape
    assert row_shape(replace(task, pack=False), given.model) == replace(shape, pack=False)
    shorter = row_shape(replace(task, longest={"source": 13, "target": 5}), given.model)
    assert shorter.longest in (None, 5) and shorter.longest_source in (None, 13)
