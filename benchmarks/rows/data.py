"""The data that all sides of a row read: a task of zoo, and its examples as tensors for the peers."""

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rows.side_args import SideArgs
from rows.table import PEER_BATCHES
from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.config import as_tree, parse_set
from zoo.data.ids import Ids
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.examples.example import Example
from zoo.examples.form import inputs
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request, by_section
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.evaluate_split import read_examples
from zoo.models.cost import on_meta
from zoo.models.settings import load_settings
from zoo.objectives.mixture import Mixture

WIKIPEDIA = "wikipedia_en/train.jsonl.xz"
ONE_STEP = ("training.steps=1", "training.batch=1", "training.evaluate_every=0", "training.evaluation_examples=1")


def wikipedia_task(args: SideArgs, task: str) -> str:
    """Write a copy of one of zoo's Wikipedia tasks that reads only some articles; returns the task's file.

    If the sizes have `joined`, the articles are one text, which fills every row but the first and the last.
    """
    articles, length, joined = args.sizes["articles"], args.sizes["length"], args.sizes.get("joined", False)

    def write_text(path: Path) -> None:
        with lzma.open(args.data / WIKIPEDIA, "rt", encoding="utf-8") as lines:
            first = [next(lines) for _ in range(articles)]
        path.write_text(join_articles(first) if joined else "".join(first), "utf-8")

    def write_task(path: Path) -> None:
        original = load_task(task)
        settings = {"objective": original.objective, "tokenizer": original.tokenizer, "length": length}
        files = {"train": str(args.make_once(f"articles{name}.jsonl", write_text).absolute())}
        if joined:  # a single text cannot be split for validation
            files["validation"] = files["train"]
        path.write_text(f"# {task} on some articles\n{json.dumps({**settings, 'source': {'files': files}})}\n", "utf-8")

    name = f"-{articles}-joined" if joined else f"-{articles}"
    return str(args.make_once(f"{task}{name}-{length}.yaml", write_task))


def join_articles(lines: Sequence[str]) -> str:
    """Join articles into one line of JSON with one text."""
    articles = [json.loads(line) for line in lines]
    return json.dumps({**articles[0], "text": "\n\n".join(article["text"] for article in articles)}) + "\n"


def prepare_run(
    args: SideArgs, name: str, model: str, task: str, sets: Sequence[str] = (), recipe: Sequence[str] = ONE_STEP
) -> Path:
    """Train the run that gives the sides their tokenizer, and perhaps weights; returns its folder.

    Args:
        recipe: settings that come before `sets`; by default the run has one step.
    """

    def make(folder: Path) -> None:
        request = Request(model, task, folder, [parse_set(text) for text in (*recipe, *sets)], data=args.data)
        pretrain(request, Watcher())

    return args.make_once(name, make, model, task, sets, recipe)


def training_examples(args: SideArgs, run: Path, model: str, task: str, sets: Sequence[str], pack: bool) -> Examples:
    """The examples for training a model on a task, with the tokenizer of a run.

    Args:
        pack: whether examples share rows; False: one example per row, as for the peers.
    """
    sections = by_section([parse_set(text) for text in sets])
    task_settings = load_task(task, as_tree(sections["task"]))
    tokenizer = load_checkpoint(run).tokenizer
    model_settings = load_settings(model, sections["model"])
    rows = load_rows(task_settings, inputs(), args.data, ["train"])
    mixture = Mixture.of(task_settings)
    examples, _ = read_examples(rows, task_settings, mixture, on_meta(model_settings), tokenizer)["train"]
    return replace(examples, shape=replace(examples.shape, pack=pack))


def rows_per_batch(examples: Examples, count: int) -> int:
    """The number of packed rows that hold about `count` examples."""
    rows = examples.rows(0, 0)
    return max(1, round(count * len(rows) / sum(len(row.plans) for row in rows)))


def example_batches(examples: Examples, rows: int) -> Iterator[list[list[Example]]]:
    """zoo's first `PEER_BATCHES` batches as rows of examples, repeated for ever; built before timing starts."""
    feed = Feed(examples)
    return cycle([[examples.build(row) for row in feed.take(rows)] for _ in range(PEER_BATCHES)])


def pad_rows(rows: Iterable[Ids], fill: int, device: str) -> Tensor:
    """Pad rows to the longest; returns one tensor."""
    tensors = [torch.from_numpy(np.asarray(row, dtype=np.int64)) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=fill).to(device)


def transformers_labels(example: Example, head: str) -> Ids:
    """Targets as transformers expects them: one per position, -100 if it is not scored."""
    targets, labels = example.targets[head], np.full(len(example.tokens), -100)
    labels[example.places.get(head, np.arange(len(labels)))] = np.where(targets < 0, -100, targets)
    return labels


def count_tokens(rows: Iterable[Sequence[Example]]) -> int:
    """The number of tokens without padding, sources included, as a run's log counts them."""
    examples = [example for row in rows for example in row]
    return sum(len(e.tokens) + (0 if e.source is None else len(e.source)) for e in examples)
