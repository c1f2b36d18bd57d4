"""Texts of models and files as a terminal may show them: escape sequences are spelled out, not obeyed."""


def visible(text: str) -> str:
    """A text whose control characters are written as `\\x1b`; line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
