"""Next-sentence accuracy of a small BERT on Korean, with two ways to split sentences: before capitals, and by script.

    python benchmarks/sentences.py DATA --steps 1000 --seeds 2

Both models read the same documents and are evaluated on the same validation pairs, split by the rule for all scripts.
In `lines`, each paragraph is a line; in `one line`, a whole document is, as in many corpora: there the rule for
capitals finds hardly any sentence.
"""

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from zoo.cli.main import main as run_zoo
from zoo.data.store import sentences

SENTENCE_GAP = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)")
TASK: dict[str, Any] = {
    "objective": "next_sentence",
    "tokenizer": {"name": "wordpiece", "vocab_size": 8000, "normalization": "nfc"},
    "length": 64,
    "metrics": ["accuracy"],
    "training": {"batch": 32, "learning_rate": 0.001},
}


def before_capitals(document: str) -> list[str]:
    """A document's lines, each split before capital letters only."""
    found = []
    for line in document.split("\n"):
        start = 0
        for gap in SENTENCE_GAP.finditer(line):
            if line[gap.end()].isupper():
                found.append(line[start : gap.end()].strip())
                start = gap.end()
        found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


RULES: dict[str, Callable[[str], list[str]]] = {
    "before capitals": before_capitals,
    "by script": sentences.split_sentences,
}


def write_task(folder: Path, data: Path, join: bool) -> Path:
    """Write the documents and a task that reads them.

    Args:
        join: whether the lines of a document become one line.
    """
    files = {}
    for split, name in {"train": "train", "validation": "valid"}.items():
        files[split] = str(folder / f"{split}.jsonl")
        with lzma.open(data / "korean_prose" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        texts = [text.replace("\n", " ") if join else text for text in texts]
        Path(files[split]).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    path = folder / "task.yaml"
    path.write_text(json.dumps({**TASK, "source": {"files": files}}))
    return path


def run_with_rule(folder: Path, rule: str, *words: str | Path) -> str:
    """Run a command of zoo with a rule; each rule has a cache of its own, since a token store's key lacks the rule."""
    environment = {**os.environ, "ZOO_CACHE": str(folder / f"cache {rule}")}
    words = (sys.executable, __file__, rule, *words)
    return subprocess.run(list(map(str, words)), env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def train_and_evaluate(folder: Path, task: Path, rule: str, model: str, steps: int, seed: int) -> float:
    """Train with a rule; returns the accuracy on pairs of the rule for all scripts."""
    run, settings = folder / f"{rule} {seed}", (f"training.steps={steps}", f"training.seed={seed}")
    run_with_rule(folder, rule, "pretrain", model, task, "-o", run, *settings, f"training.evaluate_every={steps}")
    return float(json.loads(run_with_rule(folder, "by script", "evaluate", run, "--json"))["next_sentence/accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="bert-nano")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for layout in ("lines", "one line"):
            folder = Path(name) / layout
            folder.mkdir()
            task = write_task(folder, options.data, layout == "one line")
            for rule in RULES:
                seeds = range(options.seeds)
                arguments = folder, task, rule, options.model, options.steps
                accuracies = [train_and_evaluate(*arguments, seed) for seed in seeds]
                by_seed = ", ".join(f"{one:.1%}" for one in accuracies)
                print(f"{layout}, {rule}: {mean(accuracies):.1%} ({by_seed})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in RULES:  # started by `run_with_rule`
        sentences.split_sentences = RULES[sys.argv.pop(1)]
        run_zoo()
    else:
        main()
