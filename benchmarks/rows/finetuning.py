"""Row `finetuning`: BERT on SST-2 by `zoo finetune`, and by transformers' Trainer with dynamic padding.

Both start from random weights of the same sizes, and read about the same number of sentences per update.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from rows.bert import sizes_of
from rows.contents import examples_of, rows_for, start, wikipedia
from rows.given import Given
from rows.training import MANY, zoo_training
from rows.turns import Turn
from zoo.batches.order import Examples
from zoo.models.settings import load_settings

TASK, PRETRAINING, RUN = "sst2", "wikipedia-mlm", "bert-pretrained"


def prepare(turn: Turn, given: Given) -> None:
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    start(given, RUN, given.sizes["model"], wikipedia(given, PRETRAINING), sets)


def read(given: Given, pack: bool) -> Examples:
    run = given.made / RUN
    return examples_of(given, run, str(run / "config.yaml"), TASK, ["heads=[classification]"], pack)


def zoo(turn: Turn, given: Given) -> None:
    rows = rows_for(read(given, pack=True), given.sizes["sentences"])
    zoo_training(turn, given, given.made / RUN, TASK, [f"training.batch={rows}"])


def hf(turn: Turn, given: Given) -> None:
    settings, examples = load_settings(str(given.made / RUN / "config.yaml")), read(given, pack=False)
    config = BertConfig(max_position_embeddings=settings.max_length, num_labels=2, **sizes_of(settings))
    config.vocab_size = settings.vocab_size
    count = given.sizes["sentences"]
    arguments = TrainingArguments(
        output_dir=str(given.folder / "trainer"),
        per_device_train_batch_size=count,
        max_steps=MANY,
        bf16=given.precision == "bfloat16",
        use_cpu=given.device == "cpu",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    counted, model = Counted(turn), BertForSequenceClassification(config)
    turn.note(parameters=sum(p.numel() for p in model.parameters()))
    Trainer(model, arguments, counted.collate, Sentences(examples), callbacks=[counted]).train()


class Sentences(torch.utils.data.Dataset[dict[str, Any]]):
    """The sentences of an epoch as ids and a label, read before timing starts."""

    def __init__(self, examples: Examples) -> None:
        built = [examples.build(row)[0] for row in examples.rows(0, 0)]
        self.items = [{"input_ids": e.tokens.tolist(), "label": int(e.targets["classification"][0])} for e in built]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.items[number]


class Counted(TrainerCallback):
    """Pads each batch to its longest sentence, and ends a turn after each step, counting tokens without padding."""

    def __init__(self, turn: Turn) -> None:
        self.turn, self.tokens = turn, 0

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rows = [torch.tensor(item["input_ids"]) for item in items]
        self.tokens = sum(map(len, rows))
        ids, mask = (pad_sequence(some, batch_first=True) for some in (rows, [torch.ones_like(row) for row in rows]))
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([item["label"] for item in items])}

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.turn.done(self.tokens)
