"""Each objective's losses in our loop are those of transformers' Trainer, trained on the same rows in float32."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from every_objective import ROLES, entries_of, numbers_of, roles_of, units_of
from tiny import alone, losses, settings
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.blocks.rows.documents import Documents
from zoo.data.ids import Lengths
from zoo.data.store.split import table_of
from zoo.data.task import read_task
from zoo.hub.exporting.config_files import config_file
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.targets.choose import choose_target
from zoo.inference.loaded import model_traits
from zoo.models.create import create_model
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.objectives.kinds.choice import RIGHT
from zoo.objectives.kinds.span import BEGINS, ENDS
from zoo.objectives.mixture import Mixture
from zoo.runs.run import RunFiles
from zoo.training.loop import train
from zoo.training.start import start_run

STEPS, BATCH, LABELS, DOCUMENTS = 4, 4, 3, 20
IGNORED = -100
EPS = 1e-4  # of Adam: far above rounding, which its first steps would make as large as any gradient
BORDERS = {"start_positions": BEGINS, "end_positions": ENDS}
Row = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """An objective, a model that it trains, and how transformers is given the same rows.

    Args:
        task: beside the objective.
        columns: of the data.
        labels: the targets of a row as their class takes them, by argument where that is not `labels`.
        shifts: whether their class compares each place with the label of the next one.
        sizes: of columns whose texts all have as many tokens.
        choices: whether each document of a row is a choice, which their class takes as a row of its own.
    """

    objective: str
    model: str
    columns: tuple[str, ...] = ("text",)
    options: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    labels: Callable[[Tensor], Tensor | Row] = lambda targets: targets
    sizes: dict[str, int] = field(default_factory=dict)
    shifts: bool = False
    choices: bool = False

    def __str__(self) -> str:
        return f"{self.objective} {self.model} {self.task.get('labels', '')}".strip()

    @property
    def tree(self) -> dict[str, Any]:
        return {"objective": {self.objective: self.options}, "source": {}, **self.task}

    @property
    def mixture(self) -> Mixture:
        return Mixture.of(read_task(self.tree, "task"))

    def build(self) -> Model:
        count = 1 if read_task(self.tree, "task").label_kind == "number" else LABELS
        named = [{"name": h, "labels": count} if "labels" in heads.options(h) else h for h in self.mixture.heads]
        return create_model(self.model, heads=named, vocab_size=ROLES.vocab_size, dropout=0.0)

    def examples(self, model: Model) -> Examples:
        """Documents of 2 to 7 tokens, each a row of its own."""
        generator = np.random.default_rng(3)
        mixture, stream = self.mixture, model_traits(model)
        stored = mixture.form_class(self.columns).stored
        sizes = {column: generator.integers(2, 8, size=DOCUMENTS) for column in stored.names}
        sizes |= {column: np.full(DOCUMENTS, size) for column, size in self.sizes.items()}
        entries = entries_of(stored, DOCUMENTS, generator)
        sizes |= units_of(stored, entries, DOCUMENTS, generator)
        sizes |= {column: np.full_like(sizes[column], self.sizes[column]) for column in stored.lists}
        ids = {column: generator.integers(7, 39, size=size.sum()) for column, size in sizes.items()}
        ids |= numbers_of(stored, ids, sizes)
        lengths = Lengths(
            {column: np.cumsum([0, *size]) for column, size in sizes.items()},
            labels=labels_of(read_task(self.tree, "task").label_kind, generator),
            lists={column: np.cumsum([0, *counts]) for column, counts in entries.items()},
        )
        shape = RowShape(
            21 if self.choices else 20, 20 if stream.source else 0, longest=20, longest_source=20, pack=False
        )
        form = mixture.form(self.columns, stream)
        return Examples(form, mixture, lengths, lambda p: ids[p.field][p.start : p.stop], roles_of(mixture), shape)


CASES = [
    Case(
        "span_corruption", "t5-nano", options={"share": 0.3, "mean_span": 2.0}, labels=lambda targets: unscored(targets)
    ),
    *(
        Case("classification", model, labels=lambda targets: of_documents(targets))
        for model in ("bert-nano", "gpt2-nano")
    ),
    *(
        Case("classification", model, ("text", "pair"), task=task, labels=lambda targets: of_documents(targets).float())
        for model in ("bert-nano", "gpt2-nano")
        for task in ({"labels": "number"}, {"labels": {"several": ["a", "b", "c"]}})
    ),
    Case("causal_lm", "gpt2-nano", ("prompt", "text"), shifts=True),
    Case("prefix_lm", "t5-nano", labels=lambda targets: unscored(targets)),
    Case("tagging", "bert-nano", ("words", "tags"), labels=lambda targets: unscored(targets)),
    Case("tagging", "gpt2-nano", ("words", "tags"), labels=lambda targets: unscored(targets)),
    *(
        Case(
            "choice",
            model,
            ("context", "choices", "label"),
            labels=lambda targets: chosen(targets),
            choices=True,
            sizes={"context": 2, "choices": 2},
        )
        for model in ("bert-nano", "bert-modern-nano")
    ),  # fmt: skip
    *(  # their softmax takes padding, too, so there is none
        Case(
            "span",
            model,
            ("question", "context", "answers"),
            labels=lambda targets: borders(targets),
            sizes={"question": 3, "context": 14},
        )
        for model in ("bert-nano", "bert-modern-nano")
    ),  # fmt: skip
]


def labels_of(kind: str, generator: np.random.Generator) -> Any:
    """A label of each document."""
    if kind == "number":
        return generator.normal(size=DOCUMENTS)
    classes = generator.integers(0, LABELS, size=DOCUMENTS)
    return table_of([(int(c),) for c in classes]) if kind == "several" else classes


def of_documents(targets: Tensor) -> Tensor:
    """Labels of rows: each holds one document, though there are positions for more."""
    return targets.unflatten(0, (BATCH, -1))[:, 0]


def chosen(targets: Tensor) -> Tensor:
    """The right choice of each row, which holds one example."""
    of_rows = targets.unflatten(0, (BATCH, -1))[:, :LABELS]
    return (of_rows & RIGHT > 0).int().argmax(-1)


def borders(targets: Tensor) -> Row:
    """The positions where answers begin and end."""
    return {name: (targets & bit > 0).int().argmax(-1) for name, bit in BORDERS.items()}


def unscored(targets: Tensor) -> Tensor:
    """Labels of positions: -100 where nothing is scored."""
    return targets.where(targets >= 0, IGNORED)


def rows_of(part: MicroBatch, case: Case) -> list[Row]:
    """The rows of a micro-batch as transformers' collator takes them."""

    def numbers(name: str) -> Tensor:
        given = part.inputs[name]
        return given.numbers if isinstance(given, Documents) else given  # type: ignore[return-value]

    both = "source" in part.inputs
    named = {"input_ids": numbers("source" if both else "tokens")}
    named["attention_mask"] = (numbers("source_documents" if both else "documents") > 0).long()
    if "segments" in part.inputs:
        named["token_type_ids"] = numbers("segments")
    (targets,) = part.targets.values()
    given = case.labels(targets)
    named |= given if isinstance(given, dict) else {"labels": given}
    named = behind(named) if case.shifts else named
    if case.choices:  # all documents have as many tokens
        rows = {name: tensor.unflatten(1, (LABELS, -1)) for name, tensor in named.items() if name != "labels"}
        named |= rows
    return [{name: tensor[row] for name, tensor in named.items()} for row in range(len(part.examples))]


def behind(named: Row) -> Row:
    """Rows with one position more, and labels that stand at the tokens which they are."""
    wide = {name: torch.nn.functional.pad(tensor, (0, 1)) for name, tensor in named.items()}
    wide["labels"] = unscored(torch.nn.functional.pad(named["labels"], (1, 0), value=-1))
    wide["input_ids"] = wide["labels"].where(wide["labels"] >= 0, wide["input_ids"])
    wide["attention_mask"] = wide["attention_mask"] | (wide["labels"] >= 0).long()
    return wide


def native(model: Model, case: Case) -> Any:
    """The class of transformers that the model is exported to, with its weights."""
    trained = TrainedModel(model, None, read_task(case.tree, "task"), TrainingHistory("t"), ROLES)
    target = choose_target(trained.settings)
    chosen = target.native_class(trained.settings)
    assert chosen is not None
    config = transformers.AutoConfig.for_model(**config_file(trained, target, chosen))
    made = getattr(transformers, chosen.name)(config)
    faults = made.load_state_dict(native_tensors(trained, target, chosen), strict=False)
    made.tie_weights()
    assert not faults.unexpected_keys
    return made


class InOrder(transformers.Trainer):  # type: ignore[misc]
    """The Trainer, taking rows in their order."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train_theirs(model: Any, rows: list[Row], folder: Path) -> list[float]:
    """The loss of each step."""
    arguments = transformers.TrainingArguments(
        folder, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=0.01, lr_scheduler_type="constant",
        weight_decay=0.0, adam_epsilon=EPS, max_grad_norm=0.0, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True, logging_nan_inf_filter=False,
    )  # fmt: skip
    trainer = InOrder(model, arguments, train_dataset=rows)
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_our_losses_are_those_of_transformers_trainer(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = case.build().initialize(0)
    examples = case.examples(model)
    feed, theirs = Feed(examples), native(model, case)
    parts = [feed.collate(feed.take(BATCH), BATCH) for _ in range(STEPS)]
    optimizer = {"name": "adamw", "weight_decay": 0.0, "eps": EPS}
    given = settings(steps=STEPS, batch=BATCH, learning_rate=0.01, clip=None, optimizer=optimizer)
    with start_run(alone(), tmp_path / "ours", RunFiles({}), resume=False) as run:
        train(model, Feed(examples), examples.mixture, given, run, alone())
    found = train_theirs(theirs, [row for part in parts for row in rows_of(part, case)], tmp_path / "theirs")
    assert losses(tmp_path / "ours") == pytest.approx(found, rel=2e-5)
    assert len(set(found)) == STEPS
