"""The arguments of a side: the sizes of its row, and folders."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from zoo.devices.precision import has_bfloat16


@dataclass(frozen=True)
class Given:
    """The arguments that all sides of a row get.

    Args:
        sizes: the row's sizes by name.
        made: the folder of files that are made once and kept: tokenizers, runs with random weights, their exports.
        data: the folder of the tasks' files.
        folder: a temporary folder for this comparison.
        each: steps, or other units of work, per turn.
        compiled: whether zoo's and the peers' models are compiled for training.
    """

    sizes: dict[str, Any]
    made: Path
    data: Path
    folder: Path
    device: str = "cpu"
    each: int = 1
    compiled: bool = False

    @staticmethod
    def parse(text: str) -> "Given":
        tree = json.loads(text)
        return Given(**{**tree, **{key: Path(tree[key]) for key in ("made", "data", "folder")}})

    @property
    def precision(self) -> str:
        """The precision of all sides, zoo's `auto`: bfloat16 if the device has it in hardware, else float32."""
        return "bfloat16" if has_bfloat16(torch.device(self.device)) else "float32"

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def text(self) -> str:
        return json.dumps(asdict(self), default=str)

    def once(self, name: str, make: Callable[[Path], object], *of: object) -> Path:
        """Return a folder or file in `made`, made if it is missing or was made from something else.

        Args:
            make: writes it at a path; it is renamed into `made` only when complete.
            of: what it is made from, where the name does not say it, such as a row's sizes; recorded beside it.
        """
        path, record, text = self.made / name, self.made / f"{name}.of.json", json.dumps(of, default=str)
        if not path.exists() or (of and not (record.exists() and record.read_text("utf-8") == text)):
            partial = self.folder / f"partial-{name}"
            make(partial)
            if path.exists():
                path.rename(self.folder / f"former-{name}")  # deleted with the folder
            partial.rename(path)
            if of:
                record.write_text(text, "utf-8")
        return path
