"""Filling a token store before a run: all of it or a share, with one process or several on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zoo.data.processes import run_together
from zoo.data.sources.request import RowsRequest
from zoo.data.sources.rows import SplitRows
from zoo.data.store.split import ShardSource
from zoo.data.store.store import PlannedShard, Progress, StoreRecipe, fill_shards, plan_shards
from zoo.data.store.uneven import refuse_uneven_shards

WORKER = "zoo.data.store.worker"  # imports no torch, which cuts a process to a third of the memory


@dataclass(frozen=True)
class Share:
    """Every `count`-th shard, starting with the `number`-th (from 1): what one of several machines fills."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Parse a share written as I/N.

        Raises:
            ValueError: the text has another form, or I is not from 1 to N.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ValueError(f"--part: expected I/N with I from 1 to N, such as 1/4, got '{text}'")
        return cls(int(number), int(count))


@dataclass(frozen=True)
class FillRequest(RowsRequest):
    """What a worker process needs to plan a task's shards.

    Args:
        stored: the `StoredFields` of the form of the examples, as plain values.
        tokenizer: the contents of the tokenizer's files, by file name; empty if no text is read.
    """

    stored: Sequence[Any]
    tokenizer: dict[str, str]


@dataclass(frozen=True)
class Filling:
    """The shards that a task's splits need, in the order of the data; two splits may share shards."""

    shards: Sequence[PlannedShard]
    request: FillRequest

    @property
    def distinct(self) -> list[PlannedShard]:
        """Each shard once; a shard that several splits share is listed as planned for the first of them."""
        return list({shard.folder: shard for shard in reversed(self.shards)}.values())[::-1]

    @property
    def missing(self) -> list[PlannedShard]:
        """The shards that do not exist or are damaged."""
        return [shard for shard in self.distinct if shard.open() is None]

    def fill(self, share: Share, progress: Progress) -> None:
        """Create the missing shards of a share.

        Raises:
            ValueError: a source cannot be read, or a list has different numbers of entries in different rows.
        """
        mine = self.distinct[share.number - 1 :: share.count]
        for split in dict.fromkeys(shard.rows.split for shard in mine):
            fill_shards(split, [shard for shard in mine if shard.rows.split == split], progress)
        if self.shards and (stored := self.shards[0].recipe.stored).equal_counts:
            there = [(planned, planned.open()) for planned in self.shards]
            held = [ShardSource(shard, planned.part, planned.rows) for planned, shard in there if shard is not None]
            refuse_uneven_shards([one for one in held if one.shard.documents(one.rows.split)], stored)

    def fill_together(self, count: int) -> None:
        """Create the missing shards in `count` processes of one thread each; no shard is created by two of them.

        Errors in these processes are ignored: they occur again, with their message, when this process fills the rest.
        """
        run_together(WORKER, asdict(self.request), count)

    def count(self) -> tuple[dict[str, int], int]:
        """Count the documents per split, and the rows that the filter drops, in the shards that exist."""
        found, left_out = dict.fromkeys((planned.rows.split for planned in self.shards), 0), 0
        for planned in self.shards:
            if (shard := planned.open()) is not None:
                found[planned.rows.split] += shard.documents(planned.rows.split)
                left_out += shard.left_out(planned.rows.split)
        return found, left_out


def plan(rows: Mapping[str, SplitRows], recipe: StoreRecipe) -> list[PlannedShard]:
    """Plan the shards of all splits and all their sources."""
    parts = [one for split in rows.values() for one in split.sources.values()]
    return [shard for one in parts for shard in plan_shards(one, recipe)]
