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

from rows.given import Given
from rows.table import BATCHES
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
ONCE = ("training.steps=1", "training.batch=1", "training.evaluate_every=0", "training.evaluation_examples=1")


def wikipedia(given: Given, task: str) -> str:
    """Write a copy of one of zoo's Wikipedia tasks that reads only some articles; returns the task's file.

    If the sizes have `joined`, the articles are one text, which fills every row but the first and the last.
    """
    articles, length, joined = given.sizes["articles"], given.sizes["length"], given.sizes.get("joined", False)

    def write_text(path: Path) -> None:
        with lzma.open(given.data / WIKIPEDIA, "rt", encoding="utf-8") as lines:
            found = [next(lines) for _ in range(articles)]
        path.write_text(join(found) if joined else "".join(found), "utf-8")

    def write_task(path: Path) -> None:
        whole = load_task(task)
        changed = {"objective": whole.objective, "tokenizer": whole.tokenizer, "length": length}
        files = {"train": str(given.once(f"articles{name}.jsonl", write_text).absolute())}
        if joined:  # a single text cannot be split for validation
            files["validation"] = files["train"]
        path.write_text(f"# {task} on some articles\n{json.dumps({**changed, 'source': {'files': files}})}\n", "utf-8")

    name = f"-{articles}-joined" if joined else f"-{articles}"
    return str(given.once(f"{task}{name}-{length}.yaml", write_task))


def join(lines: Sequence[str]) -> str:
    """Join articles into one line of JSON with one text."""
    articles = [json.loads(line) for line in lines]
    return json.dumps({**articles[0], "text": "\n\n".join(article["text"] for article in articles)}) + "\n"


def start(
    given: Given, name: str, model: str, task: str, sets: Sequence[str] = (), recipe: Sequence[str] = ONCE
) -> Path:
    """A run that provides the tokenizer, and maybe weights, for the sides; of one step, unless `recipe` says more."""

    def make(folder: Path) -> None:
        request = Request(model, task, folder, [parse_set(text) for text in (*recipe, *sets)], data=given.data)
        pretrain(request, Watcher())

    return given.once(name, make, model, task, sets, recipe)


def examples_of(given: Given, run: Path, model: str, task: str, sets: Sequence[str], pack: bool) -> Examples:
    """The examples for training a model on a task, with the tokenizer of a run.

    Args:
        pack: whether examples share rows; False: one example per row, as for the peers.
    """
    sections = by_section([parse_set(text) for text in sets])
    settled = load_task(task, as_tree(sections["task"]))
    tokenizer = load_checkpoint(run).tokenizer
    settings = load_settings(model, sections["model"])
    rows = load_rows(settled, inputs(), given.data, ["train"])
    found, _ = read_examples(rows, settled, Mixture.parse(settled.objective), on_meta(settings), tokenizer)["train"]
    return replace(found, shape=replace(found.shape, pack=pack))


def rows_for(packed: Examples, count: int) -> int:
    """The number of packed rows that hold about `count` examples."""
    rows = packed.rows(0, 0)
    return max(1, round(count * len(rows) / sum(len(row.plans) for row in rows)))


def batches(examples: Examples, rows: int) -> Iterator[list[list[Example]]]:
    """zoo's first `BATCHES` batches as rows of examples, repeated for ever; built before timing starts."""
    feed = Feed(examples)
    return cycle([[examples.build(row) for row in feed.take(rows)] for _ in range(BATCHES)])


def padded(rows: Iterable[Ids], fill: int, device: str) -> Tensor:
    """Rows padded to the longest, as one tensor."""
    tensors = [torch.from_numpy(np.asarray(row, dtype=np.int64)) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=fill).to(device)


def labels_of(example: Example, head: str) -> Ids:
    """Targets as transformers expects them: one per position, -100 if it is not scored."""
    targets, labels = example.targets[head], np.full(len(example.tokens), -100)
    labels[example.places.get(head, np.arange(len(labels)))] = np.where(targets < 0, -100, targets)
    return labels


def tokens_of(rows: Iterable[Sequence[Example]]) -> int:
    """The number of tokens without padding, sources included, as a run's log counts them."""
    found = [example for row in rows for example in row]
    return sum(len(e.tokens) + (0 if e.source is None else len(e.source)) for e in found)
