"""Encoding of a text's continuation, without the space (or its marker) that some tokenizers add before a text."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.separable import steps

Step = Mapping[str, Any]


def continuation_backend(backend: Backend) -> Backend | None:
    """The backend without what it adds before a text, to encode the continuation of one.

    None if it adds nothing, or if it may add the same before words inside a text.
    """
    spec = json.loads(backend.to_str())
    cuts = list(steps(spec["pre_tokenizer"], "pretokenizers"))
    normalizers = list(steps(spec["normalizer"], "normalizers"))
    kept = [step for step in normalizers if step["type"] != "Prepend"]
    written = [step for step in cuts if adds_prefix(step)]
    if len(kept) == len(normalizers) and not written:
        return None
    if any(step is not cuts[0] for step in written):  # a later step gets single words, not the text
        return None
    # the backend treats what follows an added word as a new text, except for the scheme "first"
    has_words = any(not token["special"] for token in spec["added_tokens"])
    if has_words and (len(kept) < len(normalizers) or any(step.get("prepend_scheme") != "first" for step in written)):
        return None
    spec["normalizer"] = {"type": "Sequence", "normalizers": kept} if kept else None
    spec["pre_tokenizer"] = (
        {"type": "Sequence", "pretokenizers": [without_prefix(step) for step in cuts]} if cuts else None
    )
    found = Backend.from_str(json.dumps(spec))
    found.encode_special_tokens = backend.encode_special_tokens
    return found


def adds_prefix(cut: Step) -> bool:
    """Whether a pre-tokenizer adds a space before its input."""
    kind = cut["type"]
    if kind == "Metaspace":
        return bool(cut["prepend_scheme"] != "never")
    return kind == "ByteLevel" and bool(cut.get("add_prefix_space", True))


def without_prefix(cut: Step) -> Step:
    """The pre-tokenizer, set to add nothing before its input."""
    off: dict[str, Step] = {"Metaspace": {"prepend_scheme": "never"}, "ByteLevel": {"add_prefix_space": False}}
    return {**cut, **off.get(cut["type"], {})}
