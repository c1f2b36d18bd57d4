"""A request by which another process finds a task's rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.task import read_task


@dataclass(frozen=True)
class RowsRequest:
    """What a process needs to find a task's rows, in plain values.

    Args:
        task: as `Task.plain` returns it.
        inputs, forms: the columns that forms and objectives may read, as in `load_rows`.
        data: the only folder that relative files are looked for in; None: as for any command.
    """

    task: dict[str, Any]
    inputs: Sequence[str]
    data: str | None
    forms: Sequence[Sequence[str]] = field(default=(), kw_only=True)

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a request from a JSON file."""
        return cls(**json.loads(Path(path).read_text("utf-8")))

    def rows(self) -> Mapping[str, SplitRows]:
        """The rows of the task's splits."""
        data = None if self.data is None else Path(self.data)
        return load_rows(read_task(self.task, "task"), self.inputs, data, forms=self.forms)
