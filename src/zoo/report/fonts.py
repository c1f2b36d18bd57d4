"""Fonts for a picture's texts in any script: those of the machine that have what the usual one lacks."""

import logging
from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width

try:
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font
except ImportError:  # the extra `plots` is not installed: then there is no picture
    fontManager = None  # type: ignore[assignment]

USUAL = "DejaVu Sans"  # comes with matplotlib
BOXES = "Last Resort"  # of matplotlib's own: has every character, as a box
BROAD = 1.6  # letters that a Chinese, Japanese or Korean sign is wide

logger = logging.getLogger(__name__)


def families(texts: Iterable[str]) -> list[str]:
    """The usual font, then others until every character has one; what none has is logged."""
    lacking = {sign for text in texts for sign in text if sign.isprintable()}
    chosen = []
    for name, path in installed():
        known = characters(path)
        found = {sign for sign in lacking if ord(sign) in known}
        if found or name == USUAL:
            lacking -= found
            chosen.append(name)
        if not lacking:
            return chosen
    some = "".join(sorted(lacking)[:8])
    said = "no font here has %d of the text's characters (%s): they are drawn as boxes; a .html page may show them"
    logger.warning(said, len(lacking), some)
    return chosen


def installed() -> Iterator[tuple[str, str]]:
    """Upright fonts of ordinary weight and their files: the usual one, those without serifs, the others."""
    entries = {e.name: e.fname for e in fontManager.ttflist if e.style == "normal" and e.weight in (400, "normal")}
    first = sorted(entries, key=lambda name: (name != USUAL, "Sans" not in name, name))
    return ((name, entries[name]) for name in first if not name.startswith(BOXES))


def characters(path: str) -> set[int]:
    """What a font can draw; nothing where its glyphs are pixels of one size, or its file is broken."""
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):
        return set()
    return set(font.get_charmap()) if font.scalable else set()


def letters(text: str) -> float:
    """How many letters wide a text is, by and large."""
    return sum(BROAD if east_asian_width(sign) in "WF" else 1 for sign in text)
