"""What a side is given: the sizes of its row, and the folders."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from zoo.devices.precision import has_bfloat16


@dataclass(frozen=True)
class Given:
    """What all sides of a row are given.

    Args:
        sizes: of the row, by name.
        made: the folder of what is made once and kept: tokenizers, runs with random weights, their exports.
        data: the folder of the tasks' files.
        folder: for this comparison alone; deleted after it.
        each: steps, or other units of work, of one turn.
        compiled: whether ours and the peers' models are compiled for training.
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
        """Of all sides: what zoo chooses by itself, bfloat16 where the device multiplies it and float32 elsewhere."""
        return "bfloat16" if has_bfloat16(torch.device(self.device)) else "float32"

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def text(self) -> str:
        return json.dumps(asdict(self), default=str)

    def once(self, name: str, make: Callable[[Path], object], *of: object) -> Path:
        """A folder or file that is made where it is missing, or was made of something else.

        Args:
            name: of the folder or file, in `made`.
            make: writes it; what it has not finished is not kept.
            of: what it is made of, as far as the name does not say it, such as a row's sizes; kept beside it.
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
