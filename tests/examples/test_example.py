import numpy as np
import pytest

from zoo.data.ids import Lengths, Roles
from zoo.examples.randomness import Purpose, Randomness, keyed

ROLES = Roles(vocab_size=10, pad=0, unk=1, start=2, end=3, separator=4, extract=None, mask=None)


def test_text_ids_are_those_of_no_role():
    assert ROLES.ordinary_ids.tolist() == [5, 6, 7, 8, 9]


def test_a_missing_role_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="no token for 'mask', .* it has: pad, unk, start, end, separator"):
        ROLES.id("mask")


def test_a_documents_sentences_are_found_and_empty_ones_left_out():
    lengths = Lengths({"text": np.array([0, 2, 5, 5, 9])}, sentences=np.array([0, 1, 4]))
    assert lengths.documents == 2
    assert lengths.sentence_bounds("text", 1).tolist() == [2, 5, 9]


def test_the_draws_of_an_example_go_on():
    """Its picture is varied by the first of them, and its words are hidden by those that follow."""
    randomness, expected = Randomness(Purpose.EXAMPLE, 3, 1), keyed(Purpose.EXAMPLE, 3, 1)
    drawn = [int(randomness.generator.integers(2**60)) for _ in range(3)]
    assert drawn == [int(expected.integers(2**60)) for _ in range(3)]


def test_purposes_never_share_a_stream():
    draws = {keyed(purpose, 3, 1).integers(2**60) for purpose in Purpose}
    assert len(draws) == len(Purpose)


@pytest.mark.parametrize("key", [(), (0, 7, 2**32 - 1), (2**32, 1), (1, 2**63)])
def test_a_key_is_read_as_numpy_reads_a_list_of_numbers(key: tuple[int, ...]):
    expected = np.random.default_rng([Purpose.ROWS, *key]).integers(2**60, size=4)
    assert keyed(Purpose.ROWS, *key).integers(2**60, size=4).tolist() == expected.tolist()
