"""zoo tokenize: the token store of a task filled ahead of a run, by as many processes and machines as there are."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo import config
from zoo.data.ids import PICTURE
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.store.store import PlannedShard, Progress, StoreRecipe, fill, plan_shards
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs
from zoo.experiments.experiment import SET
from zoo.experiments.pretrain import check_tokenizer, train_tokenizer
from zoo.experiments.request import Pair
from zoo.experiments.resolve import resolve_task
from zoo.objectives.mixture import Mixture

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Share:
    """Every `count`-th shard, from the `number`-th one on (from 1): what one of several machines fills."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """A share written as I/N.

        Raises:
            ValueError: it is anything else, or I is not from 1 to N.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ValueError(f"--part: expected I/N with I from 1 to N, such as 1/4, got '{text}'")
        return cls(int(number), int(count))


@dataclass(frozen=True)
class Filling:
    """The shards that a task's splits need, in the order of the data; two splits may lie in the same ones."""

    shards: Sequence[tuple[str, PlannedShard]]

    @property
    def distinct(self) -> list[tuple[str, PlannedShard]]:
        """Each shard once, with the first split that it is of."""
        return list({shard.folder: (split, shard) for split, shard in reversed(self.shards)}.values())[::-1]

    @property
    def missing(self) -> int:
        """How many are not there."""
        return sum(shard.open() is None for _, shard in self.distinct)

    def fill(self, share: Share, progress: Progress) -> None:
        """Make those of a share that are missing.

        Raises:
            ValueError: a source cannot be read.
        """
        mine = self.distinct[share.number - 1 :: share.count]
        for split in dict.fromkeys(split for split, _ in mine):
            fill(split, [shard for name, shard in mine if name == split], progress)

    def count(self) -> dict[str, int]:
        """How many documents each split has, as far as its shards are there."""
        found: dict[str, int] = {}
        for split, planned in self.shards:
            shard = planned.open()
            found[split] = found.get(split, 0) + (0 if shard is None else shard.documents(split))
        return found


def plan_filling(
    name: str, sets: Sequence[Pair], data: Path | None, tokenizer: Tokenizer | None, retrain: bool
) -> Filling:
    """What a task's token store needs; its tokenizer is trained first, unless it is there or given.

    Args:
        sets: changes of the task.
        tokenizer: of the checkpoint that will be fine-tuned or evaluated; None: the task's own.
        retrain: train the task's own again, though it is there.

    Raises:
        ValueError: the task is wrong, a file is missing, or the task has no tokenizer and none is given.
    """
    task, _ = resolve_task(name, config.read_layers(name, "tasks"), [(SET, pair) for pair in sets])
    mixture, rows = Mixture.parse(task.objective), load_rows(task, inputs(), data)
    form = mixture.form_class(next(iter(rows.values())).inputs)
    stored = form.keep(task.source.language)
    if stored.names == (PICTURE,):
        tokenizer = None
    elif tokenizer is None:
        tokenizer = own_tokenizer(task, rows, retrain)
    recipe = StoreRecipe(stored, tokenizer)
    parts = [(split, one) for split, part in rows.items() for one in part.sources.values()]
    return Filling([(split, shard) for split, one in parts for shard in plan_shards(one, recipe)])


def own_tokenizer(task: Task, rows: Mapping[str, SplitRows], retrain: bool) -> Tokenizer:
    """The tokenizer that pretraining on the task will have."""
    check_tokenizer(task)
    if "train" not in rows:
        raise ValueError(f"source: it has no split 'train' to train a tokenizer on; it has: {', '.join(rows)}")
    return train_tokenizer(task, rows["train"], retrain)
