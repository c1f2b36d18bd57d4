"""Claims about the picture of attention maps: which panels it has, and that they can be read."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from drawn import SOURCE, WORDS, WRITTEN, caption, kept_figures, large, shares, translation
from PIL import Image

from zoo.inference.attend import AttentionMap, AttentionMaps, PositionLabels
from zoo.report import attention_picture
from zoo.report.attention import check_output, write_maps
from zoo.report.attention_panels import choose_panels, label_step, points, shortened
from zoo.report.attention_picture import strongest_weight


def test_few_heads_have_a_panel_each():
    drawn = choose_panels(translation().maps[0], "own")
    assert [panel.title for panel in drawn.panels][:3] == ["layer 1, head 1", "layer 1, head 2", "layer 2, head 1"]
    assert drawn.columns == 2 and drawn.rows == 3


def test_many_heads_are_the_mean_of_each_layer_and_those_of_the_last():
    found = large().maps[0]
    panels = choose_panels(found, "own").panels
    assert [panel.title for panel in panels][11:13] == ["layer 12, mean of 12 heads", "layer 12, head 1"]
    assert len(panels) == 24
    np.testing.assert_allclose(panels[2].weights, found.layers[3].mean(0))


def test_captions_have_a_panel_for_each_word():
    panels = choose_panels(caption().maps[1], "words").panels
    assert [panel.title for panel in panels] == WORDS
    assert [panel.weights.argmax() for panel in panels] == [0, 1, 2, 3]


def test_the_panel_of_a_word_is_the_mean_of_the_last_layers_heads():
    layers = {1: shares(2, 4, 6), 2: shares(3, 4, 6)}
    found = AttentionMap("decoder.cross", PositionLabels(WORDS), PositionLabels((), (2, 3)), layers)
    drawn = choose_panels(found, "words")
    assert drawn.name == "words, layer 2, mean of heads"
    np.testing.assert_allclose([panel.weights.ravel() for panel in drawn.panels], layers[2].mean(0))


def test_a_grid_that_reads_itself_is_asked_at_nine_positions():
    found = caption().maps[0]
    panels = choose_panels(found, "own").panels
    assert [panel.query_position for panel in panels][:4] == [(0, 0), (0, 2), (0, 3), (2, 0)] and len(panels) == 9
    assert [panel.title for panel in panels][1:4:2] == ["layer 2, row 1, column 3", "layer 2, row 3, column 1"]
    np.testing.assert_array_equal(panels[1].weights.ravel(), found.layers[2][0, 2])


def test_a_grid_of_few_positions_is_asked_at_each_of_them_once():
    places = PositionLabels((), (1, 2))
    drawn = choose_panels(AttentionMap("encoder.self", places, places, {1: shares(1, 2, 2)}), "own")
    assert [panel.query_position for panel in drawn.panels] == [(0, 0), (0, 1)] and drawn.columns == 2


def test_labels_of_a_long_text_leave_some_out_rather_than_be_too_small():
    assert label_step(20, 4.0) == 1 and label_step(512, 5.0) == 8
    assert points(512, 5.0) == 5.0 and points(3, 1.0) == 8.0
    places = PositionLabels(["word"] * 300)
    drawn = choose_panels(AttentionMap("encoder.self", places, places, {1: shares(1, 300, 300)}), "long")
    assert drawn.width == drawn.height == 5.0


def test_even_weights_stay_pale_and_a_sharp_one_is_as_strong_as_can_be():
    assert strongest_weight(np.full((3, 16), 1 / 16, dtype=np.float32), 16, 4) == 4 / 16
    assert (
        strongest_weight(np.eye(16, dtype=np.float32), 16, 4)
        == strongest_weight(np.eye(2, dtype=np.float32), 2, 4)
        == 1
    )


def test_the_outer_panels_have_the_queries_at_their_side_and_the_keys_below(monkeypatch: pytest.MonkeyPatch):
    figures = kept_figures(attention_picture, monkeypatch)
    attention_picture.draw_picture(translation(), "mine")
    panels = figures[0].axes[6:]  # of the second map: three layers of two heads
    source, written = SOURCE, [shortened(token) for token in WRITTEN]
    assert [label.get_text() for label in panels[4].get_xticklabels()] == source
    assert [label.get_text() for label in panels[4].get_yticklabels()] == written
    shown = [[len(axis.get_ticklocs()) for axis in (axes.yaxis, axes.xaxis)] for axes in panels]
    assert shown == [[3, 0], [0, 0], [3, 0], [0, 0], [3, 4], [0, 4]]
    assert panels[1].get_title() == "layer 1, head 2" and panels[1].get_position().x0 > panels[0].get_position().x0
    np.testing.assert_allclose(panels[1].images[0].get_array(), np.sqrt(translation().maps[1].layers[1][1]))


@pytest.mark.parametrize("maps", [translation, caption, large])
def test_panels_lie_side_by_side_within_the_figure(maps: Callable[[], AttentionMaps], monkeypatch: pytest.MonkeyPatch):
    figures = kept_figures(attention_picture, monkeypatch)
    attention_picture.draw_picture(maps(), "mine")
    boxes = [axes.get_position() for axes in figures[0].axes]
    assert all(0 < box.x0 < box.x1 < 1 and 0 < box.y0 < box.y1 < 1 for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert one.x1 <= other.x0 or other.x1 <= one.x0 or one.y1 <= other.y0 or other.y1 <= one.y0


def test_labels_that_are_left_out_leave_the_others_at_their_places(monkeypatch: pytest.MonkeyPatch):
    figures = kept_figures(attention_picture, monkeypatch)
    places = PositionLabels([f"token {number}" for number in range(300)])
    maps = [AttentionMap("encoder.self", places, places, {1: shares(1, 300, 300)})]
    attention_picture.draw_picture(AttentionMaps(maps, {}, None), "mine")
    axis = figures[0].axes[0].xaxis
    found = {
        int(place): label.get_text() for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    }
    assert figures[0].axes[0].images[0].get_clim() == (0, pytest.approx(np.sqrt(maps[0].layers[1].max())))
    assert 1 < len(found) < 100 and found == {place: f"token {place}" for place in found}


def test_an_image_is_bright_where_it_is_read_and_the_reader_is_marked(monkeypatch: pytest.MonkeyPatch):
    figures = kept_figures(attention_picture, monkeypatch)
    attention_picture.draw_picture(caption(), "mine")
    own, words = figures[0].axes[:9], figures[0].axes[9:]
    (mark,) = own[1].lines  # the reader is in row 1 and column 3 of a 4 x 4 grid over 32 x 32 pixels
    assert mark.get_xydata().tolist() == [[20, 4]]
    for number, axes in enumerate(words):  # each word reads a quarter alone
        row, column = divmod(number, 2)
        quarters = axes.images[0].get_array()[..., 0].reshape(2, 16, 2, 16).mean((1, 3))
        assert quarters[row, column] > 150 and quarters[1 - row, 1 - column] < 60


def test_the_picture_is_a_png_and_the_same_each_time(tmp_path: Path):
    pytest.importorskip("matplotlib")
    for name in ("a.png", "b.png"):
        write_maps(caption(), "mine", tmp_path / name)
    written = (tmp_path / "a.png").read_bytes()
    assert written.startswith(b"\x89PNG") and written == (tmp_path / "b.png").read_bytes()


def test_long_texts_go_over_a_few_lines(tmp_path: Path):
    pytest.importorskip("matplotlib")
    heights = []
    for count in (1, 40, 400, 4000):
        maps = translation().maps[:1]
        write_maps(AttentionMaps(maps, {"source": "word " * count}, None), "mine", tmp_path / "a.png")
        with Image.open(tmp_path / "a.png") as picture:
            heights.append(picture.height)
    line = round(0.2 * attention_picture.DPI)
    assert heights[0] + 2 * line == heights[1] < heights[2] == heights[3] == heights[0] + 3 * line


def test_tokens_that_look_like_formulas_are_drawn_as_they_are(tmp_path: Path):
    pytest.importorskip("matplotlib")
    places, grid = PositionLabels(["$\\alpha$", "$x^", "$\\x$"]), PositionLabels((), (1, 3))
    maps = [AttentionMap("encoder.self", places, places, {1: shares(1, 3, 3)})]
    maps.append(AttentionMap("decoder.cross", places, grid, {1: shares(1, 3, 3)}))
    write_maps(AttentionMaps(maps, {"text": "$\\frac"}, None), "$mine$ $\\x$", tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_without_matplotlib_a_page_can_be_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(attention_picture, "Figure", None)
    with pytest.raises(ValueError, match=r"a .png needs matplotlib, .* allowed: .html, or install zoo\[plots\]"):
        check_output(tmp_path / "maps.png")
    write_maps(translation(), "mine", tmp_path / "maps.html")
    assert (tmp_path / "maps.html").read_text("utf-8").startswith("<!doctype html>")
