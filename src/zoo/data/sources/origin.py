"""Where a task's rows come from: files, a repository, or rows that zoo makes itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from zoo.data.sources.part import SourcePart

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)


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

    def called(self, split: str) -> str:
        """What it is called, whatever it holds now."""
        return f"{type(self).__name__} {self.place(split)}"
