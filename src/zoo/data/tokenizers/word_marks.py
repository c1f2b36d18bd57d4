"""How the tokens of a backend show where words begin."""

from collections.abc import Mapping
from typing import Any

from zoo.data.tokenizers.recipes.recipe import SPACE
from zoo.data.tokenizers.separable import steps

WORD_STARTS = {  # by decoder: how a token spells the whitespace that begins a word
    "ByteLevel": ("Ġ", "Ċ", "ĉ", "č"),
    "Metaspace": (SPACE,),
    "Replace": (SPACE,),
    "Fuse": (" ", "\n", "\t", "\r"),
}


def word_marks(spec: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """How a backend's tokens show words: by a prefix that continues one, or by marks that begin one."""
    prefix = spec["model"].get("continuing_subword_prefix")
    kinds = (step["type"] for step in steps(spec["decoder"], "decoders"))
    return prefix or None, next((WORD_STARTS[kind] for kind in kinds if kind in WORD_STARTS), None)
