"""Row `finetuning`: BERT on SST-2 by `zoo finetune`, and by transformers' Trainer with dynamic padding.

Both start from random weights of the same sizes, and read about the same number of sentences per update.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Trainer, TrainerCallback, TrainingArguments

from rows.data import prepare_run, rows_per_batch, training_examples, wikipedia_task
from rows.peer import untrained_peer
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.training import ENDLESS_STEPS, train_with_zoo
from zoo.batches.order import Examples
from zoo.config import parse_set
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.settings import load_settings

TASK, PRETRAINING_TASK, PRETRAINED_RUN = "sst2", "wikipedia-mlm", "bert-pretrained"
CLASSIFIES = "heads=[classification]"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    sets = [f"vocab_size={args.sizes['vocabulary']}"]
    prepare_run(args, PRETRAINED_RUN, args.sizes["model"], wikipedia_task(args, PRETRAINING_TASK), sets)


def sst2_examples(args: SideArgs, pack: bool) -> Examples:
    run = args.cache / PRETRAINED_RUN
    return training_examples(args, run, str(run / "config.yaml"), TASK, [CLASSIFIES], pack)


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    rows = rows_per_batch(sst2_examples(args, pack=True), args.sizes["sentences"])
    train_with_zoo(reporter, args, args.cache / PRETRAINED_RUN, TASK, [f"training.batch={rows}"])


def hf(reporter: TurnReporter, args: SideArgs) -> None:
    run = args.cache / PRETRAINED_RUN
    settings = load_settings(str(run / "config.yaml"), [parse_set(CLASSIFIES)])
    model = untrained_peer(settings, TASK, load_checkpoint(run).tokenizer.roles)
    arguments = TrainingArguments(
        output_dir=str(args.scratch / "trainer"),
        per_device_train_batch_size=args.sizes["sentences"],
        max_steps=ENDLESS_STEPS,
        bf16=args.precision == "bfloat16",
        use_cpu=args.device == "cpu",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    callback = CountingCallback(reporter)
    reporter.record(parameters=sum(p.numel() for p in model.parameters()))
    sentences = SentenceDataset(sst2_examples(args, pack=False))
    Trainer(model, arguments, callback.collate, sentences, callbacks=[callback]).train()


class SentenceDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """The sentences of an epoch as ids and a label, read before timing starts."""

    def __init__(self, examples: Examples) -> None:
        built = [examples.build(row)[0] for row in examples.rows(0, 0)]
        self.items = [{"input_ids": e.tokens.tolist(), "label": int(e.targets["classification"][0])} for e in built]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.items[number]


class CountingCallback(TrainerCallback):
    """Pads each batch to its longest sentence, and reports each step with its tokens, padding not counted."""

    def __init__(self, reporter: TurnReporter) -> None:
        self.reporter, self.tokens = reporter, 0

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rows = [torch.tensor(item["input_ids"]) for item in items]
        self.tokens = sum(map(len, rows))
        masks = [torch.ones_like(row) for row in rows]
        ids, mask = (pad_sequence(tensors, batch_first=True) for tensors in (rows, masks))
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([item["label"] for item in items])}

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.reporter.report(self.tokens)
