"""Every setting of training, and how its levels are merged by precedence: library < model < task < --set."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import torch
from torch import nn

from zoo.blocks.backends.backend import Backend, backends
from zoo.config import merge
from zoo.registry import Choice
from zoo.strict_yaml import Tree
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.schedules import Schedule, schedules
from zoo.training.weights.adapters import LowRank
from zoo.wording import refuse_unknown

OF_OPTIMIZER = ("weight_decay", "betas", "eps")  # may also be written beside `optimizer`
ROUNDING = "the examples and their order stay the same, sums may be rounded differently"
MAY_CHANGE = {  # settings that a resumed run may change, and what else can differ then
    "steps": "the schedule becomes that of the new length",
    "warmup_steps": "the schedule becomes that of the new warm-up",
    "micro_batch": f"{ROUNDING}, and dropout is drawn for other parts",
    "attention_backend": f"{ROUNDING}, and dropout of attention weights may be drawn differently",
    **dict.fromkeys(("compile", "skip_unread"), f"{ROUNDING}, and dropout may be drawn differently"),
    "byte_dropout": "dropout is drawn differently",
    **dict.fromkeys(
        ("checkpointing", "chunked_loss", "fast_layers", "strategy", "bucket_views", "optimizer.fused"), ROUNDING
    ),
    **dict.fromkeys(("evaluate_every", "save_every", "keep", "patience"), ""),
    "average": "checkpoints that were not kept are missing from the mean",
    "evaluation_examples": "validations before and after use different examples",
    **dict.fromkeys(("log_every", "trackers", "processes", "workers", "skip_limit", "peak_flops"), ""),
    **dict.fromkeys(("keep_memory", "pin_memory", "hang_timeout", "peer_timeout"), ""),
}
LOWER_BOUNDS = {
    **dict.fromkeys(("steps", "batch", "micro_batch", "keep", "patience", "log_every", "processes", "skip_limit"), 1),
    "evaluation_examples": 1,
    **dict.fromkeys(("warmup_steps", "seed", "evaluate_every", "save_every", "workers"), 0),
    "average": 2,
}


@dataclass(frozen=True)
class Training:
    """Settings of training.

    Args:
        steps, epochs: optimizer steps, or passes over the sequences of epoch 0; one of the two.
        batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass of one process; None: its whole share of the batch; auto: as many as
            fit into memory.
        warmup_steps: steps of rising learning rate; below 1: a fraction of the run.
        learning_rate: the peak of the schedule (`noam`: a factor).
        optimizer: with its options; `weight_decay`, `betas` and `eps` may also be written beside it.
        layer_decay: ratio of each layer's learning rate to that of the layer above (heads have the full rate); None:
            all have the same.
        freeze: what is not trained: embeddings, encoder:6 (its first 6 layers), or names of modules or parameters,
            with * as wildcard.
        lora: low-rank adapters of chosen linear layers instead of full fine-tuning; None: no.
        clip: the largest norm of all gradients together; None: no clipping.
        precision: of the forward pass; weights are float32. auto: bfloat16 where the GPU or
            CPU has it in hardware, else float32.
        compile: Transformer blocks without recurrence, by torch.compile; auto: on a GPU, in runs of 1,000 steps and
            more.
        attention_backend: kernel of full-sequence attention; auto: in each layer the fastest that can;
            blocked: on CPUs, flex and varlen: on GPUs.
        checkpointing: recompute activations in the backward pass instead of keeping them.
        chunked_loss: compute logits and their gradients in chunks, and never hold them all; false: all logits at once,
            by torch's cross entropy, with the gradient of a tied head as autograd adds it up.
        skip_unread: skip positions of the last layer that no head reads; false: compute all positions.
        byte_dropout: on a CPU, draw a byte per dropout decision; false: torch's dropout, which draws a float.
        fast_layers: on a CPU with AMX, lay matrices out for the gradients of large weights; false: torch's layers.
        keep_memory: on a CPU, keep the memory of large tensors for the next step; false: return it to the system.
        pin_memory: on a GPU, build batches in pinned memory, so that copies do not block the process; false: in
            ordinary memory.
        bucket_views: with ddp, gradients are views of the communication buckets; false: they have their own memory.
        evaluate_every, save_every: steps; None: a tenth of the run (saving at least every 1,000); 0: at the end only.
        evaluation_examples: size of a fixed validation sample; None: all examples.
        keep: how many of the last checkpoints stay, beside the best one.
        ema: decay of a moving average of the weights, which is then validated and published; None: none.
        average: publish the mean of this many last checkpoints; None: the last weights.
        patience: stop after this many validations without improvement; None: never.
        workers: processes that build batches beside each one that trains; 0: a thread does; None: on a GPU machine one
            for each core to spare, at most 8, and else 0.
        log_every: steps between lines of the text log and points of the trackers; metrics.jsonl has every step.
        trackers: of Accelerate, such as tensorboard.
        processes: how many are expected; None: any number.
        strategy: of several processes: ddp: each holds the whole model; fsdp: each holds a shard of it (FSDP2);
            auto: one process, or ddp.
        hang_timeout: seconds that a step, or a pass of validation, may take.
        peer_timeout: seconds that another process may be silent.
        skip_limit: consecutive steps that may be skipped because the loss or a gradient is not finite.
        peak_flops: FLOP/s of one device, for the utilization in the log (MFU); None: measured at the start.
    """

    steps: int | None = 1000
    epochs: float | None = None
    batch: int = 32
    micro_batch: int | Literal["auto"] | None = None
    learning_rate: float = 5e-4
    schedule: Annotated[Choice[Schedule], schedules] = Choice(schedules, "linear")
    warmup_steps: int | float = 0
    optimizer: Annotated[Choice[torch.optim.Optimizer], optimizers] = Choice(optimizers, "adamw")
    layer_decay: float | None = None
    freeze: tuple[str, ...] = ()
    lora: LowRank | None = None
    clip: float | None = 1.0
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: bool | Literal["auto"] = "auto"
    attention_backend: Literal["auto"] | Annotated[Choice[Backend], backends] = "auto"
    checkpointing: bool = False
    chunked_loss: bool = True
    skip_unread: bool = True
    byte_dropout: bool = True
    fast_layers: bool = True
    keep_memory: bool = True
    pin_memory: bool = True
    bucket_views: bool = True
    seed: int = 0
    evaluate_every: int | None = None
    save_every: int | None = None
    evaluation_examples: int | None = None
    keep: int = 2
    ema: float | None = None
    average: int | None = None
    patience: int | None = None
    workers: int | None = None
    log_every: int = 50
    trackers: tuple[str, ...] = ()
    processes: int | None = None
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    hang_timeout: float = 1800.0
    peer_timeout: float = 60.0
    skip_limit: int = 10
    peak_flops: float | None = None

    def __post_init__(self) -> None:
        for name, least in LOWER_BOUNDS.items():
            value = getattr(self, name)
            if isinstance(value, int) and value < least:
                raise ValueError(f"training.{name}: must be at least {least}, got {value}")
        if isinstance(self.warmup_steps, float) and not 0 <= self.warmup_steps < 1:
            got = f"got {self.warmup_steps}"
            raise ValueError(f"training.warmup_steps: must be whole steps, or a fraction of the run below 1, {got}")
        for name in ("epochs", "learning_rate", "clip", "peak_flops", "hang_timeout", "peer_timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"training.{name}: must be a finite number above 0, got {value}")
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise ValueError(f"training.layer_decay: must be above 0 and at most 1, got {self.layer_decay}")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"training.ema: must be above 0 and below 1, got {self.ema}")
        if self.ema is not None and self.average is not None:
            raise ValueError("training.average: does not combine with ema; set one of the two to null")
        if self.patience is not None and self.average is not None:
            raise ValueError("training.average: does not combine with patience; set one of the two to null")
        if self.lora is not None and (self.ema is not None or self.average is not None or self.strategy == "fsdp"):
            raise ValueError("training.lora: does not combine with ema, average or strategy fsdp; leave one out")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("training: name either steps or epochs")
        # built once to check their options, before anything is written
        self.schedule.inherit(d_model=1).build(self.learning_rate, 1, int(self.warmup_steps))
        self.optimizer.build(nn.Linear(1, 1, device="meta"), self.learning_rate)

    @property
    def evaluation_batch(self) -> int:
        """Rows per forward pass of validation."""
        return self.micro_batch if isinstance(self.micro_batch, int) else min(self.batch, 64)


# the defaults by name, so that a higher level that names another variant drops the options of the default one
LOWEST: Tree = {"optimizer": {"name": "adamw"}, "schedule": {"name": "linear"}}


def merge_training(below: Tree, level: Mapping[str, Any]) -> Tree:
    """Merge one level of settings over those below it; steps or epochs here cancel the other of a lower level.

    Raises:
        ValueError: an unknown key, or both steps and epochs.
    """
    known = [*(field.name for field in fields(Training)), *OF_OPTIMIZER]
    for key in level:
        refuse_unknown(str(key), known, "key", f"training.{key}")
    lengths = [key for key in ("steps", "epochs") if level.get(key) is not None]
    if len(lengths) == 2:
        raise ValueError(f"training: name either steps ({level['steps']}) or epochs ({level['epochs']}), not both")
    canceled = {key: None for key in ("steps", "epochs") if lengths and key not in lengths}
    merged: Tree = merge(below, {**nest_optimizer_options(level), **canceled})
    return merged


def nest_optimizer_options(level: Mapping[str, Any]) -> Tree:
    """Return a level with the optimizer's options moved under `optimizer`, if they were written beside it."""
    beside = {key: level[key] for key in OF_OPTIMIZER if key in level}
    rest = {key: value for key, value in level.items() if key not in beside}
    if beside:
        rest["optimizer"] = merge(rest.get("optimizer"), beside)
    return rest
