"""The arguments of a side: sizes, folders, device."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from zoo.devices.precision import has_bfloat16


@dataclass(frozen=True)
class SideArgs:
    """The arguments that all sides of a row get.

    Args:
        sizes: the row's sizes by name.
        cache: folder of what is made once and kept: tokenizers, runs with random weights, their exports.
        data: folder of the tasks' files.
        scratch: temporary folder for this comparison.
        steps_per_turn: steps, or other units of work, per turn.
        compiled: whether zoo's and the peers' models are compiled for training.
    """

    sizes: dict[str, Any]
    cache: Path
    data: Path
    scratch: Path
    device: str = "cpu"
    steps_per_turn: int = 1
    compiled: bool = False

    @staticmethod
    def from_json(text: str) -> "SideArgs":
        tree = json.loads(text)
        return SideArgs(**{**tree, **{key: Path(tree[key]) for key in ("cache", "data", "scratch")}})

    @property
    def precision(self) -> str:
        """The precision of all sides, zoo's `auto`: bfloat16 if the device has it in hardware, else float32."""
        return "bfloat16" if has_bfloat16(torch.device(self.device)) else "float32"

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    def make_once(self, name: str, make: Callable[[Path], object], *inputs: object) -> Path:
        """Return a folder or file in `cache`, made if it is missing or was made from other inputs.

        Args:
            make: writes it at a path; it is moved into `cache` only when complete.
            inputs: what it is made from, where the name does not say it, such as a row's sizes; recorded beside it.
        """
        path, record, text = self.cache / name, self.cache / f"{name}.of.json", json.dumps(inputs, default=str)
        if not path.exists() or (inputs and not (record.exists() and record.read_text("utf-8") == text)):
            partial = self.scratch / f"partial-{name}"
            make(partial)
            if path.exists():
                path.rename(self.scratch / f"former-{name}")  # deleted with the folder
            partial.rename(path)
            if inputs:
                record.write_text(text, "utf-8")
        return path
