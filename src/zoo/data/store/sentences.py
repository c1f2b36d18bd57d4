"""A document's sentences."""

import re

GAP = re.compile(r"(?<=[.!?]) +(?=\S)")


def split_sentences(document: str) -> list[str]:
    """A document's lines, split further after `.`, `!` or `?` before a space and a capital; blank ones are left out."""
    found: list[str] = []
    for line in document.split("\n"):
        start = 0
        for gap in GAP.finditer(line):
            if line[gap.end()].isupper():
                found.append(line[start : gap.start()])
                start = gap.end()
        found.append(line[start:])
    return [sentence.strip() for sentence in found if sentence.strip()]
