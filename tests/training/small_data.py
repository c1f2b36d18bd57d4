"""A few kilobytes of data of every kind, and the tasks that read them: drawn from a seed, read by the command line."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

Tree = dict[str, Any]

SYLLABLES = ("ka", "lo", "mi", "ra", "tu", "sen", "dor", "vi", "pé", "ün")
COLORS = {"red": (220, 40, 30), "green": (30, 200, 60), "blue": (40, 60, 210)}
PLACES = {"left": (2, 3), "right": (13, 9)}
DIGITS = "zero one two three four five six seven eight nine".split()
TOPICS = ("river", "stone", "cloud")
SIZES = {"train": 120, "validation": 20}


def make_words(random: Random) -> list[str]:
    """Sixty words, the first ones the most frequent."""
    return ["".join(random.choices(SYLLABLES, k=random.randint(1, 3))) for _ in range(60)]


def make_sentence(random: Random, words: list[str], topic: str = "") -> str:
    drawn = random.choices(words, [1 / (rank + 1) for rank in range(len(words))], k=random.randint(3, 8))
    if topic:
        drawn.insert(random.randint(0, len(drawn)), topic)
    return " ".join(drawn).capitalize() + random.choice([".", ".", "?", ", 7!"])


def write_texts(folder: Path, random: Random, words: list[str]) -> None:
    """Documents of two to five sentences, with a blank line between them."""
    for split, size in SIZES.items():
        documents = [[make_sentence(random, words) for _ in range(random.randint(2, 5))] for _ in range(size)]
        (folder / f"text-{split}.txt").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n", "utf-8")


def write_topics(folder: Path, random: Random, words: list[str]) -> None:
    """A table of texts with the word among them that is their label."""
    for split, size in SIZES.items():
        topics = random.choices(TOPICS, k=size)
        rows = [f"{make_sentence(random, words, topic)}\t{topic}\n" for topic in topics]
        (folder / f"topic-{split}.tsv").write_text("text\tlabel\n" + "".join(rows), "utf-8")


def write_pairs(folder: Path, random: Random) -> None:
    """A table of digits and what they are called."""
    for split, size in SIZES.items():
        rows = [random.choices(range(10), k=random.randint(2, 6)) for _ in range(size)]
        lines = [f"{' '.join(map(str, row))}\t{' '.join(DIGITS[n] for n in row)}\n" for row in rows]
        (folder / f"pairs-{split}.tsv").write_text("source\ttarget\n" + "".join(lines), "utf-8")


def write_pictures(folder: Path, random: Random) -> None:
    """Noise with a colored square on one side, named by its color and described by two captions."""
    noise = np.random.default_rng(0)
    for split, size in SIZES.items():
        lines = []
        for number in range(size // 2):
            color, place = random.choice(list(COLORS)), random.choice(list(PLACES))
            pixels = noise.integers(0, 120, (18, 22, 3), dtype=np.uint8)
            x, y = PLACES[place]
            pixels[y : y + 7, x : x + 7] = COLORS[color]
            name = f"{split}-{number}.png"
            Image.fromarray(pixels).save(folder / name)
            captions = [f"a {color} square on the {place}", f"{place} of the noise is something {color}"]
            lines.append(json.dumps({"image": name, "label": color, "captions": captions}) + "\n")
        (folder / f"pictures-{split}.jsonl").write_text("".join(lines))


def write_data(folder: Path) -> None:
    """All the data, the same bytes each time."""
    random = Random(0)
    words = make_words(random)
    write_texts(folder, random, words)
    write_topics(folder, random, words)
    write_pairs(folder, random)
    write_pictures(folder, random)


def files(name: str, ending: str, **others: str) -> Tree:
    return {"files": {split: f"{name}-{split}.{ending}" for split in SIZES}, **others}


def tokens(name: str, size: int = 200, **options: Any) -> Tree:
    return {"name": name, "vocab_size": size, **options}


TEXT = {"source": files("text", "txt", documents="blank_line"), "length": 48}
PAIRS = {"objective": "translation", "source": files("pairs", "tsv"), "length": {"source": 40, "target": 48}}
PAIRS |= {"longest": {"source": 20, "target": 40}, "metrics": ["chrf", "bleu"]}
TOPIC = {"source": files("topic", "tsv"), "labels": list(TOPICS), "length": 48, "metrics": ["accuracy", "f1"]}
PICTURES = {"source": files("pictures", "jsonl"), "augment": {"flip": True, "shift": 0.1}, "length": 32}
CAPTIONS = {"objective": {"captioning": {"coverage": 0.1}}, "columns": {"image": "image", "text": "captions"}}
CAPTIONS |= {"metrics": ["bleu-4", "chrf"], "generate": {"beams": 2, "max_new_tokens": 12}}
LM = {**TEXT, "objective": "causal_lm", "metrics": ["perplexity", "bits_per_byte"]}
MASKED = {**TEXT, "metrics": ["perplexity"]}

TASKS: dict[str, Tree] = {
    "bert": {
        **MASKED,
        "objective": {"masked_lm": {}, "next_sentence": {}},
        "tokenizer": tokens("wordpiece", lowercase=True),
    },
    "replaced": {**MASKED, "objective": "replaced_token", "tokenizer": tokens("wordpiece", lowercase=True)},
    "masked": {**MASKED, "objective": {"masked_lm": {"whole_word": True}}, "tokenizer": tokens("byte_bpe", 290)},
    "lm": {**LM, "tokenizer": tokens("bpe")},
    "bytes": {**LM, "tokenizer": tokens("byte_bpe", 290)},
    "topic": {**TOPIC, "objective": "classification"},
    "topic-lm": {**TOPIC, "objective": {"classification": {}, "causal_lm": {"weight": 0.5}}},
    "pairs": {**PAIRS, "tokenizer": tokens("bpe", 100), "generate": {"beams": 3, "max_new_tokens": 20}},
    "letters": {**PAIRS, "tokenizer": "characters", "generate": {"max_new_tokens": 20}},
    "captions": {**PICTURES, **CAPTIONS, "tokenizer": tokens("bpe", 100)},
    "colors": {
        **PICTURES,
        "columns": {"image": "image", "label": "label"},
        "objective": "classification",
        "metrics": ["accuracy"],
    },
}


def write_tasks(folder: Path) -> None:
    """A file for each task; JSON is YAML."""
    for name, task in TASKS.items():
        (folder / f"{name}.yaml").write_text(json.dumps(task, indent=1) + "\n")
