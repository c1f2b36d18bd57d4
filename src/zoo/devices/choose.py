"""Where a model computes: one rule for training and for every command that uses a model."""

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from zoo.devices.defaults import UNROUNDED
from zoo.devices.precision import AUTO, forward_dtype, widest
from zoo.registry import check
from zoo.wording import nearest

CPU = "cpu"
EXACT = "float32"  # the precision of what is compared or drawn
CUDNN: tuple[Any, ...] = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn)  # type: ignore[attr-defined]
DeviceName = str | torch.device
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Placement:
    """Where a model that is used, not trained, lies, and in which dtype.

    Args:
        dtype: of its weights, and so of all that it computes except what blocks keep in float32.
    """

    device: torch.device
    dtype: torch.dtype

    def move(self, model: M) -> M:
        """Put a model there; its weights are cast once, not for every forward pass."""
        return model.to(self.device, self.dtype)


AS_STORED = Placement(torch.device(CPU), torch.float32)


def with_dtype(model: M, dtype: torch.dtype) -> M:
    """Cast a model; it goes to the CPU for a dtype that its device lacks."""
    device = next(model.parameters()).device
    return model.to(torch.device(CPU) if dtype.itemsize > widest(device).itemsize else device, dtype)


def choose_placement(device: DeviceName = AUTO, precision: str = AUTO) -> Placement:
    """Where a model goes that a user wants on a device and in a precision.

    Raises:
        ValueError: as `choose_device` and `forward_dtype`.
    """
    chosen, precision = choose_device(device), check(precision, str, "--precision")
    return Placement(chosen, forward_dtype(precision, chosen, "--precision") or torch.float32)


def choose_device(wanted: DeviceName = AUTO) -> torch.device:
    """The device of a name; auto: CUDA, then MPS, then the CPU.

    On CUDA it lets cuDNN round nothing in this process: by torch's default convolutions and recurrent layers would
    compute in TF32, with 10 bits of each factor, where float32 is asked for. Products of matrices do not.

    Args:
        wanted: `cuda` is the first GPU.

    Raises:
        ValueError: there is no such device; the message names those that are there.
    """
    name, there = str(wanted), available()
    known = [AUTO, *(["cuda"] if there[0] == "cuda:0" else []), *there]
    if name not in known:
        raise ValueError(f"--device: no device '{name}' here{nearest(name, known)}; allowed: {', '.join(known)}")
    device = torch.device({AUTO: there[0], "cuda": there[0]}.get(name, name))
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        for kernels in CUDNN:  # which else do as torch.backends.fp32_precision says
            kernels.fp32_precision = UNROUNDED[0]
    return device


def available() -> list[str]:
    """The devices that are there, the best one first."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [*(f"cuda:{i}" for i in range(gpus)), *(["mps"] if torch.backends.mps.is_available() else []), CPU]


def device_name(device: torch.device) -> str:
    """A device as its maker calls it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
