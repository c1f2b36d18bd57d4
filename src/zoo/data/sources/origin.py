"""Where a task's rows come from: files, a repository, or rows that zoo makes itself."""

from abc import ABC, abstractmethod
from pathlib import Path

from datasets import Dataset

from zoo.data.sources.columns import Columns

SPLITS = ("train", "validation", "test")


class Origin(ABC):
    """The splits of a source, read one by one."""

    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The splits it has, some of `SPLITS`."""

    @abstractmethod
    def digest(self) -> str:
        """A hash of all that decides what the splits hold; cheap beside reading them."""

    @abstractmethod
    def read(self, split: str, columns: Columns) -> Dataset:
        """The rows of a split, its columns named by the objectives' inputs."""

    def folder(self, split: str) -> Path | None:
        """Where files lie that a split's rows name by a relative path; None: such files are not read."""
        return None

    @abstractmethod
    def place(self, split: str) -> str:
        """Where a split stands, for messages."""

    def where(self, split: str, row: int, entry: int | None = None) -> str:
        """Where a row of a split stands, counted from 0, and perhaps an entry of a list in it, for messages."""
        return f"{self.place(split)}: row {row + 1}" + ("" if entry is None else f", entry {entry + 1}")
