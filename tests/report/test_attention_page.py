"""Claims about the page of attention maps: whole in one file, harmless, and true to the weights."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from drawn import HOSTILE, caption, large, translation
from PIL import Image

from zoo.report.attention_page import draw_page

HALF = 0.5 + 1e-4  # of a step of a byte, by which sqrt(w) is off; and what float32 rounds


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of its data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def test_the_page_holds_the_weights_as_bytes():
    drawn = translation()
    data = json.loads(Elements(draw_page(drawn, "mine")).scripts[0])
    for one, written in zip(drawn.maps, data["maps"], strict=True):
        assert written["queries"]["labels"] == list(one.queries.labels)
        for layer, (number, weights) in zip(written["layers"], one.layers.items(), strict=True):
            stored = np.frombuffer(base64.b64decode(layer["weights"]), dtype=np.uint8).reshape(weights.shape)
            assert (layer["layer"], layer["heads"]) == (number, len(weights))
            np.testing.assert_allclose(stored, 255 * np.sqrt(weights), atol=HALF)


def test_text_from_data_is_text():
    page = draw_page(translation(), f"run {HOSTILE}")
    elements = Elements(page)
    assert [tag for tag, _ in elements.found].count("script") == 2
    assert "img" not in [tag for tag, _ in elements.found]
    assert HOSTILE not in page and json.loads(elements.scripts[0])["title"] == f"run {HOSTILE}"


def test_the_page_asks_for_nothing_outside_itself():
    for drawn in (translation(), caption()):
        page = draw_page(drawn, "mine")
        elements = Elements(page)
        assert not [a for _, attrs in elements.found for a in attrs if a in ("src", "href")]
        assert not re.search(r"https?:|@import|url\(|import\(|fetch\(|XMLHttpRequest", page)
        assert ("meta", "default-src 'none'") in [(t, (a.get("content") or "")[:18]) for t, a in elements.found]


def test_nothing_of_the_template_is_left_open():
    assert "{{" not in draw_page(translation(), "mine")


def test_a_picture_is_part_of_the_page():
    data = json.loads(Elements(draw_page(caption(), "mine")).scripts[0])
    assert base64.b64decode(data["picture"].removeprefix("data:image/jpeg;base64,")).startswith(b"\xff\xd8")
    assert [one["keys"]["grid"] for one in data["maps"]] == [[4, 4], [2, 2]]


def test_the_picture_of_the_page_is_the_one_that_the_model_read():
    given = np.zeros((3, 16, 48), dtype=np.uint8)
    given[0, :8, :] = 255  # red above
    data = json.loads(Elements(draw_page(replace(caption(), picture=given), "mine")).scripts[0])
    shown = Image.open(io.BytesIO(base64.b64decode(data["picture"].removeprefix("data:image/jpeg;base64,"))))
    assert np.abs(np.asarray(shown).transpose(2, 0, 1) - given.astype(float)).mean() < 5


def test_64_tokens_of_12_layers_of_12_heads_are_less_than_a_megabyte():
    assert len(draw_page(large(), "base")) < 1e6
