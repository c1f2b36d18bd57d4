"""Headers of untrusted safetensors files: zoo checks what they claim before it reads a tensor."""

import math
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from zoo.hub.sources.folder import ADAPTER, CheckpointFolder
from zoo.wording import first_few

WEIGHTS_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHER_WEIGHTS = (".h5", ".msgpack", ".onnx", ".gguf", ".safetensors")
MOST_HEADER = 8 * 2**20  # bytes; a hundred thousand tensors with long names take less
MOST_FILES = 1000  # of one model's weights
MOST_AXES, MOST_NAME = 8, 300  # of a tensor; messages repeat its shape and its name
DTYPES = ("F64", "F32", "F16", "BF16")  # the dtypes that a weight may have


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a safetensors file, under its name in that file."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


def find_tensors(checkpoint: CheckpointFolder) -> dict[str, TensorInfo]:
    """Find the tensors of a folder by name, from the headers of its files.

    Raises:
        ValueError: there are none, they are not safetensors, or the index does not fit the files.
    """
    if checkpoint.has(WEIGHTS_FILE):
        return read_header(checkpoint.path(WEIGHTS_FILE))
    if checkpoint.has(INDEX):
        return read_index(checkpoint)
    names = sorted(path.name for path in checkpoint.folder.iterdir())
    refuse_pickles(checkpoint, names, str(checkpoint.folder), str(checkpoint.folder))
    others = [name for name in names if name.endswith(OTHER_WEIGHTS)]
    found = f" (found {first_few(others)})" if others else ""
    raise ValueError(f"{checkpoint.folder}: has no {WEIGHTS_FILE} and no {INDEX}{found}")


def refuse_pickles(checkpoint: CheckpointFolder, names: list[str], source: str, into: str) -> None:
    """Refuse pickled weights and show the command that converts them.

    Args:
        names: names of all files; `checkpoint` may lack those that were not downloaded.
        source: the folder or repository for `from_pretrained`. into: the folder that the command writes.

    Raises:
        ValueError: one of the files is a pickle, or a Git LFS pointer to one.
    """
    pickles = [name for name in names if name.endswith(PICKLES)]
    if not pickles:
        return
    if checkpoint.has(pickles[0]):
        checkpoint.path(pickles[0])  # refuses a Git LFS pointer: the command could not read it
    named = checkpoint.class_name or ""
    classes = [named if named.isidentifier() else "AutoModel"]  # a user copies the command: it must hold a name only
    classes += ["AutoTokenizer"] * (into != source)
    steps = "; ".join(f"{name}.from_pretrained('{source}').save_pretrained('{into}')" for name in classes)
    command = f'python -c "from transformers import {", ".join(classes)}; {steps}"; then import {into}'
    raise ValueError(
        f"{source}: {pickles[0]} is a pickle, and loading one can run any code. "
        f"If you trust the author, convert it once: {command}"
    )


def refuse_adapter(checkpoint: CheckpointFolder) -> None:
    """Refuse a folder with an adapter, which transformers adds to the weights if peft is installed.

    Raises:
        ValueError: there is an adapter.
    """
    if checkpoint.has(ADAPTER):
        raise ValueError(
            f"{checkpoint.folder}: {ADAPTER} adds an adapter to the weights; zoo reads whole models only. "
            f"Merge it once with peft (`merge_and_unload`), save the model and import that; without {ADAPTER}, zoo and "
            "transformers read only the weights beside it"
        )


def read_index(checkpoint: CheckpointFolder) -> dict[str, TensorInfo]:
    """The tensors of a sharded checkpoint, as its index lists them.

    Raises:
        ValueError: the index is damaged, or lists tensors that the files lack.
    """
    place = checkpoint.folder / INDEX
    where = checkpoint.read_json(INDEX).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise ValueError(f"{place}: 'weight_map' is missing")
    for name, file in where.items():
        # a bare name only: no file may lead out of the folder
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise ValueError(f"{place}: '{name:.80}' is listed in {file!r:.80}; expected a safetensors file")
    files = sorted(set(where.values()))
    if len(files) > MOST_FILES:
        raise ValueError(f"{place}: names {len(files)} files; allowed: at most {MOST_FILES}")
    headers = {file: read_header(checkpoint.path(file)) for file in files}
    for name, file in where.items():
        if name not in headers[file]:
            raise ValueError(f"{place}: '{name:.80}' is listed in {file:.80}, but is not there")
    return {name: headers[file][name] for name, file in where.items()}


def read_header(path: Path) -> dict[str, TensorInfo]:
    """The tensors that a safetensors file declares; no tensor is read.

    safetensors itself refuses shapes whose product overflows, offsets that overlap or leave a gap, and a file size that
    differs from the header's. It accepts headers of 100 MB and repeats long names in messages, so zoo adds limits for
    these.

    Raises:
        ValueError: it is not safetensors, is damaged, or exceeds zoo's limits.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if MOST_HEADER < length < path.stat().st_size:  # safetensors refuses a length beyond the file
        raise ValueError(f"{path}: has a header of {length} bytes; allowed: at most {MOST_HEADER}")
    try:
        with safe_open(path, "pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}
            return {name: read_entry(path, name, part.get_dtype(), part.get_shape()) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: is not safetensors, or damaged ({error!s:.200})") from None


def read_entry(path: Path, name: str, dtype: str, shape: list[int]) -> TensorInfo:
    """One tensor of a header.

    Raises:
        ValueError: its name is too long, or it has too many axes.
    """
    if len(name) > MOST_NAME:
        raise ValueError(f"{path}: a tensor's name has {len(name)} characters; allowed: at most {MOST_NAME}")
    if len(shape) > MOST_AXES:
        raise ValueError(f"{path}: '{name}' has {len(shape)} axes; allowed: at most {MOST_AXES}")
    return TensorInfo(path, name, dtype, tuple(shape))


def load_tensor(stored: TensorInfo) -> Tensor:
    """Read one tensor as float32.

    Raises:
        ValueError: its dtype is not in `DTYPES`, or it cannot be read.
    """
    if stored.dtype not in DTYPES:
        raise ValueError(f"{stored.path}: '{stored.name}' is {stored.dtype}; allowed: {', '.join(DTYPES)}")
    try:
        with safe_open(stored.path, "pt") as opened:
            tensor: Tensor = opened.get_tensor(stored.name).float()
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{stored.path}: is damaged ({error!s:.200})") from None
    return tensor
