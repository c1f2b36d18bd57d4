"""A run's curves as a picture: small, the same each time, and none where there is nothing to draw."""

import pytest
from drawn import kept_figures

from zoo.report import curves
from zoo.report.curves import downsample, draw_curves, is_metric

LINES = [
    {
        "step": step,
        "loss": 9 / step,
        "validation/loss": 8 / step,
        "validation/accuracy": step / 9,
        "validation/f1": None,
    }
    for step in range(1, 9)
]
NONE_RIGHT = {"validation/loss": 3.0, "validation/loss/masked_lm": 3.0, "validation/f1": 0.0}


def test_the_picture_is_a_small_png_and_the_same_each_time():
    pytest.importorskip("matplotlib")
    picture = draw_curves(LINES, 5)
    assert picture is not None and picture.startswith(b"\x89PNG") and len(picture) < 100_000
    assert picture == draw_curves(LINES, 5) != draw_curves(LINES, 6)
    assert draw_curves(LINES, 0) != draw_curves(LINES)


def test_every_value_is_a_point_and_losses_have_a_panel_of_their_own(monkeypatch: pytest.MonkeyPatch):
    figures = kept_figures(curves, monkeypatch)
    draw_curves([{"step": 0, "loss": 2.0}, {"step": 1, "loss": 0.0, **NONE_RIGHT}, {"step": 2, "loss": 1.0}], 1)
    drawn = [{line.get_label(): line.get_xydata().tolist() for line in axes.lines} for axes in figures[0].axes]
    named = [{name: points for name, points in lines.items() if not name.startswith("_")} for lines in drawn]
    assert named == [{"training": [[0, 2], [1, 0], [2, 1]], "validation": [[1, 3]]}, {"f1": [[1, 0]]}]
    assert all([*lines.values()][-1] == [[1, 0], [1, 1]] for lines in drawn)  # the step that is marked


def test_the_name_of_a_file_is_no_formula():
    pytest.importorskip("matplotlib")
    lines = [line | {"validation/price_$5_to_$10/accuracy": 0.5} for line in LINES]
    assert draw_curves(lines) is not None


def test_a_long_run_is_drawn_by_means_of_neighbors():
    points = downsample([(float(step), step % 2) for step in range(1, 1001)])
    assert len(points) == 200 and points[0] == (3.0, 0.6)
    assert len(downsample([(float(step), 1.0) for step in range(399)])) == 200  # by twos
    assert downsample([(1, 5.0), (2, 6.0)]) == [(1, 5.0), (2, 6.0)]


def test_without_lines_or_without_matplotlib_there_is_no_picture(monkeypatch: pytest.MonkeyPatch):
    assert draw_curves([]) is None and draw_curves([{"step": 1, "validation/loss": 2.0}]) is None
    monkeypatch.setattr(curves, "Figure", None)
    assert draw_curves(LINES) is None


def test_losses_and_counts_are_no_metrics():
    names = ["validation/loss", "validation/loss/masked_lm", "validation/examples", "validation/bleu"]
    assert [name for name in names if is_metric(name)] == ["validation/bleu"]
    assert is_metric("validation/loss/classification/accuracy")  # of a file that is called loss
