"""How many rows per second does zoo build for training, and how many could a GPU use?

    python benchmarks/feeding.py --data DATA [--workers N]

A row is planned, packed, read, annotated and collated as `zoo pretrain` does it, in a thread or in N processes. The
second figure is an upper bound: a GPU that spends all of its time in matrix products, at `--peak` FLOP/s; by default
the measured rate of bfloat16 products on an H200. The data is the tasks' validation splits, which tokenize quickly.
"""

import argparse
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.batches.ahead import STEPS_AHEAD, StepDataset, build_ahead
from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.devices.memory import freeze_imports
from zoo.examples.form import inputs
from zoo.experiments.tokenizers import train_tokenizer
from zoo.inference.evaluate_split import read_examples
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.objectives.mixture import Mixture

H200_FLOPS = 790e12
SPLIT = "validation"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("wikipedia-lm", {"length": 1024}),
    "bert-base": ("wikipedia-mlm", {"length": 512}),
    "transformer-base": ("multi30k-en-de", {}),
    "captioner-transformer": ("flickr8k", {}),
}


def load_examples(model: Model, task_name: str, changes: dict[str, Any], data: Path | None) -> Examples:
    """The examples for training a model on a task."""
    task = load_task(task_name, changes)
    rows = load_rows(task, inputs(), data, [SPLIT])
    tokenizer = train_tokenizer(task, rows[SPLIT])
    examples, _ = read_examples(rows, task, Mixture.parse(task.objective), model, tokenizer)[SPLIT]
    return replace(examples, augment=task.augment)


def measure_rates(examples: Examples, seconds: float, workers: int, batch: int = 32) -> tuple[float, float]:
    """Rows and tokens per second, after a few warm-up steps."""
    rows = tokens = 0
    with closing(build_ahead(StepDataset(Feed(examples), 10**9, batch, None, 0, 1), workers=workers)) as steps:
        for _ in range(1 + STEPS_AHEAD * workers):
            next(steps)
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            tokens += sum(part.tokens for part in next(steps).parts)
            rows += batch
    return rows / passed, tokens / passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(ROWS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--peak", type=float, default=H200_FLOPS, help="FLOP/s")
    parser.add_argument("--workers", type=int, default=0, help="processes that build; 0: a thread")
    options = parser.parse_args()
    freeze_imports()  # as a training command does
    for name in options.models:
        model = on_meta(load_settings(name, []))
        examples = load_examples(model, *ROWS[name], options.data)
        rows, tokens = measure_rates(examples, options.seconds, options.workers)
        length, source = examples.shape.length, examples.shape.source
        cost = flops_per_token(model, length, examples.mixture.capacities(length)) * (length + source)
        gpu_rows = options.peak / cost
        workers = f"{options.workers} processes build" if options.workers else "a thread builds"
        print(
            f"{name}, {ROWS[name][0]}, rows of {length}: {workers} {rows:,.0f} rows ({tokens:,.0f} tokens) a "
            f"second; the GPU could take {gpu_rows:,.0f} rows: {rows / gpu_rows:.3f} of them",
            flush=True,
        )


if __name__ == "__main__":
    main()
