"""Escape untrusted text, from data, files and commands, and format it as Markdown."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"([\\`*_\[\]|~!#])")


def one_line(text: str) -> str:
    """Text on one line, without invisible characters."""
    words = " ".join(text.split())
    return "".join(letter for letter in words if unicodedata.category(letter) not in ("Cc", "Cf", "Cs"))


def escape(text: str) -> str:
    """Escape text so that Markdown shows it literally: no markup, no HTML, no link."""
    escaped = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", escaped)


def code_block(content: str, language: str = "") -> list[str]:
    """A code block that shows its content literally, whatever it holds."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *content.rstrip("\n").split("\n"), fence, ""]


def collapsible(title: str, lines: Iterable[str]) -> list[str]:
    """Lines in a collapsed section that opens at a click on its title."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "</details>", ""]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; its cells are escaped."""
    cells = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *cells, ""]


def section(title: str, *parts: Sequence[str]) -> list[str]:
    """Lines under a heading."""
    return [f"## {title}", "", *(line for part in parts for line in part)]
