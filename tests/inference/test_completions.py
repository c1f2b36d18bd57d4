"""Texts that a model completes: the rest of a text, or the spans that are missing in it."""

import pytest
from looking import loaded

from zoo.inference.pipeline import Pipeline


def test_the_rest_of_a_text_is_written_behind_it():
    (found,) = Pipeline(loaded("transformer-nano", "prefix_lm"))("cats and dogs")
    assert found["output"].startswith("cats and dogs")


def test_a_text_without_a_sentinel_is_answered_with_how_they_are_spelled():
    model = loaded("t5-nano", "span_corruption")
    model.tokenizer.add_sentinels(3)
    with pytest.raises(ValueError, match="in 'the red': write <extra_id_0>, <extra_id_1> … where words are missing"):
        Pipeline(model)("the red")
