"""Where a task's rows come from: files, a repository, or rows that zoo makes itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from zoo.data.sources.part import SourcePart

SPLITS = ("train", "validation", "test")


class Origin(ABC):
    """The splits of a source, each in parts that are read one by one."""

    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The splits it has, some of `SPLITS`."""

    @abstractmethod
    def parts(self, split: str) -> Sequence[SourcePart]:
        """The parts of a split, at least one, in the order of their rows."""

    @abstractmethod
    def place(self, split: str) -> str:
        """Where a split stands, for messages."""

    def where(self, split: str, row: int, entry: int | None = None) -> str:
        """Where a row of a split stands, counted from 0, and perhaps an entry of a list in it, for messages."""
        return f"{self.place(split)}: row {row + 1}" + ("" if entry is None else f", entry {entry + 1}")

    def called(self, split: str) -> str:
        """What it is called, whatever it holds now."""
        return f"{type(self).__name__} {self.place(split)}"
