"""Each kind of tokenizer on Korean and English: tokens per word, unknown tokens, seconds of training.

    python benchmarks/tokens.py DATA

DATA is the folder that `--data` names. Each tokenizer is trained on a train split and measured on two unseen texts: the
validation split, and a corpus of another domain (film reviews). Counts are the same on every machine. Prints a table
for docs/evidence/data.md.
"""

import argparse
import json
import lzma
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

VOCAB_SIZE = 8000
TRAIN_CHARACTERS, TEST_CHARACTERS = 2_000_000, 500_000
TOKENIZERS: dict[str, Mapping[str, Any]] = {
    "wordpiece": {"name": "wordpiece"},
    "wordpiece, `normalization: nfc`": {"name": "wordpiece", "normalization": "nfc"},
    "wordpiece, `lowercase: false`": {"name": "wordpiece", "lowercase": False},
    "bpe": {"name": "bpe"},
    "bpe, `byte_fallback: false`": {"name": "bpe", "byte_fallback": False},
    "unigram": {"name": "unigram"},
    "byte_bpe": {"name": "byte_bpe"},
    "characters": {"name": "characters"},
}
LANGUAGES: dict[
    str, tuple[str, str, Callable[[str], str]]
] = {  # folder of both splits, another text, its lines' reader
    "Korean": ("korean_prose", "nsmc/ratings_test.txt.xz", lambda line: line.split("\t")[1]),
    "English": ("wikipedia_en", "imdb/test.jsonl.xz", lambda line: str(json.loads(line)["text"])),
}


def first_texts(path: Path, text: Callable[[str], str], characters: int) -> list[str]:
    """The first texts of a file that have at least this many characters together, or all.

    Args:
        text: reads the text of a line.
    """
    texts: list[str] = []
    size = 0
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            texts.append(text(line))
            size += len(texts[-1])
            if size >= characters:
                break
    return texts


def article_text(line: str) -> str:
    return str(json.loads(line)["text"])


def token_statistics(tokenizer: Tokenizer, texts: list[str]) -> tuple[float, float]:
    """Tokens per word (split at white space), and the percentage of unknown tokens."""
    ids = tokenizer.encode(texts)
    tokens = sum(map(len, ids))
    unknown = sum(int((text_ids == tokenizer.roles.unk).sum()) for text_ids in ids)
    return tokens / sum(len(text.split()) for text in texts), 100 * unknown / tokens


def main(data: Path) -> None:
    print("| language | tokenizer | tokens a word | unknown | on other text | unknown there | training |")
    print("|---|---|---|---|---|---|---|")
    for language, (corpus, other_file, text) in LANGUAGES.items():
        train = first_texts(data / corpus / "train.jsonl.xz", article_text, TRAIN_CHARACTERS)
        held_out = first_texts(data / corpus / "valid.jsonl.xz", article_text, TEST_CHARACTERS)
        other_texts = first_texts(data / other_file, text, TEST_CHARACTERS)
        for kind, choice in TOKENIZERS.items():
            began = time.process_time()
            tokenizer = Tokenizer.train(tokenizers.parse({"vocab_size": VOCAB_SIZE, **choice}), train)
            seconds = time.process_time() - began
            statistics = [token_statistics(tokenizer, read) for read in (held_out, other_texts)]
            cells = " | ".join(f"{per_word:.2f} | {unknown:.2f} %" for per_word, unknown in statistics)
            print(f"| {language} | {kind} | {cells} | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    main(parser.parse_args().data)
