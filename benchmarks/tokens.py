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
TRAIN, READ = 2_000_000, 500_000  # characters
KINDS: dict[str, Mapping[str, Any]] = {
    "wordpiece": {"name": "wordpiece"},
    "wordpiece, `normalization: nfc`": {"name": "wordpiece", "normalization": "nfc"},
    "wordpiece, `lowercase: false`": {"name": "wordpiece", "lowercase": False},
    "bpe": {"name": "bpe"},
    "bpe, `byte_fallback: false`": {"name": "bpe", "byte_fallback": False},
    "unigram": {"name": "unigram"},
    "byte_bpe": {"name": "byte_bpe"},
    "characters": {"name": "characters"},
}
LANGUAGES: dict[str, tuple[str, str, Callable[[str], str]]] = {  # trained and tested on, another text, its lines
    "Korean": ("korean_prose", "nsmc/ratings_test.txt.xz", lambda line: line.split("\t")[1]),
    "English": ("wikipedia_en", "imdb/test.jsonl.xz", lambda line: str(json.loads(line)["text"])),
}


def begin(path: Path, text: Callable[[str], str], characters: int) -> list[str]:
    """The first texts of a file, until they have at least this many characters together, or all."""
    found: list[str] = []
    size = 0
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            found.append(text(line))
            size += len(found[-1])
            if size >= characters:
                break
    return found


def article(line: str) -> str:
    return str(json.loads(line)["text"])


def measure(tokenizer: Tokenizer, read: list[str]) -> tuple[float, float]:
    """Tokens per word (split at white space), and the percentage of unknown tokens."""
    ids = tokenizer.encode(read)
    tokens = sum(map(len, ids))
    unknown = sum(int((each == tokenizer.roles.unk).sum()) for each in ids)
    return tokens / sum(len(text.split()) for text in read), 100 * unknown / tokens


def main(data: Path) -> None:
    print("| language | tokenizer | tokens a word | unknown | on other text | unknown there | training |")
    print("|---|---|---|---|---|---|---|")
    for language, (corpus, other, text) in LANGUAGES.items():
        train = begin(data / corpus / "train.jsonl.xz", article, TRAIN)
        held_out = begin(data / corpus / "valid.jsonl.xz", article, READ)
        others = begin(data / other, text, READ)
        for kind, choice in KINDS.items():
            began = time.process_time()
            tokenizer = Tokenizer.train(tokenizers.parse({"vocab_size": VOCAB_SIZE, **choice}), train)
            seconds = time.process_time() - began
            (words, unknown), (there, unknown_there) = measure(tokenizer, held_out), measure(tokenizer, others)
            counts = f"{words:.2f} | {unknown:.2f} % | {there:.2f} | {unknown_there:.2f} %"
            print(f"| {language} | {kind} | {counts} | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    main(parser.parse_args().data)
