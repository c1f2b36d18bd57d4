"""Claims about the benchmark of where a captioner looks: its colors, its figures, and what it says of a run."""

from types import ModuleType

import numpy as np
import pytest

from programs import load_program

RGB = {
    "red": (220, 20, 20),
    "orange": (250, 140, 20),
    "yellow": (240, 230, 30),
    "green": (30, 160, 40),
    "blue": (30, 60, 200),
    "pink": (250, 120, 200),
    "white": (250, 250, 250),
    "black": (10, 10, 10),
}


@pytest.fixture(scope="module")
def pointing() -> ModuleType:
    return load_program("benchmarks/pointing.py")


def plain(*colors: tuple[int, int, int]) -> np.ndarray:
    """A picture of 4 x 4 pixels a color, side by side."""
    return np.concatenate([np.full((4, 4, 3), color, dtype=np.uint8) for color in colors], 1).transpose(2, 0, 1)


def test_a_color_is_found_where_it_is_and_no_other(pointing: ModuleType):
    for word, rgb in RGB.items():
        assert [other for other in RGB if pointing.COLORS[other].share(plain(rgb), (2, 2)).any()] == [word]
    shares = pointing.COLORS["red"].share(plain(RGB["red"], RGB["blue"], RGB["red"]), (1, 2))
    np.testing.assert_allclose(shares, [[4 / 6, 4 / 6]], atol=1e-6)
    assert pointing.COLORS["snow"].share(plain(RGB["white"]), (1, 1)) == 1
    assert pointing.COLORS["grass"].share(plain(RGB["green"]), (1, 1)) == 1


def test_a_word_points_where_its_weight_lies_beside_the_others_and_chance(pointing: ModuleType):
    maps = np.array([[[0.25] * 4] * 1, [[0.7, 0.1, 0.1, 0.1]], [[0.25] * 4]])
    picture = plain(RGB["red"], RGB["blue"], RGB["black"], RGB["white"])
    (found,) = pointing.measure_words(pointing.CaptionMaps(picture, [5, 9, 6], maps), {9: "red"})
    assert found == ("red", pytest.approx((0.7, 0.25, 0.25, 1.0, 0.25), abs=1e-6))
    (found,) = pointing.measure_words(pointing.CaptionMaps(picture, [5, 9, 6], maps), {9: "blue"})
    assert found == ("blue", pytest.approx((0.1, 0.25, 0.25, 0.0, 0.25), abs=1e-6))
    caption = pointing.CaptionMaps(picture, [5, 9, 6], maps)
    assert not list(pointing.measure_words(caption, {9: "green"}))  # nothing of that color
    everywhere = pointing.CaptionMaps(plain(*[RGB["red"]] * 4), [5, 9, 6], maps)
    assert not list(pointing.measure_words(everywhere, {9: "red"}))  # nowhere else to look
    again = pointing.CaptionMaps(picture, [9, 9, 6], maps)  # the word itself is none of the others
    assert [one.elsewhere for _, one in pointing.measure_words(again, {9: "red"})] == pytest.approx([0.25, 0.25])


def test_the_rim_and_the_spread_of_weights_that_look_everywhere_and_at_one_place(pointing: ModuleType):
    even, one = np.full((4, 4), 1 / 16), np.zeros((4, 4))
    one[1, 2] = 1
    expected = np.array([[12 / 16, 16], [0, 1]])
    np.testing.assert_allclose(pointing.rim_and_spread(np.stack([even, one])), expected, atol=1e-6)
