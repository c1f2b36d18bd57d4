r"""Whether a tokenizer encodes a text as the concatenation of its words' ids: decided from its file.

A word here is what precedes the next space, together with the spaces before it. A tokenizer is separable if its
normalizer, pre-tokenizer and added tokens look no further than a word. Steps not known to do so make it inseparable:
then texts are encoded whole, which is slower and never wrong.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# In each of them, a space is matched only by the first item of an alternative, or by a run of whitespace.
CUTS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}",  # Llama 3
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{REST}",  # Qwen 2 and 3
)
CHARACTERS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")  # compose, decompose or replace characters, and drop none
# drop runs of whitespace: an emptied word leaves no trace
AT_SPACES = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
FINER = ("Punctuation", "Digits")  # only split the pieces of the first step further


def is_separable(spec: Mapping[str, Any]) -> bool:
    """Whether a tokenizer (its parsed tokenizer.json) encodes each word of a text as if it were a text of its own."""
    model, cuts = spec["model"], list(steps(spec["pre_tokenizer"], "pretokenizers"))
    if model.get("type") not in ("BPE", "WordPiece", "Unigram", "WordLevel") or model.get("dropout") or not cuts:
        return False
    first, *rest = cuts
    normalizers = list(steps(spec["normalizer"], "normalizers"))
    words = [token for token in spec["added_tokens"] if not token["special"]]
    return (
        cuts_before_spaces(first)
        and all(step["type"] in FINER or only_maps_bytes(step) for step in rest)
        and all(keeps_words(step, first["type"] in AT_SPACES) for step in normalizers)
        and not any(affects_neighbors(token, bool(words)) for token in spec["added_tokens"])
    )


def is_separable_at_marks(spec: Mapping[str, Any]) -> bool:
    """Whether a separable tokenizer also encodes ASCII letters or digits and the punctuation after them separately."""
    first, *_ = steps(spec["pre_tokenizer"], "pretokenizers")
    kind = first["type"]
    of_bytes = kind == "Split" or (kind == "ByteLevel" and not first.get("add_prefix_space", True))
    normalizers = [step["type"] for step in steps(spec["normalizer"], "normalizers")]
    # an added word may contain punctuation, or need word boundaries around it, and `_` is not a boundary
    without_words = all(token["special"] for token in spec["added_tokens"])
    return (of_bytes or kind == "BertPreTokenizer") and without_words and not {"Replace", "Strip"} & set(normalizers)


def steps(step: Mapping[str, Any] | None, below: str) -> Iterator[Mapping[str, Any]]:
    """Yield a step, or the steps of a (nested) sequence."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for each in step[below]:
        yield from steps(each, below)


def cuts_before_spaces(step: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer always begins a piece at the first space after a character that is not whitespace."""
    kind = step["type"]
    if kind == "ByteLevel":
        return bool(step.get("use_regex", True))
    if kind == "Metaspace":
        return bool(step.get("split", True))
    if kind == "Split":
        nothing_lost = step["behavior"] == "Isolated" and not step["invert"]
        return nothing_lost and step["pattern"] in [{"Regex": cut} for cut in CUTS]
    return kind in AT_SPACES


def only_maps_bytes(step: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer only maps bytes to letters, without splitting or adding anything."""
    return step["type"] == "ByteLevel" and not step.get("use_regex", True) and not step.get("add_prefix_space", True)


def keeps_words(step: Mapping[str, Any], at_spaces: bool) -> bool:
    """Whether a normalizer changes only words, and not which of them are separated by spaces.

    Args:
        at_spaces: whether the pre-tokenizer drops whitespace, so that a word may become empty.
    """
    kind = step["type"]
    if kind in CHARACTERS:
        return True
    if kind in ("BertNormalizer", "StripAccents"):
        return at_spaces
    if kind == "Replace":  # runs of whitespace become one space
        return bool(step["pattern"] == {"Regex": r"\s+"} and step["content"] == " ")
    return kind == "Strip" and not step["strip_left"]  # strips the end of a text only; words hold no space at their end


def affects_neighbors(token: Mapping[str, Any], words: bool) -> bool:
    """Whether an added token may change how the words next to it are encoded.

    A token that is not special is matched in texts: with a space in its spelling, or if it strips the space next to it,
    it extends beyond a word. A special token is not matched in texts, but hides added words inside its spelling.

    Args:
        words: whether some added tokens are not special.
    """
    # NFKC decomposes most: if its result has no space, neither has that of another form
    written = unicodedata.normalize("NFKC", token["content"]) + token["content"]
    spaced = any(character.isspace() for character in written)
    if token["special"]:
        return words and spaced
    return bool(spaced or token["lstrip"] or token["rstrip"] or (token["normalized"] and is_spaced_out(written)))


def is_spaced_out(text: str) -> bool:
    """Whether BERT's normalizer may put spaces around characters of the text, as it does for ideographs."""
    return any(unicodedata.name(character, "").startswith("CJK") for character in text)
