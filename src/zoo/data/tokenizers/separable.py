r"""Which tokenizers give a text the ids of its words, one after another: a property of what their file says.

A word here is what stands before the next space, with the spaces before itself. A tokenizer is separable if its
normalizer, its cut into pieces and its added tokens look no further than a word. Steps that are not known to do so make
it inseparable: then texts are encoded whole, which is slower and never wrong.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# In each of them nothing but an alternative's first place, or a run of whitespace, matches a space.
CUTS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}",  # Llama 3
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{REST}",  # Qwen 2 and 3
)
CHARACTERS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")  # a character becomes some, and none of them vanishes
AT_SPACES = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")  # however many spaces: what vanishes leaves no mark
FINER = ("Punctuation", "Digits")  # cut what the first step left together


def is_separable(spec: Mapping[str, Any]) -> bool:
    """Whether the tokenizer of this file (tokenizer.json, parsed) encodes each word of a text as if it stood alone."""
    model, cuts = spec["model"], list(steps(spec["pre_tokenizer"], "pretokenizers"))
    if model.get("type") not in ("BPE", "WordPiece", "Unigram", "WordLevel") or model.get("dropout") or not cuts:
        return False
    first, *rest = cuts
    normalizers = list(steps(spec["normalizer"], "normalizers"))
    words = [token for token in spec["added_tokens"] if not token["special"]]
    return (
        cuts_before_spaces(first)
        and all(step["type"] in FINER or is_spelling(step) for step in rest)
        and all(keeps_words(step, first["type"] in AT_SPACES) for step in normalizers)
        and not any(reaches_out(token, bool(words)) for token in spec["added_tokens"])
    )


def is_separable_at_marks(spec: Mapping[str, Any]) -> bool:
    """Whether the tokenizer, a separable one, also encodes plain letters and the mark behind them apart."""
    first, *_ = steps(spec["pre_tokenizer"], "pretokenizers")
    kind = first["type"]
    of_bytes = kind == "Split" or (kind == "ByteLevel" and not first.get("add_prefix_space", True))
    normalizers = [step["type"] for step in steps(spec["normalizer"], "normalizers")]
    # an added word may hold marks, and may have to stand between two ends of words, and `_` is not such an end
    without_words = all(token["special"] for token in spec["added_tokens"])
    return (of_bytes or kind == "BertPreTokenizer") and without_words and not {"Replace", "Strip"} & set(normalizers)


def steps(step: Mapping[str, Any] | None, below: str) -> Iterator[Mapping[str, Any]]:
    """A step, or those of a sequence, however deep."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for each in step[below]:
        yield from steps(each, below)


def cuts_before_spaces(step: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer always begins a piece at the first space behind something else than whitespace."""
    kind = step["type"]
    if kind == "ByteLevel":
        return bool(step.get("use_regex", True))
    if kind == "Metaspace":
        return bool(step.get("split", True))
    if kind == "Split":
        nothing_lost = step["behavior"] == "Isolated" and not step["invert"]
        return nothing_lost and step["pattern"] in [{"Regex": cut} for cut in CUTS]
    return kind in AT_SPACES


def is_spelling(step: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer writes bytes as letters, and cuts and adds nothing."""
    return step["type"] == "ByteLevel" and not step.get("use_regex", True) and not step.get("add_prefix_space", True)


def keeps_words(step: Mapping[str, Any], at_spaces: bool) -> bool:
    """Whether a normalizer changes words alone, not whether spaces stand between them.

    Args:
        at_spaces: whether runs of whitespace are cut out behind it, so that a word may become nothing.
    """
    kind = step["type"]
    if kind in CHARACTERS:
        return True
    if kind in ("BertNormalizer", "StripAccents"):
        return at_spaces
    if kind == "Replace":  # runs of whitespace become one space
        return bool(step["pattern"] == {"Regex": r"\s+"} and step["content"] == " ")
    return kind == "Strip" and not step["strip_left"]  # at the end of a text; a word inside has nothing to strip


def reaches_out(token: Mapping[str, Any], words: bool) -> bool:
    """Whether an added token may decide what is read of the words beside its own.

    Texts may spell one that is not special: written with a space, or taking the one beside it, it is more than a word.
    A special one is not read, but hides the words in it.

    Args:
        words: whether there are tokens that are not special.
    """
    # compatibility forms take the most apart: what they write without a space no other form writes with one
    written = unicodedata.normalize("NFKC", token["content"]) + token["content"]
    spaced = any(character.isspace() for character in written)
    if token["special"]:
        return words and spaced
    return bool(spaced or token["lstrip"] or token["rstrip"] or (token["normalized"] and is_spaced_out(written)))


def is_spaced_out(text: str) -> bool:
    """Whether BERT's normalizer may write spaces around a text's characters, as it does with ideographs."""
    return any(unicodedata.name(character, "").startswith("CJK") for character in text)
