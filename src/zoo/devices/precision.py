"""The precision of the forward pass on a device."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from zoo.wording import refuse_unknown

AUTO = "auto"
DTYPES = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
PLACE = "training.precision"
NAMES = {"cpu": "processor", "cuda": "GPU"}
logger = logging.getLogger(__name__)


def forward_dtype(precision: str, device: torch.device, place: str = PLACE) -> torch.dtype | None:
    """The dtype of matrix products; None: float32 throughout. Warns once if the device only emulates bfloat16.

    Args:
        precision: auto: bfloat16 if the device has it in hardware, else float32.
        place: the key or option that set the precision, for messages.

    Raises:
        ValueError: an unknown precision, or float16 on a CPU.
    """
    refuse_unknown(precision, [AUTO, *DTYPES], "value", place)
    if precision == "float16" and device.type == "cpu":
        raise ValueError(f"{place}: float16 needs a GPU; on a CPU use bfloat16 or float32")
    if precision == AUTO:
        return torch.bfloat16 if has_bfloat16(device) else None
    if precision == "bfloat16" and emulates_bfloat16(device):
        warn_of_emulation(device.type, place)
    return DTYPES[precision]


def name_of_dtype(precision: str, device: torch.device) -> str:
    """Name of the dtype of matrix products, for logs."""
    return str(forward_dtype(precision, device) or torch.float32).removeprefix("torch.")


def nearest_precision(precision: str, device: torch.device) -> str:
    """The precision that a run used elsewhere, or auto if this device does not have it in hardware; logs the change."""
    lacks = device.type == "cpu" if precision == "float16" else precision == "bfloat16" and emulates_bfloat16(device)
    if not lacks:
        return precision
    name = NAMES[device.type]
    logger.info("the run computed in %s, which this %s lacks: figures may differ in their last digits", precision, name)
    return AUTO


def autocast_to(device: torch.device, dtype: torch.dtype | None) -> torch.autocast:
    """Autocast context for a model with float32 weights, as in training and validation; no autocast if dtype is None.

    Casts of weights that require a gradient are cached until the context ends.
    """
    return torch.autocast(device.type, dtype, enabled=dtype is not None)


@contextmanager
def require_gradients(model: nn.Module) -> Iterator[None]:
    """Context in which frozen parameters require a gradient; use it under `no_grad` only.

    Autocast caches casts only of parameters that require a gradient, and would cast the others for every new token.
    """
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def has_autocast(kind: str) -> bool:
    """Whether a device type has autocast: all except "meta", on which costs are counted.

    Not `torch.amp.is_autocast_available`, which causes a graph break in torch 2.11.
    """
    return kind != "meta"


def dtype_of_products(x: Tensor) -> torch.dtype:
    """The dtype of matrix products with a tensor: autocast's if it is on, else the tensor's.

    Autocast does not cast float64.
    """
    narrow = autocast_dtype(x.device.type)
    return x.dtype if narrow is None or x.dtype == torch.float64 else narrow


def autocast_dtype(kind: str) -> torch.dtype | None:
    """The autocast dtype of a device type; None if autocast is off."""
    return torch.get_autocast_dtype(kind) if has_autocast(kind) and torch.is_autocast_enabled(kind) else None


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 matrices in hardware, several times faster than float32."""
    if device.type == "cuda":
        # not torch.cuda.is_bf16_supported, which checks the current GPU instead of `device`; as there, any GPU on ROCm
        return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
    able = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "arm_bf16"))


def has_amx() -> bool:
    """Whether this CPU has Intel's AMX, whose bfloat16 products are five times as fast as with vector instructions."""
    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))


def emulates_bfloat16(device: torch.device) -> bool:
    """Whether a device emulates bfloat16 in software: a CPU with AVX2 takes 10 to 130 times as long as in float32."""
    return device.type != "mps" and not has_bfloat16(device)


@cache  # optimizers call it per matrix and step
def fastest_dtype(device: torch.device) -> torch.dtype:
    """The fastest dtype for matrix products that need no more precision than bfloat16."""
    return torch.float32 if emulates_bfloat16(device) else torch.bfloat16


@cache  # every part of a run calls it; warn once
def warn_of_emulation(kind: str, place: str) -> None:
    """Warn, once per device type and setting, that bfloat16 is emulated in software."""
    said = "%s: this %s has no bfloat16 in hardware; float32 is 10 times as fast, or more"
    logger.warning(said, place.removeprefix("--"), NAMES[kind])  # the name of the option in Python too


def widest_dtype(device: torch.device) -> torch.dtype:
    """The floating-point dtype with the most precision on a device: Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
