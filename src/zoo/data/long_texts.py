"""Texts of any length, read in bounded memory."""

from collections.abc import Iterator


def split_text(text: str, most: int) -> Iterator[str]:
    """A text in parts of at most `most` characters, cut before a space or line end wherever there is one."""
    start = 0
    while len(text) - start > most:
        stop = max(text.rfind(space, start + 1, start + most) for space in " \n")
        stop = stop if stop > start else start + most
        yield text[start:stop]
        start = stop
    yield text[start:]
