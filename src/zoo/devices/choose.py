"""The device that a model runs on: one rule for training and for every command that uses a model."""

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from zoo.devices.defaults import UNROUNDED
from zoo.devices.precision import AUTO, forward_dtype, widest_dtype
from zoo.registry import check
from zoo.wording import nearest

CPU = "cpu"
EXACT = "float32"  # precision for comparing logits and drawing attention maps
CUDNN: tuple[Any, ...] = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn)  # type: ignore[attr-defined]
DeviceName = str | torch.device
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Placement:
    """Device and dtype of a model in inference.

    Args:
        dtype: of its weights, and so of its computations, except those that blocks keep in float32.
    """

    device: torch.device
    dtype: torch.dtype

    def move(self, model: M) -> M:
        """Move a model to the device and cast its weights, once instead of in every forward pass."""
        return model.to(self.device, self.dtype)


AS_STORED = Placement(torch.device(CPU), torch.float32)


def with_dtype(model: M, dtype: torch.dtype) -> M:
    """Cast a model; move it to the CPU if its device does not support the dtype (float64 on MPS)."""
    device = next(model.parameters()).device
    return model.to(torch.device(CPU) if dtype.itemsize > widest_dtype(device).itemsize else device, dtype)


def choose_placement(device: DeviceName = AUTO, precision: str = AUTO) -> Placement:
    """Choose device and dtype from a user's `--device` and `--precision`.

    Raises:
        ValueError: as `choose_device` and `forward_dtype`.
    """
    chosen, precision = choose_device(device), check(precision, str, "--precision")
    return Placement(chosen, forward_dtype(precision, chosen, "--precision") or torch.float32)


def choose_device(wanted: DeviceName = AUTO) -> torch.device:
    """Return the device of a name; auto: CUDA, then MPS, then the CPU.

    For CUDA this turns off TF32 in cuDNN for the whole process: torch's default lets float32 convolutions and recurrent
    layers compute with 10-bit mantissas, but not matrix products.

    Args:
        wanted: `cuda` is the first GPU.

    Raises:
        ValueError: there is no such device; the message lists those available.
    """
    name, there = str(wanted), available()
    known = [AUTO, *(["cuda"] if there[0] == "cuda:0" else []), *there]
    if name not in known:
        raise ValueError(f"--device: no device '{name}' here{nearest(name, known)}; allowed: {', '.join(known)}")
    device = torch.device({AUTO: there[0], "cuda": there[0]}.get(name, name))
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        for kernels in CUDNN:  # otherwise they follow torch.backends.fp32_precision
            kernels.fp32_precision = UNROUNDED[0]
    return device


def available() -> list[str]:
    """The available devices, best first."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [*(f"cuda:{i}" for i in range(gpus)), *(["mps"] if torch.backends.mps.is_available() else []), CPU]


def device_name(device: torch.device) -> str:
    """The product name of a GPU, else the device type."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
