"""On real rows, which zoo and a few lines by hand read from one file, our losses are those of transformers' Trainer."""

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer as Backend
from torch.nn.utils.rnn import pad_sequence

from zoo.batches.feed import Feed
from zoo.data.sources.find import load_rows
from zoo.examples.form import inputs
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Pair, Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.config_files import config_file
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.targets.choose import choose_target
from zoo.inference.evaluate_split import read_examples
from zoo.models.model import Model
from zoo.runs.saved import open_run

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ["ZOO_DATA"]) if "ZOO_DATA" in os.environ else BESIDE
pytestmark = pytest.mark.skipif(not (DATA / "wnut17").is_dir(), reason=f"no real data under {DATA} (set ZOO_DATA)")

STEPS, ROWS, RATE, IGNORED = 10, 2, 1e-3, -100
CHANGES: dict[str, Any] = {
    **{"task.tokenizer.vocab_size": 500, "max_length": 128, "dropout": 0.0},
    **{"training.steps": STEPS, "training.batch": ROWS, "training.learning_rate": RATE, "training.warmup_steps": 0},
    **{"training.schedule": "constant", "training.precision": "float32"},
    **{"training.evaluate_every": 0, "training.evaluation_examples": 1},
}
SETS: list[Pair] = [(tuple(key.split(".")), value) for key, value in CHANGES.items()]
Row = dict[str, torch.Tensor]


def sentences(read: Callable[[str], list[int]]) -> list[Row]:
    """SST-2's file: `[CLS] sentence [SEP]`, cut to 128 tokens, and its class."""
    with (DATA / "glue_sst2/dev.tsv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    ids = [torch.tensor([2, *read(row["sentence"])[:126], 4]) for row in table]
    return [
        {"input_ids": tokens, "labels": torch.tensor(int(row["label"]))} for tokens, row in zip(ids, table, strict=True)
    ]


def tagged(read: Callable[[str], list[int]]) -> list[Row]:
    """WNUT-17's file: the tag of a word at its first token; whole words are cut off."""
    found = []
    for sentence in (DATA / "wnut17/dev.tsv").read_text(encoding="utf-8").strip("\n").split("\n\n"):
        tokens, labels = [2], [IGNORED]
        for word, tag in (line.split("\t") for line in sentence.split("\n")):
            pieces = read(word)
            if len(tokens) + len(pieces) > 127:
                break
            tokens += pieces
            labels += [TAGS.index(tag), *[IGNORED] * (len(pieces) - 1)][: len(pieces)]
        found.append({"input_ids": torch.tensor([*tokens, 4]), "labels": torch.tensor([*labels, IGNORED])})
    return found


KINDS = ("corporation", "creative-work", "group", "location", "person", "product")
TAGS = ("O", *(f"{place}-{kind}" for kind in KINDS for place in "BI"))
CASES = {"sst2": ("glue_sst2/dev.tsv", sentences), "wnut17": ("wnut17/dev.tsv", tagged)}


def collate(rows: Sequence[Row]) -> Row:
    """Rows with padding."""
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    labels = [row["labels"] for row in rows]
    together = pad_sequence(labels, True, IGNORED) if labels[0].dim() else torch.stack(labels)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": together}


def native(run: Path) -> Any:
    """The class of transformers for a run's model, with the weights that the run began with."""
    loaded = load_checkpoint(run)
    begun = Model(loaded.model.settings).initialize(0)
    trained = TrainedModel(begun, loaded.tokenizer, loaded.task, TrainingHistory("t"))
    target = choose_target(trained.settings)
    chosen = target.native_class(trained.settings)
    assert chosen is not None
    config = transformers.AutoConfig.for_model(**config_file(trained, target, chosen))
    made = getattr(transformers, chosen.name)(config)
    assert not made.load_state_dict(native_tensors(trained, target, chosen), strict=False).unexpected_keys
    return made


def documents(run: Path) -> list[list[int]]:
    """The rows of the file that each step has read, by their numbers from 0."""
    loaded = load_checkpoint(run)
    rows = load_rows(loaded.task, inputs(), DATA, ["train"])
    examples, _ = read_examples(rows, loaded.task, loaded.mixture, loaded.model, loaded.tokenizer)["train"]
    feed = Feed(examples)
    return [[plan.document for row in feed.take(ROWS) for plan in row.plans] for _ in range(STEPS)]


class InBatches(transformers.Trainer):  # type: ignore[misc]
    """The Trainer, with batches that are chosen already."""

    batches: Sequence[Sequence[int]] = ()

    def get_train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=collate)


def train_theirs(model: Any, rows: list[Row], batches: Sequence[Sequence[int]], folder: Path) -> list[float]:
    """The loss of each step."""
    arguments = transformers.TrainingArguments(
        folder, max_steps=STEPS, learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.01, max_grad_norm=1.0,
        logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = InBatches(model, arguments, train_dataset=rows)
    trainer.batches = batches
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.mark.parametrize("task", CASES)
def test_losses_on_a_published_file_are_those_of_the_trainer(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file, read = CASES[task]
    named = tmp_path / "task.yaml"
    named.write_text(f"# of the dev set alone\nbase: {task}\nsource: {{files: {{train: {file}}}}}\n")
    ours = tmp_path / "ours"
    pretrain(Request("bert-nano", str(named), ours, SETS, data=DATA), Watcher())
    backend = Backend.from_file(str(ours / "tokenizer.json"))
    rows = read(lambda text: backend.encode(text, add_special_tokens=False).ids)
    batches = documents(ours)
    assert sum(map(len, batches)) > 2 * STEPS * ROWS  # a row holds several sentences
    found = train_theirs(native(ours), rows, batches, tmp_path / "theirs")
    assert [line["loss"] for line in open_run(ours).metrics] == pytest.approx(found, rel=2e-5)
