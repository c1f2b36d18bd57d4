"""What could take forever, or swell a text, is told from what published tokenizers have."""

import time
from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers

from zoo.data.tokenizers.patterns import check_patterns

WORDS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PUBLISHED = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": rf"{WORDS}|{BEFORE}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    "Qwen2": rf"{WORDS}|{BEFORE}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    "GPT-4": rf"'(?i:[sdmt]|ll|ve|re)|{BEFORE}+\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+",
    "GPT-4o": rf"{BEFORE}{UPPER}*{LOWER}+{WORDS}?|{BEFORE}{UPPER}+{LOWER}*{WORDS}?|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}",
    "Mistral": rf"{BEFORE}{UPPER}*{LOWER}+|{BEFORE}{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}",
    "CLIP": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "DeepSeek-V3": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    "DeepSeek-Coder": r"\s+$",
    "DeepSeek's Chinese": "[一-龥぀-ゟ゠-ヿ]+",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "SentencePiece": r" {2,}",
    "Pegasus": r"\n",
    "T5": r"\s{2,}|[\n\r\t]",
    "a piece cut behind its first letter": r"<(?=\/s>)",
}
ENDLESS = [
    *("(a+)+$", "(a|aa)*c", "a*a*a*b", "(a+|b+)c+", "(a+){2,30}", r"(a*)\1b", "(?:x+x+)+y", "(a{1,9}){1,9}{1,9}"),
    *(".?" * 40 + r"\b\B", r".+.+\b\B", "(?:.|.)" * 22, ".?" * 40 + "x", "a?" * 30 + "a" * 30, ".+x", r"\s*[\r\n]+"),
]


def spec(pattern: object) -> dict[str, object]:
    return {"pre_tokenizer": {"pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}}]}}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_patterns_are_taken(name: str):
    check_patterns(spec(PUBLISHED[name]), "x")


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "DeepSeek-Coder"])
@pytest.mark.parametrize("text", [" ", "A"])
def test_a_pattern_that_is_taken_reads_a_long_text_in_time_that_grows_with_its_length(name: str, text: str):
    splitter = pre_tokenizers.Split(Regex(PUBLISHED[name]), "isolated")
    begin = time.perf_counter()
    splitter.pre_tokenize_str(text * (100_000 // len(text)))  # quadratic, this takes minutes
    assert time.perf_counter() - begin < 20


@pytest.mark.parametrize("pattern", [*ENDLESS, "a" * 3000, 7])
def test_patterns_that_may_take_forever_are_refused(pattern: object):
    with pytest.raises(ValueError, match="x: the pattern .* may take forever on some texts; allowed: patterns"):
        check_patterns(spec(pattern), "x")


@pytest.mark.parametrize("pattern", ["a?|" * 600 + "(", "|.?" * 600 + "^", "[" + r"\x{41}" * 300, "a" * 1900 + "("])
def test_no_pattern_takes_for_ever_to_be_refused(pattern: str):
    with pytest.raises(ValueError, match="may take forever"):
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
