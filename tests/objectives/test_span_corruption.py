"""Claims about span corruption: its options, its tokenizer, and how what is written fills a text."""

import pytest

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import model_traits
from zoo.inference.predictors.translation import fill_sentinels, filled_source
from zoo.models.create import create_model
from zoo.objectives.mixture import Mixture

SENTINELS = (49, 48, 47)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"share": 0.0}, "share must lie between 0 and 1, got 0.0"),
        ({"share": 1.0}, "share must lie between 0 and 1, got 1.0"),
        ({"mean_span": 0.5}, "mean_span must be a number of at least 1, got 0.5"),
        ({"sentinels": 0}, "sentinels must be at least 1, got 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], words: str):
    with pytest.raises(ValueError, match=words):
        Mixture.parse({"span_corruption": options})


def test_options_reach_the_form():
    mixture = Mixture.parse({"span_corruption": {"share": 0.5, "mean_span": 2.0, "sentinels": 7}})
    form = mixture.form(["text"], model_traits(create_model("t5-nano", vocab_size=9)))
    assert (form.share, form.mean_span, form.sentinels) == (0.5, 2.0, 7)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    made = Tokenizer.train(tokenizers.parse({"name": "bpe", "vocab_size": 40}), ["a small text, 작은 글"] * 3)
    assert made.add_sentinels(3) == 3
    return made


def test_the_first_sentinel_has_the_last_id(tokenizer: Tokenizer):
    last = tokenizer.vocab_size - 1
    assert tokenizer.roles.sentinels == (last, last - 1, last - 2) and tokenizer.spell(last) == "<extra_id_0>"


def test_sentinels_come_back_from_files_and_are_added_once(tokenizer: Tokenizer):
    again = Tokenizer.from_files(tokenizer.files())
    assert again.roles.sentinels == tokenizer.roles.sentinels and again.add_sentinels(3) == 0


def test_a_sentinel_that_a_text_spells_is_text_unless_it_is_asked_for(tokenizer: Tokenizer):
    first = tokenizer.roles.sentinels[0]
    assert first not in tokenizer.encode(["a <extra_id_0> text"])[0]
    assert first in tokenizer.encode_with_roles("a <extra_id_0> text")


def test_no_sentinel_is_a_random_token(tokenizer: Tokenizer):
    assert not set(tokenizer.roles.sentinels) & set(tokenizer.roles.ordinary_ids.tolist())


def test_what_is_written_stands_where_its_sentinel_stood():
    assert fill_sentinels([7, 49, 8, 48, 9, 47], [11, 49, 21, 22, 48, 23], SENTINELS) == [7, 21, 22, 8, 23, 9]
    assert fill_sentinels([7, 49, 8, 48], [49, 21, 48, 23, 49, 22], SENTINELS) == [7, 21, 22, 8, 23]
    assert filled_source([7, 49], [49, 21], SENTINELS) == [7, 21] and filled_source([7, 8], [21, 22], SENTINELS) == [
        21,
        22,
    ]
