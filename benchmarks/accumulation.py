"""Does gradient accumulation change the gradient? The same test of zoo's loop and transformers' Trainer.

    python benchmarks/accumulation.py

The same 32 examples of unequal length are one step, in micro-batches of 32, 8 and 4 rows (accumulation 1, 4 and 8);
models of two small blocks in float64, no dropout, no clipping, one process on the CPU. Printed, for each split: the
largest difference of any gradient from that of one micro-batch of 32, beside its tensor's largest entry, and the ratio
of the gradients' norms. Gradients that are 0 but for rounding (keys' biases) are left out.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
    MarianConfig,
    MarianMTModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import PackedRow
from zoo.config import Layer
from zoo.examples.example import ExamplePlan
from zoo.experiments.fill_in import fix_training
from zoo.experiments.resolve import resolve_training
from zoo.models.create import create_model
from zoo.objectives.mixture import Mixture
from zoo.runs.run import RunFiles
from zoo.training import loop
from zoo.training.learner import Learner
from zoo.training.start import start_run
from zoo.training.supervision.processes import Processes

BATCH, SPLITS, LENGTH, VOCABULARY, CLASSES = 32, (32, 8, 4), 20, 50, 3
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class ModelPair:
    """One model, built by zoo and by transformers.

    Args:
        name: the printed name.
        zoo, changes, objective: zoo's config name, changed keys, and objective.
        peer: builds transformers' model.
        labels: argument of transformers' model -> objective whose targets it takes.
    """

    name: str
    zoo: str
    changes: dict[str, Any]
    objective: Any
    peer: Callable[[], nn.Module]
    labels: dict[str, str]


BERT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
MARIAN = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "dropout": 0.0,
    "max_position_embeddings": LENGTH, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 3,
    "forced_eos_token_id": 3,
}  # fmt: skip
MODEL_PAIRS = [
    ModelPair(
        "BERT",
        "bert-nano",
        {},
        {"masked_lm": {}, "next_sentence": {}},
        lambda: BertForPreTraining(BertConfig(**BERT)),
        {"labels": "masked_lm", "next_sentence_label": "next_sentence"},
    ),
    ModelPair(
        "classification",
        "bert-nano",
        {"heads": [{"name": "classification", "labels": CLASSES}]},
        "classification",
        lambda: BertForSequenceClassification(BertConfig(**BERT, num_labels=CLASSES)),
        {"labels": "classification"},
    ),
    ModelPair(
        "Marian",
        "transformer-nano",
        {},
        {"translation": {"label_smoothing": 0.0}},
        lambda: MarianMTModel(MarianConfig(**MARIAN)),
        {"labels": "translation"},
    ),
]


def random_example(number: int) -> dict[str, Any]:
    """Example `number`: up to 20 tokens, and the targets of each objective, -1 at unscored positions."""
    generator = np.random.default_rng(number)
    length = int(generator.integers(4, LENGTH + 1))
    tokens = np.zeros(LENGTH, dtype=np.int64)
    tokens[:length] = generator.integers(7, VOCABULARY, length)
    masked_lm, translation = np.full(LENGTH, -1), np.full(LENGTH, -1)
    masked_lm[generator.permutation(length)[: max(1, length // 6)]] = generator.integers(7, VOCABULARY)
    translation[:length] = generator.integers(7, VOCABULARY, length)
    labels = {"next_sentence": int(generator.integers(2)), "classification": int(generator.integers(CLASSES))}
    mask = (np.arange(LENGTH) < length) * 1
    return {"tokens": tokens, "mask": mask, "masked_lm": masked_lm, "translation": translation, **labels}


class ExampleRows:
    """A source of rows, one example each, in windows of one step's rows."""

    window_count, order_version = 1, 0

    def rows(self, epoch: int, window: int) -> list[PackedRow]:
        return [PackedRow(0, (ExamplePlan(number, 0, LENGTH),)) for number in range(BATCH)]


class RandomFeed(Feed):
    """Rows by number, each with a random example."""

    def __init__(self, pair: ModelPair) -> None:
        super().__init__(ExampleRows())  # type: ignore[arg-type]
        self.pair = pair

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        return collate(self.pair, list(rows), micro_batch)


def collate(pair: ModelPair, rows: list[PackedRow], micro_batch: int) -> MicroBatch:
    """The rows' examples as zoo's micro-batch."""
    assert len(rows) == micro_batch
    examples = [random_example(row.plans[0].document) for row in rows]
    stacked = {key: torch.from_numpy(np.stack([np.asarray(one[key]) for one in examples])) for key in examples[0]}
    first = torch.arange(micro_batch) * LENGTH
    inputs: dict[str, Any] = {"tokens": stacked["tokens"], "documents": stacked["mask"]}
    members = Mixture.parse(pair.objective).names_by_head
    places = {head: first for head, name in members.items() if name in ("next_sentence", "classification")}
    if places:
        inputs["places"] = places
    if "translation" in members.values():
        inputs |= {"source": stacked["tokens"], "source_documents": stacked["mask"]}
    targets = {name: stacked[name] for name in members.values()}
    keys = [(0, row.plans[0].document, 0) for row in rows]
    n_tokens = int(stacked["mask"].sum())
    return MicroBatch(inputs, targets, keys, n_tokens, n_tokens / (micro_batch * LENGTH))


def zoo_gradients(pair: ModelPair, micro_batch: int) -> Gradients:
    """The gradients of the first optimizer step of zoo's loop."""
    gradients: Gradients = {}

    class RecordingLearner(Learner):
        def clip(self) -> Tensor:
            gradients.update({name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None})
            return super().clip()

    settings = {"steps": 1, "batch": BATCH, "micro_batch": micro_batch, "clip": None, "precision": "float32"}
    training = fix_training(resolve_training([Layer("accumulation", settings)])[0], rows=BATCH, d_model=32)
    model = create_model(pair.zoo, vocab_size=VOCABULARY, dropout=0.0, **pair.changes).double()
    feed = RandomFeed(pair)
    processes, original_learner = Processes(Accelerator(cpu=True, mixed_precision="no"), lambda: None), loop.Learner
    loop.Learner = RecordingLearner  # type: ignore[misc]
    try:
        with tempfile.TemporaryDirectory() as folder:
            with start_run(processes, Path(folder) / "run", RunFiles({}), False) as run:
                loop.train(model, feed, Mixture.parse(pair.objective), training, run, processes)
    finally:
        loop.Learner = original_learner  # type: ignore[misc]
    return gradients


def trainer_gradients(pair: ModelPair, micro_batch: int) -> Gradients:
    """The gradients of the first optimizer step of transformers' Trainer."""
    gradients: Gradients = {}

    class GradientRecorder(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *given: Any, model: nn.Module, **more: Any) -> None:
            gradients.update({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})

    transformers.set_seed(0)
    model = pair.peer().double()
    examples = []
    for number in range(BATCH):
        example = random_example(number)
        labels = {key: np.where(example[name] < 0, -100, example[name]) for key, name in pair.labels.items()}
        examples.append({"input_ids": example["tokens"], "attention_mask": example["mask"], **labels})
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, use_cpu=True, max_steps=1, per_device_train_batch_size=micro_batch, report_to=[], disable_tqdm=True,
            gradient_accumulation_steps=BATCH // micro_batch, max_grad_norm=0.0, save_strategy="no",
            logging_strategy="no", remove_unused_columns=False,
        )  # fmt: skip
        trainer = Trainer(model, settings, train_dataset=examples, callbacks=[GradientRecorder()])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return gradients


def relative_error(reference: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> tuple[float, float]:
    """The largest difference of an entry, relative to its tensor's largest entry, and the ratio of the total norms."""
    largest = max(float(gradient.abs().max()) for gradient in reference.values())
    scales = {name: float(gradient.abs().max()) for name, gradient in reference.items()}
    differences = [
        float((gradient - other[name]).abs().max()) / scales[name]
        for name, gradient in reference.items()
        if scales[name] > 1e-12 * largest
    ]
    norms = [torch.stack([gradient.norm() for gradient in side.values()]).norm() for side in (other, reference)]
    return max(differences), float(norms[0] / norms[1])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, float64")
    print(f"{'':16}{'accumulation':>14}{'zoo: error':>14}{'norm x':>10}{'Trainer: error':>18}{'norm x':>10}")
    for pair in MODEL_PAIRS:
        sides = [{split: side(pair, split) for split in SPLITS} for side in (zoo_gradients, trainer_gradients)]
        for split in SPLITS[1:]:
            (error, ratio), (peer_error, peer_ratio) = (relative_error(side[BATCH], side[split]) for side in sides)
            print(
                f"{pair.name:16}{BATCH // split:14}{error:14.1e}{ratio:10.4f}{peer_error:18.1e}{peer_ratio:10.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
