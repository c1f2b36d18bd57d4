"""zoo on a corpus of any size: memory of each command, speed of tokenizing, time of a warm start and of a seek.

The corpus is made of the shared Wikipedia: articles cut at random positions, with random words appended; most of it in
files of JSON lines, some in one compressed file and some in one long text (`documents: file`).

    python benchmarks/corpora.py memory DATA --megabytes 4000
    python benchmarks/corpora.py lines DATA --megabytes 1000
    python benchmarks/corpora.py words DATA --megabytes 400
    python benchmarks/corpora.py speed DATA --megabytes 134
    python benchmarks/corpora.py start DATA --megabytes 450
    python benchmarks/corpora.py seek DATA --megabytes 450

`memory` runs every command on a small and a large corpus and measures the memory of its processes from outside;
`lines` does so with lines of 3 to 12 words, each a row, and `words` with Korean reviews that keep adding new words.
`speed` compares one and two processes of zoo with `grouping.py`, the recipe of transformers, and measures two
independent processes as an upper bound. `start` and `seek` measure wall-clock time, so nothing else may run.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil

from rows.corpus import (
    LINE_SHARES,
    SHARES,
    Texts,
    altered_texts,
    new_words,
    short_lines,
    texts_at_most_once,
    write_corpus,
)
from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.data.home import home
from zoo.data.sources.find import load_rows
from zoo.data.store.store import open_store
from zoo.data.task import load_task
from zoo.examples.form import ModelTraits, inputs
from zoo.experiments.tokenizers import train_tokenizer
from zoo.objectives.mixture import Mixture

LENGTH = 512
SMALLEST = 10  # MB of text in the corpora that larger ones are compared with
TASK: dict[str, Any] = {
    "objective": "causal_lm",
    "source": {
        "files": {"train": "corpus"},
        "documents": "file",
        "validation": 0.001,
        "filter": {"deduplicate": True},
    },
    "tokenizer": {"name": "byte_bpe", "vocab_size": 16_000, "sample": 50_000_000},
    "length": LENGTH,
    "training": {"batch": 8, "evaluation_examples": 64, "save_every": 10, "evaluate_every": 20, "warmup_steps": 2},
}
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
REPEATS = 3  # of `speed`
MEMORY_INTERVAL = 0.2  # seconds between two measurements of memory


def measure_command(words: list[str], **environment: str) -> tuple[float, float, float]:
    """Run a command; returns its seconds, and the peak resident memory (GB) of its largest process and of all together.

    Memory that processes share counts for each of them.
    """
    began, largest, total = time.perf_counter(), 0, 0
    process = subprocess.Popen(words, env={**os.environ, **environment})
    while process.poll() is None:
        sizes = []
        for member in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            try:
                sizes.append(member.memory_info().rss)
            except psutil.Error:  # it has ended
                pass
        largest, total = max([largest, *sizes]), max(total, sum(sizes))
        time.sleep(MEMORY_INTERVAL)
    assert process.returncode == 0, " ".join(words)
    return time.perf_counter() - began, largest / 1e9, total / 1e9


def zoo_command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "zoo", *map(str, words)]


def measure_memory(
    folder: Path, data: Path, megabytes: int, texts: Texts = altered_texts, shares: dict[str, float] = SHARES
) -> None:
    """Run every command on a small and a large corpus; the difference of memory does not depend on the model."""
    lines = shares is LINE_SHARES  # each line is a row
    for size in (max(SMALLEST, megabytes // (10 if lines else 100)), megabytes):
        subfolder = folder / str(size)
        task = make_task(subfolder, texts(data), size, shares)
        if lines:
            task.write_text(json.dumps({**TASK, "source": {**TASK["source"], "documents": "line"}}))
        arguments = ("gpt-nano", task, "-o", subfolder / "run", "--data", subfolder)
        commands = {
            "tokenize": zoo_command("tokenize", task, "--data", subfolder),
            "pretrain": zoo_command("pretrain", *arguments, "--set", "training.steps=20"),
            "resume": zoo_command("pretrain", *arguments, "--resume", "--set", "training.steps=40"),
            "check": zoo_command("check", task, "--data", subfolder),
        }
        for name, words in commands.items():
            seconds, largest, total = measure_command(words, ZOO_CACHE=str(subfolder / "cache"))
            figures = f"{largest:.2f} GB in one process, {total:.2f} GB in all, {seconds:.0f} s"
            print(f"{size} MB, {name}: {figures}", flush=True)


def make_task(folder: Path, texts: Iterator[str], megabytes: int, shares: dict[str, float] = SHARES) -> Path:
    """Write a corpus and a task that reads it."""
    folder.mkdir(exist_ok=True)
    written = write_corpus(folder / "corpus", texts, megabytes, shares)
    (folder / "task.yaml").write_text(json.dumps(TASK))
    time.sleep(3)  # zoo hashes a younger file again, since it may still change
    print(f"{written / 1e6:.0f} MB of text in {len(shares)} files", flush=True)
    return folder / "task.yaml"


def open_examples(task: Path, folder: Path) -> Examples:
    """Open the data as a run does before its first step."""
    settings = load_task(task)
    rows = load_rows(settings, inputs(), folder)
    tokenizer = train_tokenizer(settings, rows["train"])
    mixture = Mixture.of(settings)
    form = mixture.form(rows["train"].inputs, ModelTraits(causal=True))
    split = open_store(rows, form.stored, tokenizer)["train"]
    return Examples(form, mixture, split.lengths, split.read, tokenizer.roles, RowShape(LENGTH))


def measure_speed(folder: Path, data: Path, megabytes: int) -> None:
    """Text to packed tokens: zoo with one and two processes, and the recipe of transformers with two.

    Each article and review occurs once, since zoo caches the tokens of words; beyond 134 MB, altered copies are added.
    """
    files = dict.fromkeys(("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"), 0.25)
    task = make_task(folder, texts_at_most_once(data, megabytes), megabytes, files)
    size = sum(path.stat().st_size for path in (folder / "corpus").iterdir()) / 1e6
    source = {key: value for key, value in TASK["source"].items() if key != "filter"}  # the recipe filters no rows
    task.write_text(json.dumps({**TASK, "source": source}))
    words = zoo_command("tokenize", task, "--data", folder, "--part")
    measure_command([*words, "1/1"])  # trains the tokenizer beforehand: the recipe is given one, too
    settings = load_task(task)
    tokenizer = train_tokenizer(settings, load_rows(settings, inputs(), folder)["train"])
    (folder / "tokenizer.json").write_bytes(tokenizer.files()["tokenizer.json"])
    times: dict[str, list[float]] = {"one": [], "two": [], "separate stores": []}
    for _ in range(REPEATS):  # alternating, since a machine may slow down for a while
        for name, workers in (("one", 1), ("two", 2)):
            shutil.rmtree(home() / "shards")
            began = time.perf_counter()
            filling = time_commands([*words, f"{n}/{workers}"] for n in range(1, workers + 1))
            rows = count_rows(open_examples(task, folder), workers)
            total = time.perf_counter() - began
            times[name].append(total)
            rate = f"{size / total:.2f} MB/s into {rows:,} rows; {filling:.2f} s until the store is filled"
            print(f"zoo, {workers} processes: {rate}, {total - filling:.2f} s to plan the rows", flush=True)
            times["separate stores"] += [filling] if workers == 1 else []
        times["separate stores"][-1] *= 2 / time_two_stores([*words, "1/1"], folder)
    speedup = statistics.median(one / two for one, two in zip(times["one"], times["two"], strict=True))
    print(f"two processes: {speedup:.2f} times as fast as one, the median of {REPEATS} turns")
    separate = statistics.median(times["separate stores"])
    print(f"two processes that fill a store each: {separate:.2f} times as much as one alone")
    peer = [sys.executable, str(Path(__file__).with_name("grouping.py")), str(folder), str(LENGTH)]
    seconds, _, _ = measure_command(peer, **ONE_THREAD, HF_DATASETS_CACHE=str(folder / "peer"))
    print(f"transformers' recipe, 2 processes: {size / seconds:.2f} MB/s")


def time_commands(commands: Iterable[list[str]], caches: Sequence[Path] = ()) -> float:
    """Seconds that concurrent commands take together, with one thread each.

    Args:
        caches: a `ZOO_CACHE` for each command; none: that of this process.
    """
    began = time.perf_counter()
    environments = [{"ZOO_CACHE": str(cache)} for cache in caches]
    pairs = zip_longest(commands, environments, fillvalue={})
    running = [subprocess.Popen(words, env={**os.environ, **ONE_THREAD, **changes}) for words, changes in pairs]
    assert not any(process.wait() for process in running)
    return time.perf_counter() - began


def time_two_stores(words: list[str], folder: Path) -> float:
    """Seconds to fill two independent stores at the same time: the best that two processes can do here."""
    caches = [folder / f"home-{number}" for number in (1, 2)]
    for cache in caches:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(home(), cache, ignore=shutil.ignore_patterns("shards"))
    return time_commands([words] * 2, caches)


def count_rows(examples: Examples, workers: int) -> int:
    """Count the rows of an epoch, planned by several processes."""
    context = multiprocessing.get_context("fork")
    counts = context.Array("q", workers)

    def count(number: int) -> None:
        counts[number] = sum(len(examples.rows(0, window)) for window in range(number, examples.window_count, workers))

    running = [context.Process(target=count, args=(number,)) for number in range(workers)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    return sum(counts)


def measure_start(folder: Path, data: Path, megabytes: int) -> None:
    """Print the seconds from the imports to the first step with a full store, on a small and a large corpus."""
    for size in (max(SMALLEST, megabytes // 100), megabytes):
        subfolder = folder / str(size)
        task = make_task(subfolder, altered_texts(data), size)
        measure_command(zoo_command("tokenize", task, "--data", subfolder))
        run = [sys.executable, str(Path(__file__).with_name("first_step.py")), "pretrain", "gpt-nano", str(task)]
        run += ["--data", str(subfolder), "--set", "training.steps=1", "-o"]
        for number in (1, 2):
            measure_command([*run, str(subfolder / str(number))])
        began = time.perf_counter()
        open_examples(task, subfolder)
        print(f"{size} MB: data opened in {time.perf_counter() - began:.2f} s", flush=True)


def measure_seek(folder: Path, data: Path, megabytes: int) -> None:
    """Print the most seconds that seeking to a random row and building it took."""
    task = make_task(folder, altered_texts(data), megabytes)
    measure_command(zoo_command("tokenize", task, "--data", folder))
    examples, generator = open_examples(task, folder), random.Random(1)
    feed, longest = Feed(examples), 0.0
    for _ in range(20):
        began = time.perf_counter()
        feed.seek({"epoch": generator.randrange(9), "window": generator.randrange(examples.window_count)})
        examples.build(feed.take(1)[0])
        longest = max(longest, time.perf_counter() - began)
    tokens = int(examples.lengths.offsets["text"][examples.lengths.documents])
    print(f"{tokens / 1e6:.0f} million tokens: {longest:.2f} s at most to move and build a row")


MEASURES: dict[str, Callable[[Path, Path, int], None]] = {
    "memory": measure_memory,
    "lines": partial(measure_memory, texts=short_lines, shares=LINE_SHARES),
    "words": partial(measure_memory, texts=new_words, shares=LINE_SHARES),
    "speed": measure_speed,
    "start": measure_start,
    "seek": measure_seek,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("data", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    if options.megabytes <= SMALLEST:
        parser.error(f"--megabytes: must be above {SMALLEST}, the size of the small corpora; got {options.megabytes}")
    with tempfile.TemporaryDirectory() as name:
        os.environ["ZOO_CACHE"] = f"{name}/cache"
        MEASURES[options.measure](Path(name), options.data, options.megabytes)
