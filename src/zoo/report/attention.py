"""Attention maps as a file: a page to play with, or a picture."""

from contextlib import suppress
from pathlib import Path

from zoo.disk import at_home, refuse_unwritable, settle_output, written_aside
from zoo.inference.attend import Attended
from zoo.report.attention_page import draw_page
from zoo.report.attention_picture import draw_picture, is_possible


def check_output(path: Path, *read: str | None) -> None:
    """Refuse a file that could not be written, before the work is done.

    Args:
        read: what the model is given, a file or a text.

    Raises:
        ValueError: another kind of file, as `settle_output`, no matplotlib for a picture, or a file that is read.
    """
    suffix = path.suffix.lower()
    if suffix not in (".html", ".png"):
        raise ValueError(f"-o: {path}: must end in .html (a page) or .png (an image)")
    settled = settle_output(path, "maps.html", "-o: ")
    if any(is_file(given, path) for given in read if given is not None):
        raise ValueError(f"-o: {path}: is the model's input; name another file")
    if suffix == ".png" and not is_possible():
        raise ValueError("-o: a .png needs matplotlib, which is not installed; allowed: .html, or install zoo[plots]")
    refuse_unwritable(settled, "-o: ")


def is_file(given: str, path: Path) -> bool:
    """Whether what is given is the name of a file, and not a text."""
    with suppress(OSError, ValueError):  # no file has a text's name
        return path.samefile(at_home(given))
    return False


def write_maps(attended: Attended, title: str, path: Path) -> None:
    """Draw attention maps into a file that `check_output` has let pass; its suffix says how.

    Raises:
        OSError: the file cannot be written.
    """
    as_page = path.suffix.lower() == ".html"
    drawn = draw_page(attended, title).encode() if as_page else draw_picture(attended, title)
    with written_aside(path.resolve()) as aside:  # a link goes on naming it
        aside.write_bytes(drawn)
