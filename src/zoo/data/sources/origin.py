"""The origin of a task's rows: files, a repository, or built-in data."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from zoo.data.sources.part import SourcePart

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)


class Origin(ABC):
    """The splits of a source, each divided into parts that can be read separately."""

    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The available splits, some of `SPLITS`."""

    @abstractmethod
    def parts(self, split: str) -> Sequence[SourcePart]:
        """The parts of a split, at least one, in the order of their rows."""

    @abstractmethod
    def place(self, split: str) -> str:
        """The location of a split, for messages."""

    def heeds(self, option: str) -> bool:
        """Whether some of its files would be read by an option of `FileFormat.heeds`; True if it has no files."""
        return True

    def cache_name(self, split: str) -> str:
        """A name for a split that does not depend on what it holds now; the store keeps the tokenizer under it."""
        return f"{type(self).__name__} {self.place(split)}"
