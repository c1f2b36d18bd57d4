"""Patterns that could take forever are told from those that published tokenizers have."""

import pytest

from zoo.data.patterns import check_patterns

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
