"""Claims about the losses that Trainer sees of zoo's own classes whose loss is no mean over all labels of a step."""

from pathlib import Path

import pytest
import torch
import transformers
from shell_choices import SCALED, Shelled, load


def test_trainer_accumulates_the_mean_loss_of_choices(shelled: Shelled, tmp_path: Path):
    model = load(shelled("bert-nano", {**SCALED, "heads": ["choice"], "dropout": 0.0}))
    rows = [{"input_ids": [[2, 9 + n, 4], [2, 20 - n, 4]], "labels": n % 2} for n in range(4)]
    inputs, labels = (torch.tensor([row[name] for row in rows]) for name in ("input_ids", "labels"))
    expected = model(inputs, labels=labels).loss.item()
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=1, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
        report_to=[], save_strategy="no",
    )  # fmt: skip
    trained = transformers.Trainer(model, arguments, train_dataset=rows).train()
    assert trained.training_loss == pytest.approx(expected, rel=1e-5)
