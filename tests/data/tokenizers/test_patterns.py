"""What could take forever, or swell a text, is told from what published tokenizers have."""

from typing import Any

import pytest

from zoo.data.tokenizers.patterns import check_patterns

PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lm}\p{M}]+(?i:'s|'t|'re)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r" {2,}",
    r"\n",
]
ENDLESS = ["(a+)+$", "(a|aa)*c", "a*a*a*b", "(a+|b+)c+", "(a+){2,30}", r"(a*)\1b", "(?:x+x+)+y", "(a{1,9}){1,9}{1,9}"]


def spec(pattern: object) -> dict[str, object]:
    return {"pre_tokenizer": {"pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}}]}}


@pytest.mark.parametrize("pattern", PUBLISHED)
def test_published_patterns_are_taken(pattern: str):
    check_patterns(spec(pattern), "x")


@pytest.mark.parametrize("pattern", [*ENDLESS, "a" * 3000, 7])
def test_patterns_that_may_take_forever_are_refused(pattern: object):
    with pytest.raises(ValueError, match="x: the pattern .* may take forever on some texts; allowed are patterns"):
        check_patterns(spec(pattern), "x")


def test_words_of_the_vocabulary_are_no_patterns():
    check_patterns({"model": {"vocab": {"Regex": "(a+)+"}}, "pattern": {"String": "(a+)+"}}, "x")


def replaced(by: str, **pattern: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": by}


START = {"SpecialToken": {"id": "<s>", "type_id": 0}}
SWELLING: list[dict[str, Any]] = [
    {"normalizer": {"type": "Sequence", "normalizers": [replaced("aaaaaaaaaa", String="a")] * 9}},
    {"decoder": {"type": "Sequence", "decoders": [replaced("bbbbb", Regex=".")] * 9}},
    {"normalizer": {"type": "Prepend", "prepend": "x" * 3000}},
    {"post_processor": {"type": "TemplateProcessing", "single": [START] * 3000}},
    {"post_processor": {"single": [START] * 40, "special_tokens": {"<s>": {"id": "<s>", "ids": [1] * 40}}}},
]


@pytest.mark.parametrize("steps", SWELLING)
def test_steps_that_swell_a_text_are_refused(steps: dict[str, Any]):
    with pytest.raises(ValueError, match="times as long"):
        check_patterns(steps, "tokenizer.json")


def test_steps_of_published_tokenizers_are_taken():
    spaces = [{"type": "Prepend", "prepend": "\u2581"}, replaced("\u2581", String=" "), replaced(" ", Regex=" {2,}")]
    template = {"type": "TemplateProcessing", "single": [START], "special_tokens": {"<s>": {"id": "<s>", "ids": [1]}}}
    check_patterns({"normalizer": {"normalizers": spaces * 5}, "post_processor": template}, "tokenizer.json")
