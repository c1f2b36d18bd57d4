"""Safetensors of a stranger: what is in them is known and checked before any of it is read."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from zoo.hub.sources.folder import CheckpointFolder, strict_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHERS = (".h5", ".msgpack", ".onnx", ".gguf")
MOST_HEADER = 8 * 2**20  # bytes; a hundred thousand tensors with long names take less
MOST_FILES = 1000
MOST_AXES = 8
MOST_NAME = 300  # characters of a tensor's name; messages repeat it
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
READ = ("F64", "F32", "F16", "BF16")  # what a weight may be
SHOWN = 5


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a file, under the name that it has there."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def find_tensors(foreign: CheckpointFolder, class_name: str) -> dict[str, TensorInfo]:
    """The tensors of a folder by name.

    Args:
        class_name: of transformers, for the way out that a message shows.

    Raises:
        ValueError: there are none, they are no safetensors, or the files do not belong together.
    """
    if foreign.has(WHOLE):
        return read_header(foreign.path(WHOLE))
    if foreign.has(INDEX):
        return read_index(foreign)
    names = sorted(path.name for path in foreign.folder.iterdir())
    pickles = [name for name in names if name.endswith(PICKLES)]
    if pickles:
        raise ValueError(refusal(foreign.folder, pickles[0], class_name))
    others = [name for name in names if name.endswith((*OTHERS, ".safetensors"))]
    found = f" (there is {', '.join(others[:SHOWN])})" if others else ""
    raise ValueError(f"{foreign.folder}: has no {WHOLE} and no {INDEX}{found}")


def refusal(folder: Path, name: str, class_name: str) -> str:
    """Why a pickle is not read, and how it becomes something that is."""
    convert = f"{class_name}.from_pretrained('{folder}').save_pretrained('{folder}')"
    return (
        f"{folder / name}: is a pickle, and reading one runs what its author wrote into it. If you trust the author, "
        f'convert it once: python -c "from transformers import {class_name}; {convert}"; it writes {WHOLE} beside it'
    )


def read_index(foreign: CheckpointFolder) -> dict[str, TensorInfo]:
    """The tensors of several files, as the index says."""
    place = foreign.folder / INDEX
    where = foreign.read_json(INDEX).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise ValueError(f"{place}: 'weight_map' is missing")
    for name, file in where.items():
        if len(name) > MOST_NAME:
            raise ValueError(f"{place}: a tensor's name has {len(name)} characters; more than {MOST_NAME} are refused")
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise ValueError(f"{place}: '{name}' is said to be in {file!r:.80}; expected a safetensors file")
    files = sorted(set(where.values()))
    if len(files) > MOST_FILES:
        raise ValueError(f"{place}: names {len(files)} files; more than {MOST_FILES} are refused")
    headers = {file: read_header(foreign.path(file)) for file in files}
    for name, file in where.items():
        if name not in headers[file]:
            raise ValueError(f"{place}: '{name}' is said to be in {file:.80}, but is not there")
    return {name: headers[file][name] for name, file in where.items()}


def read_header(path: Path) -> dict[str, TensorInfo]:
    """What a safetensors file says it holds, checked against its size; no tensor is read.

    Raises:
        ValueError: it is no such file, or claims what it cannot hold.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8 or size < 8:
            raise ValueError(f"{path}: is not safetensors (its first bytes are no length of a header); a pickle, maybe")
        if length > MOST_HEADER:
            raise ValueError(f"{path}: has a header of {length} bytes; more than {MOST_HEADER} are refused")
        header = strict_json(file.read(length), f"{path} (its header)")
    header.pop("__metadata__", None)
    return {name: read_entry(name, entry, size - 8 - length, path) for name, entry in header.items()}


def read_entry(name: str, entry: Any, room: int, path: Path) -> TensorInfo:
    """One tensor of a header: its bytes must be there, and as many as its shape needs."""
    if len(name) > MOST_NAME:
        raise ValueError(f"{path}: a tensor's name has {len(name)} characters; more than {MOST_NAME} are refused")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{path}: the header's entry '{name}' is damaged")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    numbers = isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2
    if not numbers or any(type(n) is not int or n < 0 for n in (*shape, *offsets)):
        raise ValueError(f"{path}: shape or offsets of '{name}' are damaged")
    if offsets[0] > offsets[1] or offsets[1] > room:
        raise ValueError(f"{path}: '{name}' is said to lie at bytes {offsets!r:.80}; the file has {room}")
    if len(shape) > MOST_AXES or any(n > room for n in shape):  # before sizes are multiplied
        raise ValueError(f"{path}: '{name}' is said to be {shape!r:.80}, which no {room} bytes hold")
    if not isinstance(dtype, str):
        raise ValueError(f"{path}: the dtype of '{name}' is damaged")
    stored = TensorInfo(path, name, dtype, tuple(shape))
    if dtype in BYTES and stored.elements * BYTES[dtype] != offsets[1] - offsets[0]:
        raise ValueError(f"{path}: '{name}' is said to be {shape} of {dtype}, but has {offsets[1] - offsets[0]} bytes")
    return stored


def load(wanted: Mapping[str, TensorInfo]) -> dict[str, Tensor]:
    """Tensors in float32, by name.

    Raises:
        ValueError: one is of a type that no weight has, or cannot be read.
    """
    wrong = [f"'{name}' is {stored.dtype:.20}" for name, stored in wanted.items() if stored.dtype not in READ]
    if wrong:
        raise ValueError(f"{', '.join(wrong[:SHOWN])}; a weight is one of {', '.join(READ)}")
    return dict(each(wanted))


def each(wanted: Mapping[str, TensorInfo]) -> Iterator[tuple[str, Tensor]]:
    with ExitStack() as stack:
        opened: dict[Path, Any] = {}
        for name, stored in wanted.items():
            try:
                if stored.path not in opened:
                    opened[stored.path] = stack.enter_context(safe_open(stored.path, "pt"))
                yield name, opened[stored.path].get_tensor(stored.name).float()
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{stored.path}: is damaged: {error}") from None
