"""Attention maps as a file: a page to play with, or a picture."""

from collections.abc import Callable
from pathlib import Path

from zoo.inference.attend import Attended
from zoo.report.attention_page import draw_page
from zoo.report.attention_picture import draw_picture, refuse_without_matplotlib


def page_file(attended: Attended, title: str) -> bytes:
    return draw_page(attended, title).encode()


DRAWERS: dict[str, Callable[[Attended, str], bytes]] = {".html": page_file, ".png": draw_picture}


def check_output(path: Path) -> None:
    """Refuse a file that could not be written, before the work is done.

    Raises:
        ValueError: another kind of file, no such folder, or no matplotlib for a picture.
    """
    if path.suffix.lower() not in DRAWERS:
        raise ValueError(f"-o: '{path}' is neither a page nor a picture; allowed: a name that ends in .html or .png")
    if not path.parent.is_dir():
        raise ValueError(f"-o: '{path}': there is no folder '{path.parent}'")
    if path.is_dir():
        raise ValueError(f"-o: '{path}' is a folder; name a file")
    if path.suffix.lower() == ".png":
        refuse_without_matplotlib()


def write_maps(attended: Attended, title: str, path: Path) -> None:
    """Draw attention maps into a file; its suffix says how.

    Raises:
        ValueError: as `check_output`.
        OSError: the file cannot be written.
    """
    check_output(path)
    path.write_bytes(DRAWERS[path.suffix.lower()](attended, title))
