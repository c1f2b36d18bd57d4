"""How a tokenizer's tokens show where words begin."""

from collections.abc import Mapping
from typing import Any

from zoo.data.tokenizers.recipes.recipe import SPACE
from zoo.data.tokenizers.separable import steps

WORD_STARTS = {  # decoder -> the spellings of the whitespace at the beginning of a word
    "ByteLevel": ("Ġ", "Ċ", "ĉ", "č"),
    "Metaspace": (SPACE,),
    "Replace": (SPACE,),
    "Fuse": (" ", "\n", "\t", "\r"),
}


def word_marks(spec: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """The prefix of tokens that continue a word, and the prefixes of tokens that begin one; None if there are none."""
    prefix = spec["model"].get("continuing_subword_prefix")
    kinds = (step["type"] for step in steps(spec["decoder"], "decoders"))
    return prefix or None, next((WORD_STARTS[kind] for kind in kinds if kind in WORD_STARTS), None)
