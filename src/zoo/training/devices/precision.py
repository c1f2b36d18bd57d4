"""The precision of the forward pass on a device."""

import torch


def forward_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """The dtype that matrix products are computed in; None: float32 throughout.

    Raises:
        ValueError: float16 on a CPU.
    """
    if precision == "float16" and device.type == "cpu":
        raise ValueError("training.precision: float16 needs a GPU; on a CPU use bfloat16 or float32")
    if precision == "auto":
        return torch.bfloat16 if has_bfloat16(device) else None
    return {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 matrices in hardware, which then is several times faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "arm_bf16"))


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
