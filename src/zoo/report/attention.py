"""Attention maps as a file: an interactive HTML page or a PNG image."""

from contextlib import suppress
from pathlib import Path

from zoo.disk import atomic_write, expand_user, refuse_unwritable, resolve_output
from zoo.inference.attend import AttentionMaps
from zoo.report.attention_page import draw_page
from zoo.report.attention_picture import draw_picture, is_possible


def check_output(path: Path, *read: str | None) -> None:
    """Refuse an output file that cannot be written, before the work starts.

    Args:
        read: the model's inputs, each a file name or a text: the output must not overwrite an input file.

    Raises:
        ValueError: as `resolve_output`; or another suffix, an input file, or .png without matplotlib.
    """
    suffix = path.suffix.lower()
    if suffix not in (".html", ".png"):
        raise ValueError(f"-o: {path}: must end in .html (a page) or .png (an image)")
    settled = resolve_output(path, "maps.html", "-o: ")
    if any(is_file(given, path) for given in read if given is not None):
        raise ValueError(f"-o: {path}: is the model's input; name another file")
    if suffix == ".png" and not is_possible():
        raise ValueError("-o: a .png needs matplotlib, which is not installed; allowed: .html, or install zoo[plots]")
    refuse_unwritable(settled, "-o: ")


def is_file(given: str, path: Path) -> bool:
    """Whether an input names the file `path`; an input may also be a text."""
    with suppress(OSError, ValueError):  # a text is usually not a valid file name
        return path.samefile(expand_user(given))
    return False


def write_maps(attention: AttentionMaps, title: str, path: Path) -> None:
    """Draw attention maps to a file that `check_output` has accepted: .html or .png.

    Raises:
        OSError: the file cannot be written.
    """
    as_page = path.suffix.lower() == ".html"
    drawn = draw_page(attention, title).encode() if as_page else draw_picture(attention, title)
    with atomic_write(path.resolve()) as aside:  # resolved, so that a link stays and its target is replaced
        aside.write_bytes(drawn)
