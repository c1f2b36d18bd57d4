"""A model in training, with all that changes beside its weights: the optimizer's state, averages, the loss scale."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.blocks.dropout import Drops
from zoo.devices.precision import forward_dtype, mixed, thawed
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.runs.checkpoint import Checkpoint
from zoo.runs.tensors import finite, load_tensors, unique_tensors
from zoo.strict_yaml import Tree
from zoo.training.clipping import limit_norm, norm_of
from zoo.training.devices.attention_backend import use_backends
from zoo.training.devices.compiling import uncompiled
from zoo.training.devices.shards import local, spread_like, whole
from zoo.training.devices.strategy import gathered, spread
from zoo.training.optimizers.optimizer import step_unless, trained
from zoo.training.settings import Training
from zoo.training.supervision.processes import Processes
from zoo.training.weights.adapters import CONFIG, FILE, is_of_adapter, load_adapters, merged, peft_name
from zoo.training.weights.averaging import MovingAverage, Weights, mean_of, shown
from zoo.training.weights.depth import share_rates
from zoo.training.weights.freezing import choose_trained


class Learner:
    """The model as it is trained: `wrapped` for the forward pass of a step, `model` for all else."""

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
            if isinstance(module, Drops):
                module.byte_dropout = settings.byte_dropout
        use_backends(model, settings, processes.device)
        # the order matters: weights are loaded and names taken while tensors are whole; the optimizer needs the shards
        if checkpoint is not None:
            load_tensors(model, finite(checkpoint.tensors("weights"), str(checkpoint.folder)))
        self.kept = list(unique_tensors(model))
        choose_trained(model, settings.freeze, settings.lora, settings.seed)
        if checkpoint is not None and settings.lora is not None:
            load_adapters(model, checkpoint.tensors(FILE))
        self.wrapped = spread(model.train(), settings, processes.accelerator)
        self.trained = trained(model)  # once: looking for them takes the CPU a millisecond, each step
        self.optimizer = settings.optimizer.build(model, settings.learning_rate)
        share_rates(self.optimizer, model, settings.layer_decay)
        assert settings.steps is not None, "fix_training comes first"
        self.schedule = settings.schedule.build(settings.learning_rate, settings.steps, settings.warmup_steps)
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=self.dtype is torch.float16)
        self.moving = None if settings.ema is None else MovingAverage(model, settings.ema)
        self.mean: Weights | None = None
        if checkpoint is not None:
            self.restore(checkpoint)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of the forward pass."""
        return mixed(self.processes.device, self.dtype)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss that is divided by counts of all processes."""
        # DDP averages the gradients over processes, so their number gives the sum back
        self.processes.accelerator.backward(self.scaler.scale(loss * self.processes.count))

    def clip(self) -> Tensor:
        """Clip the gradients, or let `update` do it; the norm that they had."""
        self.scaler.unscale_(self.optimizer)
        norm = norm_of([parameter.grad for parameter in self.trained if parameter.grad is not None])
        if self.settings.clip is not None:
            limit_norm(self.trained, self.optimizer, norm, self.settings.clip)
        return whole(norm)

    def update(self, step: int, bad: Tensor) -> float:
        """Change the weights, unless a gradient is not finite, which the device decides; the learning rate.

        Args:
            step: how many steps were done before.
            bad: 1 where nothing must change, else 0.
        """
        rate = self.schedule.rate(step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        step_unless(bad, self.optimizer)
        if self.moving is not None:
            self.moving.update(self.model, step + 1, bad)
        self.scaler.update()  # also after a skipped step: float16 lowers its scale then
        self.optimizer.zero_grad(set_to_none=True)
        return rate

    @property
    def published(self) -> Weights | None:
        """The weights that a user of the run gets, averaged or merged with adapters; None: the model's own."""
        if self.settings.lora is not None:
            return merged(self.model, self.settings.lora)
        return self.mean if self.moving is None else self.moving.weights

    @contextmanager
    def showing(self) -> Iterator[nn.Module]:
        """The model as a user of the run gets it, for validation."""
        self.model.eval()
        try:
            with uncompiled(self.model), shown(self.model, self.published), gathered(self.model):
                with torch.no_grad(), thawed(self.model), self.autocast():
                    yield self.model
        finally:
            self.model.train()

    def take_mean(self, checkpoints: list[Checkpoint]) -> None:
        """Publish the mean of the weights and those of earlier checkpoints."""
        self.mean = mean_of(self.model, [checkpoint.tensors("weights") for checkpoint in checkpoints])

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """All tensors of a checkpoint, by the file that holds them; whole ones in the main process.

        torch.distributed.checkpoint would name the optimizer's tensors, too, but it takes a step of an optimizer that
        has no state yet in order to know its keys.
        """
        own = self.model.state_dict()
        weights = {name: self.put_together(own[name]) for name in self.kept}
        optimizer = {
            f"{key}/{name}": self.put_together(tensor)
            for name, parameter in self.model.named_parameters()
            for key, tensor in self.optimizer.state.get(parameter, {}).items()
        }
        kinds = {"weights": weights, "optimizer": optimizer}
        if self.settings.lora is not None:
            kinds[FILE] = {peft_name(name): own[name] for name in own if is_of_adapter(name)}
        if (published := self.published) is not None:
            others = {name: self.put_together(tensor) for name, tensor in published.items() if name in weights}
            kinds[self.published_kind] = {**weights, **others}
        return kinds

    def beside(self) -> dict[str, Tree]:
        """What peft needs to read a checkpoint's adapters, by the name of its file."""
        lora = self.settings.lora
        return {} if lora is None else {CONFIG: lora.config(self.model)}

    @property
    def published_kind(self) -> str:
        """What a checkpoint calls the published weights."""
        if self.settings.lora is not None:
            return "merged"
        return "average" if self.moving is None else "ema"

    def put_together(self, tensor: Tensor) -> Tensor:
        """A tensor as the main process saves it; shards are put together one tensor at a time, and leave the device."""
        full = whole(tensor)
        if full is tensor:
            return tensor
        return full.cpu() if self.processes.is_main else full.new_empty(0)

    def spoiled(self) -> str | None:
        """The name of a weight that is not finite in this process; None where all are."""
        broken = (name for name, weight in self.model.named_parameters() if not local(weight).isfinite().all())
        return next(broken, None)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from what a checkpoint of the same model and settings has beside its weights.

        Raises:
            ValueError: its tensors do not fit.
        """
        if self.moving is not None:
            ema = checkpoint.tensors("ema")
            self.moving.weights = {name: spread_like(ema[name], own) for name, own in self.moving.weights.items()}
        parameters = dict(self.model.named_parameters())
        numbers = {p: i for i, p in enumerate(p for group in self.optimizer.param_groups for p in group["params"])}
        state: dict[int, dict[str, Tensor]] = {}
        for place, tensor in checkpoint.tensors("optimizer").items():
            key, name = place.split("/", 1)
            parameter = parameters[name]
            own = spread_like(tensor, parameter) if tensor.shape == parameter.shape else tensor
            state.setdefault(numbers[parameter], {})[key] = own
        # the optimizer numbers its parameters, and puts what is not of a parameter's shape on the device it wants it on
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(checkpoint.state["scale"])


def reseed_dropout(seed: int, step: int, process: int, device: torch.device) -> None:
    """Make dropout on a device depend on seed, step and process alone, so that a resumed run draws the same.

    torch.manual_seed would do that for all kinds of devices, and format a traceback for each one that is not there.
    """
    word = int(np.random.SeedSequence((seed, step, process)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(word)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(word)


def hold_gradients(learner: Learner, hold: bool) -> AbstractContextManager[Any]:
    """Keep gradients in this process: processes exchange them once a step, with the last micro-batch."""
    return learner.processes.accelerator.no_sync(learner.wrapped) if hold else nullcontext()
