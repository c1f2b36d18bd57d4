"""Fine-tune a pretrained transformers checkpoint on zoo's tasks, with zoo and with transformers' Trainer.

    python benchmarks/pretrained.py CHECKPOINT runs/pretrained --data DATA --tasks cola mrpc stsb sst2

Both sides start from the folder CHECKPOINT, read the same rows, and have the task's learning rate, warm-up and epochs
and about as many examples per update; all else is each side's default. The Trainer tokenizes with transformers, and
pads each batch to its longest example; zoo packs. Neither side validates or saves on the way.

`zoo evaluate` measures both results, the Trainer's as the folder that the Trainer saved. zoo's results are exported,
too, which compares them with plain transformers.

Prints a Markdown table: each metric in percent, by seed, and the median of the seconds of training. Finished trainings
are not repeated, so each CHECKPOINT and number of epochs or examples needs a folder of its own.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from rows.data import rows_per_batch, training_examples
from rows.machine import describe_machine
from rows.side_args import SideArgs
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.examples.form import inputs

CLASSIFIES = "heads=[classification]"
Figures = dict[str, Any]


def run_zoo(*words: object) -> str:
    """Run a zoo command and return what it prints; its log goes to standard error."""
    command = [sys.executable, "-m", "zoo", *map(str, words)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # the Trainer uses the CPU, too
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def train_zoo(task: str, folder: Path, seed: int, options: Namespace) -> float:
    """Fine-tune with zoo and export the result; returns the seconds of training."""
    imported = options.folder / "imported"
    if not imported.exists():
        run_zoo("import", options.checkpoint, imported)
    args = SideArgs({}, options.folder, options.data, options.folder)
    examples = training_examples(args, imported, str(imported / "config.yaml"), task, [CLASSIFIES], pack=True)
    sets = [f"training.batch={rows_per_batch(examples, options.examples)}", f"training.seed={seed}"]
    sets += [] if options.epochs is None else [f"training.epochs={options.epochs}"]
    sets += ["training.evaluate_every=0", "training.save_every=0"]
    run_zoo("finetune", imported, task, "-o", folder, "--data", options.data, *sets)
    run_zoo("export", folder, folder.with_name(f"{folder.name}-export"))
    return sum(json.loads(line)["seconds"] for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines())


def train_transformers(task: str, folder: Path, seed: int, options: Namespace) -> float:
    """Fine-tune with transformers' Trainer and save the model; returns the seconds of training."""
    settings = load_task(task)
    rows = Dataset.from_list(list(load_rows(settings, inputs(), options.data, ["train"])["train"]))
    set_seed(seed)  # before the model: its new classifier is drawn here
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    names = dict(enumerate(settings.labels or ["LABEL_0"]))  # one label without a class: a number
    model = AutoModelForSequenceClassification.from_pretrained(
        options.checkpoint, id2label=names, label2id={name: i for i, name in names.items()}
    )
    if settings.label_kind == "number":
        model.config.problem_type = "regression"  # what the Trainer's loss is anyway; it saves None
    texts = [name for name in ("text", "pair") if name in rows.column_names]

    def tokenize(batch: Figures) -> Figures:
        return dict(tokenizer(*(batch[name] for name in texts), truncation=True, max_length=settings.length))

    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=options.examples,
        learning_rate=settings.training["learning_rate"],
        num_train_epochs=options.epochs or settings.training["epochs"],
        warmup_steps=settings.training["warmup_steps"],  # below 1: a fraction of the steps
        seed=seed,
        bf16=SideArgs({}, options.folder, options.data, options.folder).precision == "bfloat16",
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    data = rows.map(tokenize, batched=True, remove_columns=texts, keep_in_memory=True)
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model, arguments, collator, data, processing_class=tokenizer)
    seconds = trainer.train().metrics["train_runtime"]
    trainer.save_model(str(folder))
    return float(seconds)


def measure(side: str, task: str, seed: int, options: Namespace) -> Figures:
    """Train one side, unless that is done; returns its metrics and the seconds of training.

    Raises:
        ValueError: the task's classes are not listed, or a row may have several.
    """
    settings = load_task(task)
    if settings.label_kind != "number" and (settings.label_kind == "several" or settings.labels is None):
        raise ValueError(f"{task}: list one class per row under 'labels', or set 'labels: number'")
    folder = options.folder / f"{Path(task).stem}-{side}-{seed}"
    record = folder.with_name(f"{folder.name}.json")
    if not record.exists():
        for unfinished in (folder, folder.with_name(f"{folder.name}-export")):
            shutil.rmtree(unfinished, ignore_errors=True)
        train = {"zoo": train_zoo, "Trainer": train_transformers}[side]
        seconds = train(task, folder, seed, options)
        measured = json.loads(run_zoo("evaluate", folder, task, "--data", options.data, "--json"))
        names = [f"classification/{name}" for name in settings.metrics]
        record.write_text(json.dumps({"seconds": seconds, **{name: measured[name] for name in names}}), "utf-8")
    found: Figures = json.loads(record.read_text("utf-8"))
    return found


def compare(task: str, options: Namespace) -> list[str]:
    """Train both sides with each seed, in turns; returns the task's rows of the table."""
    found: dict[str, list[Figures]] = {"zoo": [], "Trainer": []}
    for seed in range(options.seeds):
        for side, figures in found.items():
            figures.append(measure(side, task, seed, options))
            print(side, task, seed, figures[-1], file=sys.stderr, flush=True)
    return [table_row(task, side, figures) for side, figures in found.items()]


def table_row(task: str, side: str, by_seed: Sequence[Figures]) -> str:
    """A row of the table: each metric by seed, the mean over seeds and metrics, the median of the seconds."""
    metrics = [name for name in by_seed[0] if name != "seconds"]
    cells = [f"{name.split('/')[1]} {', '.join(f'{100 * found[name]:.1f}' for found in by_seed)}" for name in metrics]
    mean = 100 * statistics.mean(found[name] for found in by_seed for name in metrics)
    seconds = statistics.median(found["seconds"] for found in by_seed)
    return f"| `{Path(task).stem}` | {side} | {'; '.join(cells)} | {mean:.1f} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="a folder of transformers, without a classifier")
    parser.add_argument("folder", type=Path, help="for the results of both sides")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=["cola", "mrpc", "stsb", "sst2"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=32, help="per update")
    parser.add_argument("--epochs", type=float, help="instead of each task's own")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = [line for task in options.tasks for line in compare(task, options)]
    print(describe_machine("cpu", torch.get_num_threads()), end="\n\n")
    print("| task | side | metrics by seed, % | mean | seconds |\n|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
