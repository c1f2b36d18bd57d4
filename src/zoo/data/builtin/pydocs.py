"""Data that every Python has: the docstrings of its standard library, as documents and as texts to classify."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from zoo.data.builtin.builtin import builtins
from zoo.data.builtin.docstrings import (
    OTHER,
    SHORTEST,
    LibraryModule,
    library,
    library_digest,
    read_modules,
    split_modules,
)
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import SourcePart, Table

DOTTED = re.compile(r"\b\w+(?:\.\w+)+\b(?:\(\))?")
DOCTEST = re.compile(r"^\s*(?:>>>|\.\.\.).*$", re.MULTILINE)
INDENTED = re.compile(r"^[ \t]", re.MULTILINE)
WORD = re.compile(r"\w+")


@builtins.register("pydocs")
class Pydocs(Origin):
    """One document per module: its docstrings in order, one paragraph per line, a blank line between docstrings."""

    columns: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or library()

    def splits(self) -> tuple[str, ...]:
        return ("train", "validation")

    def place(self, split: str) -> str:
        return f"docstrings of {self.root} ({split})"

    def parts(self, split: str) -> Sequence[SourcePart]:
        def make() -> dict[str, list[str]]:
            return self.rows(split_modules(read_modules(self.root)), split)

        decided = f"{type(self).__name__} 1 {library_digest(self.root)} {split}"
        return [Table(self.place(split), decided, self.columns, make)]

    def rows(self, parts: Mapping[str, Iterable[LibraryModule]], split: str) -> dict[str, list[str]]:
        """The columns of a split, from its modules."""
        return {"text": ["\n\n".join(map(unwrap, module.docstrings)) for module in parts[split]]}


@builtins.register("pydocs-topic")
class PydocsTopic(Pydocs):
    """One document per docstring, labeled with its area of the library; text that names the area is removed."""

    columns: ClassVar[tuple[str, ...]] = ("text", "label")

    def rows(self, parts: Mapping[str, Iterable[LibraryModule]], split: str) -> dict[str, list[str]]:
        found = topics(parts[split])
        seen = topics(parts["train"]) if split == "validation" else {}  # masking may make two docstrings equal
        kept = {text: area for text, area in found.items() if text not in seen}
        return {"text": list(kept), "label": list(kept.values())}


def topics(modules: Iterable[LibraryModule]) -> dict[str, str]:
    """Masked docstring -> its area of the library."""
    names = frozenset(name.lstrip("_").lower() for name in sys.stdlib_module_names)
    found: dict[str, str] = {}
    for module in modules:
        if module.area == OTHER:
            continue
        hidden = names.union(part.lstrip("_").lower() for part in module.name.split("."))
        for docstring in module.docstrings:
            found.setdefault(mask(docstring, hidden), module.area)
    return {text: area for text, area in found.items() if len(text) > SHORTEST}


def unwrap(docstring: str) -> str:
    """Join each paragraph of a docstring to one line, except indented text (code, tables, lists)."""
    paragraphs = re.split(r"\n\s*\n", docstring)
    return "\n".join(p if INDENTED.search(p) else p.replace("\n", " ") for p in paragraphs)


def mask(docstring: str, hidden: frozenset[str]) -> str:
    """A docstring on one line, without doctests, dotted names and the hidden names."""
    text = DOTTED.sub("", DOCTEST.sub("", docstring))
    text = WORD.sub(lambda word: "" if word[0].strip("_").lower() in hidden else word[0], text)
    return " ".join(text.split())
