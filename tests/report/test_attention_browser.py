"""The page of attention maps in a browser, with a mouse and keys; without one, test_attention_page.py remains."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, missing
from drawn import HOSTILE, caption, large, shares, translation

from zoo.inference.attend import AttentionMap, AttentionMaps, PositionLabels
from zoo.report.attention import write_maps

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
WEIGHTS = "return [...document.querySelectorAll('#{} .token')].map((token) => Number(token.dataset.weight))"
CHOSEN = "return [...document.querySelectorAll('#from .chosen')].map((token) => Number(token.dataset.place))"
LIGHT = """const canvas = document.querySelector('#to canvas'), pen = canvas.getContext('2d'), n = canvas.width / 4;
    return [[1, 1], [3, 1], [1, 3], [3, 3]].map(([x, y]) => pen.getImageData(x * n, y * n, 1, 1).data[0])"""
ESCAPE, RIGHT = "\ue00c", "\ue014"
NEAR = 0.006  # of a byte's step
Show = Callable[[AttentionMaps], Browser]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page; afterwards it must have complained about nothing."""

    def opened(drawn: AttentionMaps) -> Browser:
        write_maps(drawn, "mine", tmp_path / "maps.html")
        browser.open((tmp_path / "maps.html").as_uri())
        return browser

    yield opened
    assert browser.complaints() == []


def seen(browser: Browser, box: str) -> Any:
    return browser.run(WEIGHTS.format(box))


def test_pointing_at_a_word_shows_what_it_reads(show: Show):
    drawn = translation()
    page = show(drawn)
    page.hover("#from .token:nth-child(1)")
    np.testing.assert_allclose(seen(page, "to"), drawn.maps[1].layers[3].mean(0)[0], atol=NEAR)
    page.hover("h1")
    assert page.run("return document.querySelector('#to .token').dataset.weight ?? null") is None


def test_kind_layer_and_head_are_chosen_by_clicks(show: Show):
    drawn = translation()
    page = show(drawn)
    page.click("[data-kind='encoder.self']")
    page.click("[data-layer='1'][data-head='0']")
    assert page.run("return document.getElementById('chosen').textContent") == "Encoder self-attention: layer 2, head 1"
    page.hover("#from .token:nth-child(3)")
    np.testing.assert_allclose(seen(page, "from"), drawn.maps[0].layers[2][0, 2], atol=NEAR)


def test_a_click_pins_a_word_until_escape(show: Show):
    page = show(translation())
    page.click("#from .token:nth-child(3)")
    page.hover("h1")
    assert page.run(CHOSEN) == [2]
    page.press(ESCAPE)
    assert page.run(CHOSEN) == []


def test_the_other_direction_shows_who_looks_at_a_word(show: Show):
    drawn = translation()
    page = show(drawn)
    page.click("[data-direction='by']")
    page.hover("#from .token:nth-child(2)")
    np.testing.assert_allclose(seen(page, "to"), drawn.maps[1].layers[3].mean(0)[:, 1], atol=NEAR)


def test_pointing_at_the_matrix_points_at_its_row(show: Show):
    page = show(translation())
    page.run("document.getElementById('matrix').scrollIntoView()")
    place = "const m = document.getElementById('matrix'), r = m.getBoundingClientRect();"
    x, y = page.run(f"{place} return [m.left + m.cell / 2 - r.width / 2, m.top + 1.5 * m.cell - r.height / 2]")
    page.hover("#matrix", int(x), int(y))
    assert page.run(CHOSEN) == [1]


def test_the_matrix_of_a_long_text_is_drawn_on_a_screen_of_high_density(show: Show):
    words, long = PositionLabels(["one", "two"]), PositionLabels(["a"] * 2500)
    page = show(
        AttentionMaps([AttentionMap("decoder.cross", words, long, {1: shares(2, 2, 2500)})], {"source": "a"}, None)
    )
    page.run("Object.defineProperty(window, 'devicePixelRatio', { value: 3 })")
    page.click("[data-layer='0'][data-head='1']")
    width, drawn = page.run(
        """const m = document.getElementById('matrix'), pen = m.getContext('2d');
        const seen = pen.getImageData(m.width * (m.left + 4) / m.clientWidth, m.height - 5, 1, 1).data[3];
        return [m.width, seen]"""
    )
    assert drawn > 0 and 15990 < width <= 16000


def test_words_are_stepped_through_over_the_picture(show: Show):
    page = show(caption())
    page.click("[data-step='1']")
    page.press(RIGHT)
    assert page.run(CHOSEN) == [1]
    pixels = page.run(LIGHT)
    assert np.argmax(pixels) == 1 and pixels[1] > 2 * max(pixels[0], pixels[2], pixels[3])
    page.click("#strip button:nth-child(4)")
    assert page.run(CHOSEN) == [3] and np.argmax(page.run(LIGHT)) == 3


def test_a_position_of_the_picture_shows_what_it_reads(show: Show):
    drawn = caption()
    page = show(drawn)
    page.click("[data-kind='encoder.self']")
    page.hover("#from canvas", -200, 200)  # the last row's first position
    asked = page.run("return document.getElementById('readout').textContent")
    best = int(drawn.maps[0].layers[2][0, 12].argmax())
    assert asked.startswith(f"row 4, column 1 attends torow {best // 4 + 1}, column {best % 4 + 1}")


def test_text_from_data_stays_text(show: Show):
    page = show(translation())
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.run("return window.broken ?? null") is None
    assert page.run("return document.querySelector('#from .token:nth-child(2)').textContent") == HOSTILE


def test_twelve_layers_of_twelve_heads_are_all_there(show: Show):
    page = show(large())
    assert page.run("return document.querySelectorAll('#heads button').length") == 12 * 13
    page.click("[data-layer='11'][data-head='11']")
    page.hover("#from .token:nth-child(64)")
    assert abs(sum(seen(page, "from")) - 1) < 64 * NEAR / 4
