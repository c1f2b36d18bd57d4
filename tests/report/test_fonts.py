"""Claims about fonts: characters that the usual one lacks come from another one, or are said to be boxes."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from drawn import shares

from zoo.inference.attend import AttentionMap, AttentionMaps, PositionLabels

pytest.importorskip("matplotlib")
from zoo.report import fonts
from zoo.report.attention import write_maps

CIRCLED = "Ⓐ"  # is in STIX, which comes with matplotlib, but not in the usual font
HANGUL = "한국"


def drawn(label: str) -> AttentionMaps:
    places = PositionLabels([label, "b"])
    return AttentionMaps([AttentionMap("encoder.self", places, places, {1: shares(1, 2, 2)})], {"text": label}, None)


def test_the_usual_font_is_enough_for_what_it_has():
    assert fonts.families(["Grüße, Привет \n\x00"]) == [fonts.USUAL]


def test_what_the_usual_font_lacks_comes_from_another_one(caplog: pytest.LogCaptureFixture):
    usual, other = fonts.families(["a", CIRCLED])
    files = dict(fonts.installed())
    assert usual == fonts.USUAL and not caplog.records
    assert ord(CIRCLED) in fonts.characters(files[other]) - fonts.characters(files[usual])


def test_what_no_font_has_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    only = [entry for entry in fonts.installed() if entry[0] == fonts.USUAL]
    monkeypatch.setattr(fonts, "installed", lambda: iter(only))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_maps(drawn(HANGUL), "mine", tmp_path / "maps.png")
    (record,) = caplog.records
    assert record.getMessage().startswith("no font here has 2 of the text's characters (국한)")


def test_a_file_that_is_no_font_has_no_characters(tmp_path: Path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    assert fonts.characters(str(tmp_path / "broken.ttf")) == set()


def test_signs_of_full_width_take_more_room():
    assert fonts.letters("ab") == 2 < fonts.letters(HANGUL)
    assert np.isclose(fonts.letters(HANGUL + "ab"), 2 + 2 * fonts.BROAD)
