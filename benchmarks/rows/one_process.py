"""Check that DDP and FSDP2 with one process train as without them. `one_process.py STRATEGY CHOICE DEVICE`.

zoo refuses both with one process, where they gain nothing. But with one GPU this tests steps, gradients, norms, updates
and checkpoints on shards and buckets with NCCL (on a CPU with gloo).
"""

import sys
import tempfile
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from zoo.batches.collate import MicroBatch
from zoo.blocks.rows.documents import Documents
from zoo.models.create import create_model
from zoo.objectives.mixture import Mixture
from zoo.registry import Choice
from zoo.strict_yaml import Tree
from zoo.training.devices import strategy
from zoo.training.devices.strategy import DDP, ONE
from zoo.training.learner import Learner
from zoo.training.meter import Tally
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.settings import Training
from zoo.training.step import take_step
from zoo.training.supervision.processes import Processes

MODEL, LENGTH, STEPS = "gpt-modern-nano", 32, 4
DOCUMENT_LENGTHS = [[LENGTH], [20, 7], [5, 9, 11], []]  # of each row
# a large eps: weights without a gradient get rounding errors, which Adam would scale up
CHOICES: dict[str, Tree] = {  # choice -> training settings
    "float32": {"precision": "float32", "optimizer": Choice(optimizers, "adamw", {"eps": 1e-3})},
    "bfloat16": {"precision": "bfloat16", "optimizer": Choice(optimizers, "adamw", {"eps": 1e-3})},
    "sgd": {"precision": "float32", "optimizer": Choice(optimizers, "sgd")},
}
LossesAndTensors = tuple[list[float], dict[str, Tensor]]


def find_difference(strategy_name: str, choice: str, device: torch.device) -> str | None:
    """Train with and without a strategy; returns None if the results agree, else the difference."""
    plain, parallel = train(ONE, choice, device), train(strategy_name, choice, device)
    tolerance = 0.02 if choice == "bfloat16" else 1e-4
    for step, (loss, parallel_loss) in enumerate(zip(plain[0], parallel[0], strict=True), 1):
        if not abs(loss - parallel_loss) <= tolerance * abs(loss):
            return f"the loss of step {step} is {parallel_loss}, without it {loss}"
    for name, weight in plain[1].items():
        difference = float((parallel[1][name].float() - weight.float()).abs().max())
        if not difference <= tolerance * max(1.0, float(weight.float().abs().max())):
            return f"{name} is off by {difference}"
    return None


def train(strategy_name: str, choice: str, device: torch.device) -> LossesAndTensors:
    """Train a few steps; returns the losses, and all tensors of a final checkpoint."""
    mixture = Mixture.parse("causal_lm")
    settings = Training(steps=STEPS, ema=0.9, micro_batch=2, **CHOICES[choice])  # type: ignore[arg-type]
    model = create_model(MODEL, dropout=0.0).initialize(0)
    with mock.patch.object(strategy, "choose_strategy", return_value=strategy_name):
        learner = Learner(model, settings, Processes(single_process_accelerator(strategy_name, device), lambda: None))
    losses = []
    for step in range(1, STEPS + 1):
        parts = [random_batch(DOCUMENT_LENGTHS[:2], step), random_batch(DOCUMENT_LENGTHS[2:], step)]
        target_count = sum(float(mixture.counts(part.targets)["causal_lm"]) for part in parts)
        tally = Tally(step, {"causal_lm": torch.tensor(target_count, dtype=torch.float64, device=device)}, {})
        take_step(learner, mixture, parts, tally, [0.0, 0.0])
        tally.read()
        losses.append(float(tally.line["loss"]))
    with learner.published_model() as published:
        published(torch.ones(2, 3, dtype=torch.long, device=device))
    kinds = learner.tensors()
    return losses, {f"{kind}/{name}": t.cpu() for kind, tensors in kinds.items() for name, t in tensors.items()}


def single_process_accelerator(strategy_name: str, device: torch.device) -> Any:
    """A stand-in for Accelerate's Accelerator among several processes, with a single process."""
    device_ids = [device.index or 0] if device.type == "cuda" else None

    def wrap(model: nn.Module) -> nn.Module:
        return DistributedDataParallel(model, device_ids=device_ids, gradient_as_bucket_view=True)

    return SimpleNamespace(
        num_processes=1,
        process_index=0,
        is_main_process=True,
        device=device,
        prepare_model=wrap,
        backward=Tensor.backward,
        no_sync=lambda model: model.no_sync() if strategy_name == DDP else nullcontext(),
    )


def random_batch(rows: list[list[int]], seed: int) -> MicroBatch:
    """Packed rows of random tokens; each target is twice the token.

    Args:
        rows: the lengths of each row's documents.
    """
    numbers = torch.tensor([[k for k, n in enumerate(r, 1) for _ in range(n)] + [0] * (LENGTH - sum(r)) for r in rows])
    tokens = torch.randint(7, 100, numbers.shape, generator=torch.Generator().manual_seed(seed))
    targets = torch.where(numbers > 0, 2 * tokens, -1)
    inputs: dict[str, Any] = {"tokens": tokens, "documents": Documents.packed(rows, numbers)}
    n_tokens = int((numbers > 0).sum())
    return MicroBatch(inputs, {"causal_lm": targets}, [(0, 0, 0)], n_tokens, n_tokens / numbers.numel())


def main() -> None:
    strategy_name, choice, device = sys.argv[1], sys.argv[2], torch.device(sys.argv[3])
    backend = "nccl" if device.type == "cuda" else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        store = distributed.FileStore(f"{folder}/store", 1)
        distributed.init_process_group(backend, store=store, rank=0, world_size=1)
        difference = find_difference(strategy_name, choice, device)
        distributed.destroy_process_group()
    sys.exit(difference)


if __name__ == "__main__":
    main()
