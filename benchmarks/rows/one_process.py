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
ROWS = [[LENGTH], [20, 7], [5, 9, 11], []]
# a large eps: weights without a gradient get rounding errors, which Adam would scale up
CHOICES: dict[str, Tree] = {  # choice -> training settings
    "float32": {"precision": "float32", "optimizer": Choice(optimizers, "adamw", {"eps": 1e-3})},
    "bfloat16": {"precision": "bfloat16", "optimizer": Choice(optimizers, "adamw", {"eps": 1e-3})},
    "sgd": {"precision": "float32", "optimizer": Choice(optimizers, "sgd")},
}
Learnt = tuple[list[float], dict[str, Tensor]]


def fault_of(wanted: str, choice: str, device: torch.device) -> str | None:
    """Train with and without a strategy; returns None if the results agree, else the difference."""
    alone, spread = learn(ONE, choice, device), learn(wanted, choice, device)
    far = 0.02 if choice == "bfloat16" else 1e-4
    for step, (one, other) in enumerate(zip(alone[0], spread[0], strict=True), 1):
        if not abs(one - other) <= far * abs(one):
            return f"the loss of step {step} is {other}, without it {one}"
    for name, weight in alone[1].items():
        difference = float((spread[1][name].float() - weight.float()).abs().max())
        if not difference <= far * max(1.0, float(weight.float().abs().max())):
            return f"{name} is off by {difference}"
    return None


def learn(wanted: str, choice: str, device: torch.device) -> Learnt:
    """Train a few steps; returns the losses, and all tensors of a final checkpoint."""
    mixture = Mixture.parse("causal_lm")
    settings = Training(steps=STEPS, ema=0.9, micro_batch=2, **CHOICES[choice])  # type: ignore[arg-type]
    model = create_model(MODEL, dropout=0.0).initialize(0)
    with mock.patch.object(strategy, "choose_strategy", return_value=wanted):
        learner = Learner(model, settings, Processes(accelerator_of(wanted, device), lambda: None))
    losses = []
    for step in range(1, STEPS + 1):
        parts = [batch(ROWS[:2], step), batch(ROWS[2:], step)]
        scored = sum(float(mixture.counts(part.targets)["causal_lm"]) for part in parts)
        tally = Tally(step, {"causal_lm": torch.tensor(scored, dtype=torch.float64, device=device)}, {})
        take_step(learner, mixture, parts, tally, [0.0, 0.0])
        tally.read()
        losses.append(float(tally.line["loss"]))
    with learner.published_model() as shown:
        shown(torch.ones(2, 3, dtype=torch.long, device=device))
    kinds = learner.tensors()
    return losses, {f"{kind}/{name}": t.cpu() for kind, all_ in kinds.items() for name, t in all_.items()}


def accelerator_of(wanted: str, device: torch.device) -> Any:
    """A stand-in for Accelerate's Accelerator among several processes, with a single process."""
    where = [device.index or 0] if device.type == "cuda" else None

    def wrap(model: nn.Module) -> nn.Module:
        return DistributedDataParallel(model, device_ids=where, gradient_as_bucket_view=True)

    return SimpleNamespace(
        num_processes=1,
        process_index=0,
        is_main_process=True,
        device=device,
        prepare_model=wrap,
        backward=Tensor.backward,
        no_sync=lambda model: model.no_sync() if wanted == DDP else nullcontext(),
    )


def batch(rows: list[list[int]], seed: int) -> MicroBatch:
    """Packed rows of random tokens; each target is twice the token."""
    numbers = torch.tensor([[k for k, n in enumerate(r, 1) for _ in range(n)] + [0] * (LENGTH - sum(r)) for r in rows])
    tokens = torch.randint(7, 100, numbers.shape, generator=torch.Generator().manual_seed(seed))
    targets = torch.where(numbers > 0, 2 * tokens, -1)
    inputs: dict[str, Any] = {"tokens": tokens, "documents": Documents.packed(rows, numbers)}
    used = int((numbers > 0).sum())
    return MicroBatch(inputs, {"causal_lm": targets}, [(0, 0, 0)], used, used / numbers.numel())


def main() -> None:
    wanted, choice, device = sys.argv[1], sys.argv[2], torch.device(sys.argv[3])
    kind = "nccl" if device.type == "cuda" else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        store = distributed.FileStore(f"{folder}/store", 1)
        distributed.init_process_group(kind, store=store, rank=0, world_size=1)
        fault = fault_of(wanted, choice, device)
        distributed.destroy_process_group()
    sys.exit(fault)


if __name__ == "__main__":
    main()
