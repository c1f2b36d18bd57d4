"""A module's tensors by name, each storage once: what weight files hold, and how they get back into a module."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from zoo.wording import first_few

LARGEST = torch.finfo(torch.float32).max


def storage_of(name: str, tensor: Tensor) -> object:
    """A key that two names have in common if they are tied; empty tensors have no address, so each has its own."""
    if not tensor.numel():
        return name
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def unique_tensors(module: nn.Module) -> dict[str, Tensor]:
    """A module's weights and buffers by name; of tied ones the first name only.

    safetensors' `save_model` does so for a module alone; here tensors may also be shards, averages or renamed ones.
    """
    unique: dict[object, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict().items():
        unique.setdefault(storage_of(name, tensor), (name, tensor))
    return dict(unique.values())


def load_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into a module that has exactly these; everything is checked before anything is copied.

    Raises:
        ValueError: a tensor is missing, unexpected or of another shape; the first few with both shapes.
    """
    expected = module.state_dict()
    missing, unexpected = compare_names(expected, tensors)
    faults = [f"{name}: missing, expected {shape(expected[name])}" for name in missing]
    faults += [f"{name}: unexpected, found {shape(tensors[name])}" for name in unexpected]
    refuse(faults + wrong_shapes(expected, tensors))
    load_matching(module, tensors)


def load_matching(module: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copy the tensors whose names a module has; the names that stay as they are, and those that are dropped.

    Raises:
        ValueError: a tensor has another shape than the module's of that name; nothing is copied then.
    """
    expected = module.state_dict()
    refuse(wrong_shapes(expected, tensors))
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name in expected:
                expected[name].copy_(tensor)
    return compare_names(expected, tensors)


def finite(tensors: Mapping[str, Tensor], place: str) -> Mapping[str, Tensor]:
    """The tensors, if float32 has each of their numbers: nothing can be computed with NaN, infinity or 1e300.

    Raises:
        ValueError: with the name of the tensor.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            # one pass that needs no memory of the tensor's size; NaN is passed on to both bounds
            least, most = (bound.item() for bound in torch.aminmax(tensor))
            if not -LARGEST <= least <= most <= LARGEST:
                found = "NaN" if math.isnan(least) else f"{least:g}" if least < -LARGEST else f"{most:g}"
                raise ValueError(
                    f"{place}: {name} holds {found}, not a finite float32 number; use an earlier checkpoint"
                )
    return tensors


def compare_names(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Names that are missing (and tied to none that is there), and names that are unexpected."""
    given = {storage_of(name, expected[name]) for name in tensors if name in expected}
    missing = [name for name, tensor in expected.items() if storage_of(name, tensor) not in given]
    return missing, [name for name in tensors if name not in expected]


def wrong_shapes(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """The tensors of another shape than the module's, in words."""
    both = [(name, expected[name], tensor) for name, tensor in tensors.items() if name in expected]
    return [f"{name}: expected {shape(a)}, found {shape(b)}" for name, a, b in both if a.shape != b.shape]


def refuse(faults: list[str]) -> None:
    """Raise a ValueError that lists the first few faults, where there are any."""
    if faults:
        raise ValueError(f"the weights do not fit the model: {first_few(faults, '; ')}")


def shape(tensor: Tensor) -> str:
    return "x".join(str(n) for n in tensor.shape) or "a scalar"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors as safetensors, from whatever device they are on.

    Raises:
        RuntimeError: they cannot be written (a full disk).
    """
    try:
        path.touch()
        usual = path.stat().st_mode  # safetensors makes files that only their owner can read
        save_file({name: alone(tensor) for name, tensor in tensors.items()}, path, metadata)
        path.chmod(usual)
    except SafetensorError as error:  # which is neither an OSError nor a RuntimeError
        raise RuntimeError(f"{path}: {error}") from None


def alone(tensor: Tensor) -> Tensor:
    """The tensor on the CPU with a storage of its own, as safetensors wants it."""
    tensor = tensor.detach().to("cpu").contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ValueError: no such file, or not safetensors.
    """
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: is damaged, it is not safetensors ({error})") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    return tensors


def part_of(name: str) -> str:
    """The part of a model that a weight belongs to, as a user knows it: `heads.classification`, `pooler`, `encoder`."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] == "heads" else words[0]
