"""Tensors by name, tied ones once: taking them from a module, loading them, and reading and writing safetensors."""

import math
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from zoo.wording import first_few

LARGEST = torch.finfo(torch.float32).max


def storage_of(name: str, tensor: Tensor) -> object:
    """A key that is equal for tied tensors. Empty tensors have no address, so their key is their name."""
    if not tensor.numel():
        return name
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def unique_tensors(module: nn.Module) -> dict[str, Tensor]:
    """A module's parameters and buffers by name; tied ones only under their first name.

    safetensors' `save_model` works on a module only; zoo also saves shards, averages and renamed tensors.
    """
    unique: dict[object, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict().items():
        unique.setdefault(storage_of(name, tensor), (name, tensor))
    return dict(unique.values())


def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into a module; names and shapes must match exactly, and are checked before anything is copied.

    Raises:
        ValueError: a tensor is missing, unexpected or of another shape; the message gives the first few, with shapes.
    """
    expected = module.state_dict()
    missing, unexpected = compare_names(expected, tensors)
    faults = [f"{name}: missing, expected {shape(expected[name])}" for name in missing]
    faults += [f"{name}: unexpected, found {shape(tensors[name])}" for name in unexpected]
    refuse_faults(faults + wrong_shapes(expected, tensors))
    load_matching(module, tensors)


def load_matching(module: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copy the tensors whose names a module has; returns the names that are missing, and those that are unexpected.

    Raises:
        ValueError: a tensor has another shape than the module's; nothing is copied then.
    """
    expected = module.state_dict()
    refuse_faults(wrong_shapes(expected, tensors))
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name in expected:
                expected[name].copy_(tensor)
    return compare_names(expected, tensors)


def require_finite(tensors: Mapping[str, Tensor], place: str) -> Mapping[str, Tensor]:
    """Return the tensors if all their values are finite in float32 (no NaN, no infinity, no 1e300).

    Raises:
        ValueError: one is not; the message names the tensor.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            # one pass, without the temporary tensor of isfinite(); aminmax propagates NaN to both bounds
            least, most = (bound.item() for bound in torch.aminmax(tensor))
            if not -LARGEST <= least <= most <= LARGEST:
                found = "NaN" if math.isnan(least) else f"{least:g}" if least < -LARGEST else f"{most:g}"
                raise ValueError(
                    f"{place}: {name} holds {found}, not a finite float32 number; use an earlier checkpoint"
                )
    return tensors


def compare_names(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Names missing from `tensors` (unless a tied name is given), and names that are unexpected."""
    given = {storage_of(name, expected[name]) for name in tensors if name in expected}
    missing = [name for name, tensor in expected.items() if storage_of(name, tensor) not in given]
    return missing, [name for name in tensors if name not in expected]


def wrong_shapes(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """A message for each tensor whose shape differs from the module's."""
    both = [(name, expected[name], tensor) for name, tensor in tensors.items() if name in expected]
    return [f"{name}: expected {shape(a)}, found {shape(b)}" for name, a, b in both if a.shape != b.shape]


def refuse_faults(faults: list[str]) -> None:
    """Raise a ValueError that lists the first few faults, if there are any."""
    if faults:
        raise ValueError(f"the weights do not fit the model: {first_few(faults, '; ')}")


def shape(tensor: Tensor) -> str:
    return "x".join(str(n) for n in tensor.shape) or "a scalar"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors on any device to a safetensors file.

    Raises:
        RuntimeError: they cannot be written (a full disk).
    """
    try:
        path.touch()
        usual = path.stat().st_mode  # safetensors creates files that only the owner can read
        save_file({name: with_own_storage(tensor) for name, tensor in tensors.items()}, path, metadata)
        path.chmod(usual)
    except SafetensorError as error:  # neither an OSError nor a RuntimeError
        raise RuntimeError(f"{path}: {error}") from None


def with_own_storage(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, contiguous, with a storage of its own, as safetensors requires."""
    tensor = tensor.detach().to("cpu").contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ValueError: the file does not exist or is damaged.
    """
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: is damaged, it is not safetensors ({error})") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except RuntimeError as error:  # torch's, where the file was deleted since safetensors read its header
        if os.path.lexists(path):
            raise
        raise ValueError(f"{path}: {error}") from None
    return tensors


def part_of(name: str) -> str:
    """The part of a model that a weight belongs to: `heads.classification`, `pooler`, `encoder`."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] == "heads" else words[0]
