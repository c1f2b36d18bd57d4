"""How the tokens of a backend show where words begin."""

from collections.abc import Mapping
from typing import Any

from zoo.data.tokenizers.recipes.recipe import SPACE

WORD_STARTS = {  # by decoder: how a token spells the whitespace that begins a word
    "ByteLevel": ("Ġ", "Ċ", "ĉ", "č"),
    "Metaspace": (SPACE,),
    "Replace": (SPACE,),
    "Fuse": (" ", "\n", "\t", "\r"),
}


def word_marks(spec: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """How a backend's tokens show words: by a prefix that continues one, or by marks that begin one."""
    prefix = spec["model"].get("continuing_subword_prefix")
    decoder = spec["decoder"] or {"type": None}
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    return prefix or None, next((WORD_STARTS[s["type"]] for s in steps if s["type"] in WORD_STARTS), None)
