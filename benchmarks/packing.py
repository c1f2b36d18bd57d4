"""Packing efficiency of a task's rows over an epoch, and what had to be left out; only a tokenizer is trained.

    python benchmarks/packing.py wikipedia-mlm multi30k-en-de --data DATA

Rows, order and examples are those of `zoo pretrain`, for a model as long as the task's examples. `--tokenizer RUN` uses
a run's tokenizer instead of training the task's. `filled` is the share of positions that hold a token; the log's
`empty` is one minus this. For source and target rows, it is given for each and for both together.
"""

import argparse
import time
from pathlib import Path

from zoo.batches.order import Examples, PackedRow
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.store.store import open_store
from zoo.data.task import Task, load_task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs
from zoo.experiments.tokenizers import train_tokenizer
from zoo.objectives.mixture import Mixture
from zoo.runs.saved import open_run
from zoo.survey.sizes import form_for_some_model, scaled_shape


def read_examples(task: Task, rows: SplitRows, tokenizer: Tokenizer) -> Examples:
    """The examples of the train split, with the task's row shape."""
    mixture = Mixture.of(task)
    form = form_for_some_model(mixture, rows.inputs)
    split = open_store({"train": rows}, mixture.stored_fields_in(form, task.source.language), tokenizer)["train"]
    return Examples(form, mixture, split.lengths, split.read, tokenizer.roles, scaled_shape(task, form, 1))


def describe_packing(name: str, examples: Examples) -> str:
    """Pack an epoch of a task; returns the line to print."""
    began = time.process_time()
    rows: list[PackedRow] = [row for window in range(examples.window_count) for row in examples.rows(0, window)]
    seconds = time.process_time() - began
    plans = [plan for row in rows for plan in row.plans]
    target, source = sum(p.length for p in plans), sum(p.source_length for p in plans)
    length, source_length = examples.shape.length, examples.shape.source
    filled = (target + source) / (len(rows) * (length + source_length))
    by_stream = ""
    if source_length:
        by_stream = f" (target {target / len(rows) / length:.2%}, source {source / len(rows) / source_length:.2%})"
    truncated = [plan.truncated for plan in plans if plan.truncated]
    size = f"{length} + {source_length}" if source_length else f"{length}"
    return (
        f"{name}: {len(plans):,} examples in {len(rows):,} rows of {size}: filled {filled:.2%}{by_stream}; "
        f"{sum(truncated):,} tokens of {len(truncated):,} examples left out; planned and packed in {seconds:.1f} CPU "
        f"seconds, {(target + source) / seconds / 1e6:.1f} million tokens a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["wikipedia-mlm", "multi30k-en-de"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tokenizer", type=Path, metavar="RUN")
    options = parser.parse_args()
    for name in options.tasks:
        try:
            task = load_task(name)
        except ValueError as error:
            parser.error(str(error))
        rows = load_rows(task, inputs(), options.data, ["train"])["train"]
        if options.tokenizer is None:
            tokenizer = train_tokenizer(task, rows)
        else:
            tokenizer = Tokenizer.from_files(open_run(options.tokenizer).tokenizer)
        print(describe_packing(name, read_examples(task, rows, tokenizer)), flush=True)


if __name__ == "__main__":
    main()
