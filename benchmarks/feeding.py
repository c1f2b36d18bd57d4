"""How many rows a second does one process build for training, and how many could a GPU take?

    python benchmarks/feeding.py --data DATA

A row is planned, packed, read, annotated and collated as `zoo pretrain` does it, in one thread. The second figure is an
upper bound: a GPU that spends all of its time in matrix products, at `--peak` FLOP/s; by default those of bare products
in bfloat16 on an H200. Contents are those of the tasks' validation splits, so that nothing is tokenised for long.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.examples.form import inputs
from zoo.experiments.pretrain import train_tokenizer
from zoo.inference.measure import read_examples
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.objectives.mixture import Mixture

H200 = 790e12
SPLIT = "validation"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("wikipedia-lm", {"length": 1024}),
    "bert-base": ("wikipedia-mlm", {"length": 512}),
    "transformer-base": ("multi30k-en-de", {}),
    "captioner-transformer": ("flickr8k", {}),
}


def examples_of(model: Model, task_name: str, changes: dict[str, Any], data: Path | None) -> Examples:
    """What the training of a model on a task reads."""
    task = load_task(task_name, changes)
    rows = load_rows(task, inputs(), data, [SPLIT])
    tokenizer = train_tokenizer(task, rows[SPLIT])
    found, _ = read_examples(rows, task, Mixture.parse(task.objective), model, tokenizer)[SPLIT]
    return replace(found, augment=task.augment)


def measure(examples: Examples, seconds: float, batch: int = 32) -> tuple[float, float]:
    """Rows and tokens a second, after one batch that is not counted."""
    feed, rows, tokens = Feed(examples), 0, 0
    feed.collate(feed.take(batch), batch)
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        tokens += feed.collate(feed.take(batch), batch).tokens
        rows += batch
    return rows / passed, tokens / passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(ROWS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--peak", type=float, default=H200, help="FLOP/s")
    options = parser.parse_args()
    for name in options.models:
        model = on_meta(load_settings(name, []))
        examples = examples_of(model, *ROWS[name], options.data)
        rows, tokens = measure(examples, options.seconds)
        length = examples.shape.length
        cost = flops_per_token(model, length, examples.mixture.capacities(length)) * length
        wanted = options.peak / cost
        print(
            f"{name}, {ROWS[name][0]}, rows of {length}: one process builds {rows:,.0f} rows ({tokens:,.0f} tokens) a "
            f"second; the GPU could take {wanted:,.0f} rows: {rows / wanted:.3f} of them",
            flush=True,
        )


if __name__ == "__main__":
    main()
