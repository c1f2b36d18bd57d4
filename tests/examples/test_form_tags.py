"""Words with their tags as examples: where they are marked, and what is left out where they are too many."""

import numpy as np
import pytest

from zoo.data.ids import Lengths, Piece, Roles
from zoo.examples.example import Example
from zoo.examples.form import Limits, ModelTraits
from zoo.examples.forms.tags import Tags
from zoo.examples.randomness import Purpose, Randomness
from zoo.objectives.kinds.tagging import Tagging

ROLES = Roles(vocab_size=1000, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
ENCODER, DECODER = ModelTraits(causal=False), ModelTraits(causal=True)
# two sentences: words of 1 token; then words of 2, 0, 3 and 1 tokens, tagged 7, 8, 9 and 10
UNITS = [1, 2, 0, 3, 1]
LENGTHS = Lengths({"words": np.cumsum([0, *UNITS]), "tags": np.array([0, 1, 5])}, lists={"words": np.array([0, 1, 5])})


def build(stream: ModelTraits, longest: int, document: int = 1) -> tuple[int, Example]:
    def read(piece: Piece) -> np.ndarray:
        return np.arange(piece.start, piece.stop, dtype=np.int64) + {"words": 100, "tags": 6}[piece.field]

    (plan,) = Tags(stream, True).plan(LENGTHS, document, 0, 0, Limits(longest))
    example = Tags(stream, True).build(plan, read, ROLES)
    assert plan.length == len(example.tokens)
    return plan.truncated, example


@pytest.mark.parametrize(
    ("stream", "tokens", "marked"),
    [
        (ENCODER, [2, 101, 102, 103, 104, 105, 106, 4], [1, 3, 6]),
        (DECODER, [2, 101, 102, 103, 104, 105, 106], [1, 3, 6]),
    ],
)
def test_words_are_marked_at_their_first_token(stream: ModelTraits, tokens: list[int], marked: list[int]):
    truncated, example = build(stream, len(tokens))  # they just fit
    assert (truncated, example.tokens.tolist()) == (0, tokens)
    assert example.marked is not None and example.marked.tolist() == marked


def test_a_tag_belongs_to_its_word_and_a_word_without_a_token_has_none():
    _, example = build(ENCODER, 12)
    assert example.truth is not None and example.truth.tolist() == [7, 9, 10]


def test_a_word_is_scored_at_its_first_token():
    _, example = build(ENCODER, 12)
    Tagging().annotate(example, Randomness(Purpose.EXAMPLE, 0), ROLES)
    assert example.targets["tagging"].tolist() == [-1, 7, -1, 9, -1, -1, 10, -1]


def test_words_that_do_not_fit_are_left_out_whole_and_counted():
    truncated, example = build(ENCODER, 6)
    assert (truncated, example.tokens.tolist()) == (2, [2, 101, 102, 4])
    assert example.truth is not None and example.truth.tolist() == [7]


def test_of_a_word_that_is_too_long_alone_the_first_tokens_stay():
    truncated, example = build(ENCODER, 3)
    assert (truncated, example.tokens.tolist()) == (3, [2, 101, 4])
