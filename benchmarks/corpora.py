"""A corpus of any size through the token store: speed and memory of tokenising, seconds of a start and of a seek.

The corpus is made of the shared Wikipedia: articles cut at drawn places, with drawn words behind them.

    python benchmarks/corpora.py DATA --megabytes 300 --files 4 --workers 1
"""

import argparse
import json
import lzma
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.data.sources.find import load_rows
from zoo.data.store.store import open_cache
from zoo.data.task import load_task
from zoo.examples.form import ModelTraits, inputs
from zoo.experiments.pretrain import train_tokenizer
from zoo.objectives.mixture import Mixture

WIKIPEDIA = "wikipedia_en/train.jsonl.xz"
ARTICLES = 1000  # that the corpus is made of
TASK = {
    "objective": "causal_lm",
    "source": {"files": {"train": "corpus/*.jsonl"}, "validation": 0.01},
    "tokenizer": {"name": "byte_bpe", "vocab_size": 16_000, "sample": 4_000_000},
    "length": 512,
}
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


def write_corpus(folder: Path, data: Path, megabytes: int, files: int) -> int:
    """A corpus in several files; how many bytes it has."""
    drawn, total = random.Random(0), 0
    with lzma.open(data / WIKIPEDIA, "rt", encoding="utf-8") as lines:
        texts = [json.loads(next(lines))["text"] for _ in range(ARTICLES)]
    words = " ".join(texts[:50]).split()
    for number in range(files):
        with (folder / f"{number:04}.jsonl").open("w", encoding="utf-8") as file:
            while file.tell() < megabytes * 1_000_000 // files:
                text = drawn.choice(texts)
                altered = f"{text[drawn.randrange(len(text)) :]} {' '.join(drawn.choices(words, k=20))}"
                file.write(json.dumps({"text": altered}, ensure_ascii=False) + "\n")
            total += file.tell()
    return total


def tokenize(task: Path, folder: Path, workers: int) -> tuple[float, float, float]:
    """Seconds of so many processes of one thread each, CPU seconds of all, and the largest memory of one, in GB."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "zoo", "tokenize", str(task), "--data", str(folder), "--part"]
    environment = {**os.environ, **ONE_THREAD}
    running = [subprocess.Popen([*words, f"{n}/{workers}"], env=environment) for n in range(1, workers + 1)]
    assert not any(process.wait() for process in running)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def open_examples(task: Path, folder: Path) -> Examples:
    """What a run opens before its first step, its imports and its model apart."""
    settings = load_task(task)
    rows = load_rows(settings, inputs(), folder)
    tokenizer = train_tokenizer(settings, rows["train"])
    mixture = Mixture.of(settings)
    form = mixture.form(rows["train"].inputs, ModelTraits(causal=True))
    split = open_cache(rows, form.stored, tokenizer)["train"]
    return Examples(form, mixture, split.lengths, split.read, tokenizer.roles, RowShape(512))


def seek(examples: Examples, times: int = 5) -> float:
    """CPU seconds until a row of a random place is built, at most."""
    feed, drawn, longest = Feed(examples), random.Random(1), 0.0
    for _ in range(times):
        began = time.process_time()
        feed.seek({"epoch": drawn.randrange(9), "window": drawn.randrange(examples.windows)})
        examples.build(feed.take(1)[0])
        longest = max(longest, time.process_time() - began)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, task = Path(name), Path(name) / "task.yaml"
        os.environ["ZOO_CACHE"] = f"{name}/cache"
        (folder / "corpus").mkdir()
        task.write_text(json.dumps(TASK))
        size = write_corpus(folder / "corpus", options.data, options.megabytes, options.files)
        time.sleep(3)  # a younger file is hashed again: it may still change
        train_tokenizer(load_task(task), load_rows(load_task(task), inputs(), folder)["train"])
        seconds, cpu, peak = tokenize(task, folder, options.workers)
        began = time.process_time()
        examples = open_examples(task, folder)
        start, tokens = time.process_time() - began, examples.lengths.offsets["text"][examples.lengths.documents]
        print(f"{size / 1e6:.0f} MB, {tokens / 1e6:.0f} million tokens, {examples.lengths.documents:,} documents")
        speed = f"{size / 1e6 / seconds:.1f} MB/s, {size / 1e6 / cpu:.1f} MB a CPU second"
        print(f"tokenised by {options.workers} processes of one thread: {speed}, {peak:.2f} GB in one of them")
        print(f"CPU seconds: second start {start:.2f}, seek and build a row {seek(examples):.2f}")


if __name__ == "__main__":
    main()
