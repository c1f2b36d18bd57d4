"""Fonts for an image's text in any script: installed fonts for characters that matplotlib's default lacks."""

import logging
from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width

try:
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font
except ImportError:  # the extra `plots` is not installed: then no text is drawn
    fontManager = None  # type: ignore[assignment]

USUAL = "DejaVu Sans"  # comes with matplotlib
BOXES = "Last Resort"  # matplotlib's fallback: draws every character as a box
BROAD = 1.6  # width of a Chinese, Japanese or Korean character, in Latin letters

logger = logging.getLogger(__name__)


def families(texts: Iterable[str]) -> list[str]:
    """The default font, then others until every character is covered; characters that no font has are logged."""
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
    """(name, file) of each upright font of regular weight: the default first, then sans-serif ones, then others."""
    entries = {e.name: e.fname for e in fontManager.ttflist if e.style == "normal" and e.weight in (400, "normal")}
    first = sorted(entries, key=lambda name: (name != USUAL, "Sans" not in name, name))
    return ((name, entries[name]) for name in first if not name.startswith(BOXES))


def characters(path: str) -> set[int]:
    """The code points that a font can draw; empty for a bitmap font or a broken file."""
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):
        return set()
    return set(font.get_charmap()) if font.scalable else set()


def letters(text: str) -> float:
    """The approximate width of a text, in Latin letters."""
    return sum(BROAD if east_asian_width(sign) in "WF" else 1 for sign in text)
