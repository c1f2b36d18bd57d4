"""The first step of a run for every registered objective, and for the mixtures that were published."""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tiny import settings
from torch import Tensor

from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.data.ids import PICTURE, Lengths, Piece, Roles, StoredFields
from zoo.data.store.split import table_of
from zoo.data.task import Task, read_task
from zoo.examples.form import ModelTraits, forms
from zoo.inference.loaded import model_traits
from zoo.models.create import create_model, list_models
from zoo.models.heads.head import heads
from zoo.models.kinds.part import CHANNELS
from zoo.models.model import Model
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.runs.run import RunFiles
from zoo.training import loop
from zoo.training.learner import Learner
from zoo.training.start import start_run
from zoo.training.supervision.joining import join
from zoo.training.supervision.processes import Processes

Objectives = dict[str, dict[str, Any]]
MIXTURES: list[Objectives] = [
    {"masked_lm": {}, "next_sentence": {}},  # BERT
    {"classification": {}, "causal_lm": {"weight": 0.5}},  # GPT-1's L3
    {"choice": {}, "causal_lm": {"weight": 0.5}},  # the same, of several choices
    {"captioning": {"coverage": 2.0}},  # Xu et al.'s
]
ROLES = Roles(50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
SHAPE = RowShape(32, 32, longest=20, longest_source=20)
BATCH, LABELS, DOCUMENTS = 32, 3, 100


@dataclass(frozen=True)
class Case:
    """An objective or a mixture, and a model that it can train."""

    objective: Objectives
    model: str
    dtype: torch.dtype
    labels: Any = None

    def __str__(self) -> str:
        asked = [" ".join([name, *(f"{k} {v}" for k, v in own.items())]) for name, own in self.objective.items()]
        labels = f" labels {self.labels}" if self.labels else ""
        return f"{'+'.join(asked)}{labels} {self.model} {self.dtype}".replace("torch.", "")

    @property
    def task(self) -> Task:
        return read_task({"objective": self.objective, "source": {}, "labels": self.labels}, "task")

    def build(self) -> Model:
        wanted, count = Mixture.parse(self.objective).heads, 1 if self.labels == "number" else LABELS
        named = [{"name": head, "labels": count} if "labels" in heads.options(head) else head for head in wanted]
        return create_model(self.model, heads=named, vocab_size=ROLES.vocab_size, dropout=0.0).to(self.dtype)

    def examples(self) -> Examples:
        """Documents of 2 to 16 tokens: a row holds one to five."""
        mixture, generator = Mixture.of(self.task), np.random.default_rng(5)
        stream = traits(self.model)
        columns = columns_of(self.objective, stream)
        stored = mixture.form_class(columns).stored
        counts = np.ones(DOCUMENTS, dtype=np.int64)
        if stored.sentences:
            counts = generator.integers(2, 5, size=DOCUMENTS)
        most = 17 // counts.max()
        units = {field: generator.integers(2, most, size=counts.sum()) for field in stored.names}
        units |= {PICTURE: np.ones(DOCUMENTS, dtype=np.int64)} if PICTURE in columns else {}
        entries = entries_of(stored, DOCUMENTS, generator)
        units |= units_of(stored, entries, DOCUMENTS, generator)
        lengths = Lengths(
            {field: np.cumsum([0, *sizes]) for field, sizes in units.items()},
            np.cumsum([0, *counts]) if counts.max() > 1 else None,
            self.draw_labels(generator),
            {field: np.cumsum([0, *sizes]) for field, sizes in entries.items()},
        )
        ids = {field: generator.integers(7, ROLES.vocab_size, size=sizes.sum()) for field, sizes in units.items()}
        ids |= numbers_of(stored, ids, units)

        def read(piece: Piece) -> NDArray[Any]:
            if piece.field == PICTURE:
                size = (CHANNELS, stream.image_size, stream.image_size)
                return np.random.default_rng(piece.start).integers(0, 256, size, dtype=np.uint8)
            return ids[piece.field][piece.start : piece.stop]

        return Examples(mixture.form(columns, stream), mixture, lengths, read, roles_of(mixture), shape_of(stream))

    def draw_labels(self, generator: np.random.Generator) -> Any:
        """What each document's label is; some are unknown."""
        if self.task.label_kind == "number":
            return np.where(generator.random(DOCUMENTS) < 0.2, np.nan, generator.normal(size=DOCUMENTS))
        one = generator.integers(-1, LABELS, size=DOCUMENTS)  # where a row holds one document, rows differ by -1
        return table_of([(int(c),) for c in one]) if self.task.label_kind == "several" else one


@cache
def traits(model: str) -> ModelTraits:
    """What a model by its name reads."""
    return model_traits(create_model(model))


Sizes = dict[str, NDArray[np.int64]]


def roles_of(mixture: Mixture) -> Roles:
    """With sentinels where they are written; elsewhere those tokens are text."""
    return replace(ROLES, sentinels=tuple(range(49, 39, -1))) if mixture.sentinels else ROLES


def entries_of(stored: StoredFields, documents: int, generator: np.random.Generator) -> Sizes:
    """How many entries the lists of each document have: some words, and as many choices as labels."""
    words = {field: generator.integers(2, 5, size=documents) for field in stored.words}
    return words | {field: np.full(documents, LABELS) for field in stored.lists}


def units_of(stored: StoredFields, entries: Sizes, documents: int, generator: np.random.Generator) -> Sizes:
    """How many tokens each entry has, and how many numbers each document: a tag for each word, two for an answer."""
    units = {field: generator.integers(1, 5, size=sizes.sum()) for field, sizes in entries.items()}
    units |= {column: entries[field] for column, field in zip(stored.numbers, stored.words, strict=True)}
    return units | {column: np.full(documents, 2) for column, _ in stored.answers}


def numbers_of(stored: StoredFields, ids: Sizes, units: Sizes) -> Sizes:
    """Tags made of the ids drawn for them, and answers of one token, or two, that stand in their texts."""
    found = {column: ids[column] % LABELS for column in stored.numbers}
    for column, field in stored.answers:
        begins, more = ids[column].reshape(-1, 2).T
        first = begins % units[field]
        found[column] = np.stack([first, np.minimum(first + 1 + more % 2, units[field])], 1).reshape(-1)
    return found


def columns_of(objective: Objectives, stream: ModelTraits) -> tuple[str, ...]:
    """The columns of data that has just what the objective reads."""
    mixture = Mixture.parse(objective)
    named = [forms[form].stored.columns for form in mixture.forms]
    return min((names for names in named if suits(mixture, names, stream)), key=len)


def suits(mixture: Mixture, columns: tuple[str, ...], stream: ModelTraits) -> bool:
    try:
        return mixture.form(columns, stream) is not None
    except ValueError:
        return False


def shape_of(stream: ModelTraits) -> RowShape:
    """Rows of one to five documents, or of one picture."""
    if stream.image_size is None:
        return SHAPE
    return RowShape(SHAPE.length, 1, SHAPE.longest, pack=False) if stream.has_text else RowShape(1, pack=False)


def fits(objective: Objectives, stream: ModelTraits) -> bool:
    try:
        Mixture.parse(objective).form(columns_of(objective, stream), stream)
    except ValueError:
        return False
    return True


def cases() -> list[Case]:
    """Every objective with a model of each kind of stream that it can train; in float32 with the first of them only.

    In float64 nothing is hidden by rounding; float32 says that nothing on the way needs more than what users have.
    """
    streams = {traits(name): name for name in list_models("*-nano")}
    wanted: list[Objectives] = [*({name: {}} for name in objectives.names()), *MIXTURES]
    models = [(objective, [m for stream, m in streams.items() if fits(objective, stream)]) for objective in wanted]
    exact = [Case(objective, model, torch.float64) for objective, fitting in models for model in fitting]
    labeled = [
        Case({"classification": {"label_smoothing": 0.1}}, "bert-nano", torch.float64, {"several": ["a", "b", "c"]}),
        Case({"classification": {}}, "bert-nano", torch.float64, "number"),
        Case({"classification": {"class_weights": {"a": 0.1, "c": 3.0}}}, "bert-nano", torch.float64, ["a", "b", "c"]),
    ]
    return exact + labeled + [Case(objective, fitting[0], torch.float32) for objective, fitting in models]


def first_of_each(every: list[Case]) -> list[Case]:
    """The first of each objective, type and kind of labels: what is summed over processes depends on no model."""
    return list({(str(c.objective), str(c.labels), c.dtype): c for c in reversed(every)}.values())


class Step(NamedTuple):
    """A step's log line and its gradients by parameter."""

    line: dict[str, float]
    gradients: dict[str, Tensor]

    def write(self, path: Path) -> None:
        save_file(self.gradients, f"{path}.safetensors")
        path.with_suffix(".json").write_text(json.dumps(self.line))

    @staticmethod
    def read(path: Path) -> "Step":
        return Step(json.loads(path.with_suffix(".json").read_text()), load_file(f"{path}.safetensors"))


def take_step(case: Case, folder: Path, micro_batch: int, processes: Processes) -> Step:
    """Train for one step of 32 rows in the loop itself."""
    kept: dict[str, Tensor] = {}

    class Keeping(Learner):
        def clip(self) -> Tensor:
            kept.update({name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None})
            return super().clip()

    training = settings(steps=1, batch=BATCH, micro_batch=micro_batch, clip=None, evaluate_every=0, save_every=0)
    examples, learner = case.examples(), loop.Learner
    loop.Learner = Keeping  # type: ignore[misc]
    try:
        with start_run(processes, folder, RunFiles({}), resume=False) as run:
            loop.train(case.build(), Feed(examples), examples.mixture, training, run, processes)
    finally:
        loop.Learner = learner  # type: ignore[misc]
    (line,) = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return Step({key: line[key] for key in line if key.startswith("loss") or key == "gradient_norm"}, kept)


def take_all(folder: Path, micro_batch: int) -> None:
    """The step of each objective, in each of several processes, which writes what came out."""
    with join(settings(), folder) as processes:
        for number, case in enumerate(first_of_each(cases())):
            step = take_step(case, folder / f"run-{number}", micro_batch, processes)
            step.write(folder / f"{number}-{processes.rank}")
