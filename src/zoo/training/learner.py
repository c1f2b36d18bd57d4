"""A model in training, with the state that changes beside its weights: optimizer, weight averages, loss scale."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.blocks.dropout import UsesDropout
from zoo.blocks.projections import UsesFastLayers
from zoo.devices.precision import autocast_to, forward_dtype, require_gradients
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.runs.checkpoint import Checkpoint
from zoo.runs.tensors import load_tensors, require_finite, unique_tensors
from zoo.strict_yaml import Tree
from zoo.training.clipping import clip_to_norm, total_norm
from zoo.training.devices.attention_backend import use_backends
from zoo.training.devices.compiling import uncompiled
from zoo.training.devices.shards import gather_full, local_shard, shard_like
from zoo.training.devices.strategy import distribute, unsharded
from zoo.training.optimizers.optimizer import step_unless, trained_parameters
from zoo.training.settings import Training
from zoo.training.supervision.processes import Processes
from zoo.training.weights.adapters import CONFIG, FILE, is_adapter_name, load_adapters, merged_weights, peft_name
from zoo.training.weights.averaging import MovingAverage, Weights, mean_of, swapped_in
from zoo.training.weights.depth import set_rate_shares
from zoo.training.weights.freezing import freeze


class Learner:
    """A model in training: `wrapped` runs the forward pass of a step, `model` serves everything else."""

    def __init__(
        self, model: nn.Module, settings: Training, processes: Processes, checkpoint: Checkpoint | None = None
    ) -> None:
        self.model, self.settings, self.processes = model, settings, processes
        self.dtype = forward_dtype(settings.precision, processes.device)
        for module in model.modules():
            if isinstance(module, Part):
                module.checkpointing = settings.checkpointing
            if isinstance(module, Model):
                module.chunked_loss, module.skip_unread = settings.chunked_loss, settings.skip_unread
            if isinstance(module, UsesDropout):
                module.byte_dropout = settings.byte_dropout
            if isinstance(module, UsesFastLayers):
                module.fast_layers = settings.fast_layers
        use_backends(model, settings, processes.device)
        # the order matters: weights and names are read before FSDP shards the tensors; the optimizer needs the shards
        if checkpoint is not None:
            load_tensors(model, require_finite(checkpoint.tensors("weights"), str(checkpoint.folder)))
        self.saved_names = list(unique_tensors(model))  # the names of the tensors to save, tied ones once
        freeze(model, settings.freeze, settings.lora, settings.seed)
        if checkpoint is not None and settings.lora is not None:
            load_adapters(model, checkpoint.tensors(FILE))
        self.wrapped = distribute(model.train(), settings, processes.accelerator)
        self.trained = trained_parameters(model)  # kept: collecting them costs a millisecond per step
        self.optimizer = settings.optimizer.build(model, settings.learning_rate)
        set_rate_shares(self.optimizer, model, settings.layer_decay)
        assert settings.steps is not None, "fix_training comes first"
        self.schedule = settings.schedule.build(settings.learning_rate, settings.steps, settings.warmup_steps)
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=self.dtype is torch.float16)
        self.moving_average = None if settings.ema is None else MovingAverage(model, settings.ema)
        self.checkpoint_mean: Weights | None = None
        if checkpoint is not None:
            self.restore(checkpoint)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the forward pass."""
        return autocast_to(self.processes.device, self.dtype)

    def backward(self, loss: Tensor) -> None:
        """Accumulate the gradients of a loss that is divided by the counts of all processes."""
        # DDP and FSDP average gradients over processes; multiplying by their number gives the sum
        self.processes.accelerator.backward(self.scaler.scale(loss * self.processes.count))

    def clip(self) -> Tensor:
        """Clip the gradients, or prepare the optimizer to do so in `update`; return their norm (scalar) before that."""
        self.scaler.unscale_(self.optimizer)
        norm = total_norm([parameter.grad for parameter in self.trained if parameter.grad is not None])
        if self.settings.clip is not None:
            clip_to_norm(self.trained, self.optimizer, norm, self.settings.clip)
        return gather_full(norm)  # with FSDP it is a DTensor, whose parts are still to be summed over the processes

    def update(self, step: int, bad: Tensor) -> float:
        """Update the weights unless `bad` is set, which the device decides; return the learning rate.

        Args:
            step: number of steps done before.
            bad: a scalar on the device: 1 if a loss or gradient is not finite, so that nothing may change, else 0.
        """
        rate = self.schedule.rate(step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]  # the share is below 1 only with `layer_decay`
        # not scaler.step: `bad` also covers the loss, the other processes, and precisions without a loss scale
        step_unless(bad, self.optimizer)
        if self.moving_average is not None:
            self.moving_average.update(self.model, step + 1, bad)
        self.scaler.update()  # also after a skipped step: that lowers float16's loss scale
        self.optimizer.zero_grad(set_to_none=True)
        return rate

    @property
    def published_weights(self) -> Weights | None:
        """The weights that a user of the run gets: averaged, or merged with adapters; None: the model's own."""
        if self.settings.lora is not None:
            return merged_weights(self.model, self.settings.lora)
        return self.checkpoint_mean if self.moving_average is None else self.moving_average.weights

    @contextmanager
    def published_model(self) -> Iterator[nn.Module]:
        """Yield the model with its published weights, in evaluation mode, for validation."""
        self.model.eval()
        try:
            with uncompiled(self.model), swapped_in(self.model, self.published_weights), unsharded(self.model):
                # autocast caches casts only of weights that require a gradient, so frozen ones do here, too
                with torch.no_grad(), require_gradients(self.model), self.autocast():
                    yield self.model
        finally:
            self.model.train()

    def average_checkpoints(self, checkpoints: list[Checkpoint]) -> None:
        """Publish the mean of the current weights and those of earlier checkpoints."""
        self.checkpoint_mean = mean_of(self.model, [checkpoint.tensors("weights") for checkpoint in checkpoints])

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return all tensors of a checkpoint, by file and name. All processes must call this; the main one saves them.

        torch.distributed.checkpoint could name the optimizer's tensors, too, but to learn the keys of an optimizer
        without state it runs a step of it.
        """
        own = self.model.state_dict()
        weights = {name: self.gather_for_saving(own[name]) for name in self.saved_names}
        optimizer = {
            f"{key}/{name}": self.gather_for_saving(tensor)
            for name, parameter in self.model.named_parameters()
            for key, tensor in self.optimizer.state.get(parameter, {}).items()
        }
        kinds = {"weights": weights, "optimizer": optimizer}
        if self.settings.lora is not None:
            kinds[FILE] = {peft_name(name): own[name] for name in own if is_adapter_name(name)}
        if (published := self.published_weights) is not None:
            others = {name: self.gather_for_saving(tensor) for name, tensor in published.items() if name in weights}
            kinds[self.published_kind] = {**weights, **others}
        return kinds

    def extra_files(self) -> dict[str, Tree]:
        """Return the JSON files that a checkpoint holds for other programs: what peft needs to read its adapters."""
        lora = self.settings.lora
        return {} if lora is None else {CONFIG: lora.config(self.model)}

    @property
    def published_kind(self) -> str:
        """The name of a checkpoint's file of published weights: `merged`, `average` or `ema`."""
        if self.settings.lora is not None:
            return "merged"
        return "average" if self.moving_average is None else "ema"

    def gather_for_saving(self, tensor: Tensor) -> Tensor:
        """Gather a sharded tensor on the CPU of the main process, one tensor at a time to save memory on the device.

        The other processes get an empty tensor. A tensor that is not sharded is returned unchanged.
        """
        full = gather_full(tensor)
        if full is tensor:
            return tensor
        return full.cpu() if self.processes.is_main else full.new_empty(0)

    def nonfinite_weight(self) -> str | None:
        """Return the name of a weight that is not finite in this process; None: all are finite."""
        broken = (name for name, weight in self.model.named_parameters() if not local_shard(weight).isfinite().all())
        return next(broken, None)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore everything but the weights from a checkpoint of the same model and settings.

        Raises:
            ValueError: a file of the checkpoint is missing or damaged.
        """
        if self.moving_average is not None:
            ema = checkpoint.tensors("ema")
            self.moving_average.weights = {
                name: shard_like(ema[name], own) for name, own in self.moving_average.weights.items()
            }
        parameters = dict(self.model.named_parameters())
        numbers = {p: i for i, p in enumerate(p for group in self.optimizer.param_groups for p in group["params"])}
        state: dict[int, dict[str, Tensor]] = {}
        for place, tensor in checkpoint.tensors("optimizer").items():
            key, name = place.split("/", 1)
            parameter = parameters[name]
            # tensors of another shape, such as Adam's `step`, are whole in every process
            own = shard_like(tensor, parameter) if tensor.shape == parameter.shape else tensor
            state.setdefault(numbers[parameter], {})[key] = own
        # load_state_dict takes parameters by number, and puts tensors such as `step` on the device that it wants
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(checkpoint.state["scale"])


def reseed_dropout(seed: int, step: int, process: int, device: torch.device) -> None:
    """Seed dropout on a device from seed, step and process alone, so that a resumed run draws the same masks.

    torch.manual_seed would seed all kinds of devices, and format a traceback for each kind that is missing.
    """
    word = int(np.random.SeedSequence((seed, step, process)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(word)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(word)


def hold_gradients(learner: Learner, hold: bool) -> AbstractContextManager[Any]:
    """Return a context that skips DDP's gradient exchange if `hold`: processes exchange once per step, at its end.

    FSDP goes on exchanging after every micro-batch: to wait, each process would have to keep all gradients unsharded.
    """
    return learner.processes.accelerator.no_sync(learner.wrapped) if hold else nullcontext()
