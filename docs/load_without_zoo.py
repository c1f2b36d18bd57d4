"""Load exported folders with plain transformers and compare logits: a program in which zoo cannot be imported."""

import importlib
import importlib.abc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor


class Block(importlib.abc.MetaPathFinder):
    """Refuses to find zoo, wherever it may be installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Nothing, or an error for zoo: the finders after this one are never asked."""
        if name.partition(".")[0] == "zoo":
            raise ModuleNotFoundError(f"'{name}' is blocked in this process", name=name)


def block_zoo() -> str:
    """Make zoo impossible to import, and prove it by trying.

    Raises:
        RuntimeError: zoo could be imported after all.
    """
    assert not any(name.partition(".")[0] == "zoo" for name in sys.modules), "zoo is loaded already"
    sys.meta_path.insert(0, Block())
    try:
        importlib.import_module("zoo")
    except ModuleNotFoundError as refusal:
        return str(refusal)
    raise RuntimeError("zoo can be imported here: this would prove nothing")


@torch.no_grad()
def difference(folder: str, auto: str, tensors: dict[str, Tensor]) -> float:
    """The largest difference between zoo's logits and those of the exported model.

    Args:
        auto: the Auto class of transformers.
        tensors: `input/<argument>` and `logits/<field of the output>`.
    """
    model = getattr(transformers, auto).from_pretrained(folder, local_files_only=True).eval()
    given = {name.removeprefix("input/"): tensor for name, tensor in tensors.items() if name.startswith("input/")}
    expected = {name.removeprefix("logits/"): t for name, t in tensors.items() if name.startswith("logits/")}
    output = model(**given)
    return max(float((output[name] - tensor).abs().max()) for name, tensor in expected.items())


def main(request: str) -> None:
    """Answer a file that lists `folder`, `auto` and `tensors` of each model: one JSON document on standard output."""
    refusal = block_zoo()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    models = json.loads(Path(request).read_text("utf-8"))
    found = {m["folder"]: difference(m["folder"], m["auto"], load_file(m["tensors"])) for m in models}
    print(json.dumps({"refusal": refusal, "differences": found}))


if __name__ == "__main__":
    main(sys.argv[1])
