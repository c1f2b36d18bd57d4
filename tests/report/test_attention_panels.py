"""Claims about the layout of panels: their titles, sizes and columns where sides differ."""

import numpy as np
import pytest
from drawn import shares

from zoo.inference.attend import AttentionMap, PositionLabels
from zoo.report.attention_page import names
from zoo.report.attention_panels import LONGEST, MOST_PANELS, THUMBS, choose_panels, shortened


def grid_map(*shape: int) -> AttentionMap:
    """A grid that reads itself."""
    rows, columns = shape
    places = PositionLabels((), (rows, columns))
    return AttentionMap("encoder.self", places, places, {1: shares(2, rows * columns, rows * columns)})


def test_grids_of_one_kind_are_named_by_rows_and_columns():
    assert names([grid_map(2, 3)]) == ["Encoder self-attention"]
    assert names([grid_map(2, 3), grid_map(4, 6)]) == ["Encoder self-attention, 2 × 3", "Encoder self-attention, 4 × 6"]


def test_a_position_of_a_grid_that_is_not_square_has_its_own_weights():
    found = grid_map(2, 5)
    for panel in choose_panels(found, "own").panels:
        assert panel.query_position is not None
        row, column = panel.query_position
        np.testing.assert_allclose(panel.weights.ravel(), found.layers[1].mean(0)[row * 5 + column])
    assert {panel.weights.shape for panel in choose_panels(found, "own").panels} == {(2, 5)}


@pytest.mark.parametrize(("layers", "panels"), [(MOST_PANELS // 6, MOST_PANELS), (MOST_PANELS // 6 + 1, 5 + 6)])
def test_as_many_heads_as_there_may_be_panels_have_one_each(layers: int, panels: int):
    places = PositionLabels(["a", "b"])
    found = AttentionMap("encoder.self", places, places, {n: shares(6, 2, 2) for n in range(1, layers + 1)})
    assert len(choose_panels(found, "own").panels) == panels


def test_a_heatmap_is_as_high_as_its_queries_and_as_wide_as_its_keys():
    queries, keys = PositionLabels(["a"] * 20), PositionLabels(["a long token"] * 10)
    drawn = choose_panels(AttentionMap("decoder.cross", queries, keys, {1: shares(1, 20, 10)}), "cross")
    assert (drawn.height, drawn.width) == (pytest.approx(3.8), pytest.approx(1.9))
    narrow = choose_panels(AttentionMap("decoder.cross", keys, queries, {1: shares(1, 10, 20)}), "cross")
    assert drawn.below == narrow.left > drawn.left == narrow.below


def test_few_words_have_as_many_columns_and_their_title_tells_of_heads_where_there_are_several():
    grid, words = PositionLabels((), (2, 2)), PositionLabels(["a", "b"])
    drawn = choose_panels(AttentionMap("decoder.cross", words, grid, {1: shares(3, 2, 4), 2: shares(1, 2, 4)}), "words")
    assert (drawn.columns, drawn.rows, drawn.name) == (2, 1, "words, layer 2")
    many = PositionLabels(["a"] * (THUMBS + 1))
    drawn = choose_panels(AttentionMap("decoder.cross", many, grid, {1: shares(2, THUMBS + 1, 4)}), "words")
    assert (drawn.columns, drawn.rows, drawn.name) == (THUMBS, 2, "words, layer 1, mean of heads")


def test_a_shortened_label_is_as_long_as_labels_may_be():
    assert shortened("a" * LONGEST) == "a" * LONGEST and shortened("a" * 50) == "a" * (LONGEST - 1) + "…"
