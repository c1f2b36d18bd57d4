"""Tokenization of a task's texts, once and shard by shard, into folders that later runs memory-map."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.data.atomic_folders import lock_creation, make_folder, remove_all_leftovers, warn_damaged
from zoo.data.home import home, name_for
from zoo.data.ids import StoredFields
from zoo.data.sources.checking import AssignedRow
from zoo.data.sources.filtering import LEFT_OUT
from zoo.data.sources.origin import TRAIN
from zoo.data.sources.part import SourcePart
from zoo.data.sources.rows import SplitRows
from zoo.data.store.sentences import rule
from zoo.data.store.shard import Shard, write_index
from zoo.data.store.split import Split
from zoo.data.store.uneven import refuse_uneven_shards
from zoo.data.store.writing import SMALL, SplitWriter
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.disk import sync

VERSION = 14  # increase it when the same rows and tokenizer give another shard
SHARDS = "shards"
WAIT = 0.2  # seconds between two checks for shards that other processes create
OFTEN = 250  # rows between two progress calls
MEBIBYTE = 1 << 20
Progress = Callable[[str, int, int], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoreRecipe:
    """What determines the content of shards, beside their source.

    Args:
        stored: the fields that the form of the examples stores of each document.
        tokenizer: None if none of them is text.
    """

    stored: StoredFields
    tokenizer: Tokenizer | None

    def key(self) -> list[object]:
        """The recipe as plain values: part of the name of a shard."""
        of_tokenizer = [] if self.tokenizer is None else [self.tokenizer.digest, self.tokenizer.vocab_size <= SMALL]
        of_sentences = [rule(self.stored.language)] if self.stored.sentences else []
        return [VERSION, self.stored.shard_key, *of_sentences, *of_tokenizer]


@dataclass(frozen=True)
class PlannedShard:
    """A shard that a run needs: the part of a split that it is made from, how, and the folder it belongs in."""

    rows: SplitRows
    part: SourcePart
    recipe: StoreRecipe
    folder: Path

    def open(self) -> Shard | None:
        """Open the shard; None if it is missing or damaged."""
        try:
            return Shard(self.folder)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as damage:
            warn_damaged(f"the shard of {self.part.place}", str(damage), "rebuilt")
            return None

    def write(self, folder: Path, seen: Callable[[int], None]) -> None:
        """Tokenize the rows into an empty folder.

        Args:
            seen: called from time to time with the amount of the source that is done, in (approximate) bytes.
        """
        writers: dict[str, SplitWriter] = {}
        for split, stores_rows in self.rows.stored_splits.items():
            (folder / split).mkdir()
            writers[split] = SplitWriter(
                folder / split, split, self.recipe.stored, self.recipe.tokenizer, stores_rows, self.rows.label_reader
            )
        characters = 0
        rows = self.rows.reader.rows(self.rows.source, self.part, self.rows.holdout_threshold)
        for number, assigned in enumerate(rows, 1):
            if assigned.split == LEFT_OUT:
                writers[TRAIN].left_out += 1
                continue
            self.refuse_unread(assigned)
            characters += writers[assigned.split].add(assigned)
            if number % OFTEN == 0:
                seen(min(characters, self.part.size))
        files: dict[str, dict[str, object]] = {}
        for split, writer in writers.items():
            writer.flush()
            files |= {f"{split}/{name}": known for name, known in writer.arrays.sync().items()}
            sync(folder / split)
        splits = {split: writer.index() for split, writer in writers.items()}
        write_index(folder, splits, files, self.part.place, self.folder.name)

    def refuse_unread(self, assigned: AssignedRow) -> None:
        """Raise a ValueError if a list holds several texts of which only the first would be read.

        Rows that are held out of train may: train reads the other texts of such lists, and a sample is a sample.
        """
        stored = self.recipe.stored
        if assigned.split != self.rows.source:
            return
        for name in stored.names:
            texts = assigned.row.get(name)
            read = name in (*stored.lists, *stored.words, *stored.references)
            if not read and isinstance(texts, list) and len(texts) > 1:
                said = f"'{name}' holds {len(texts)} texts, of which {assigned.split} would read only the first"
                raise ValueError(f"{self.part.line(assigned.number)}: {said}; give each of them a row")


def open_store(
    rows: Mapping[str, SplitRows], stored: StoredFields, tokenizer: Tokenizer | None, progress: Progress | None = None
) -> dict[str, Split]:
    """Open each split in the token store; missing shards are created.

    Args:
        stored: the fields that the form of the examples stores of each document.
        tokenizer: None if none of them is text.
        progress: called with the split and source, the MiB of its source that are done, and their total.

    Raises:
        ValueError: a column is missing, no document has any text, or a list has different numbers of entries in
            different rows.
    """
    recipe = StoreRecipe(stored, tokenizer)
    opened: dict[str, dict[str, list[Shard]]] = {name: {} for name in rows}
    for name, split in rows.items():
        for source, one in split.sources.items():
            opened[name][source] = fill_shards(f"{name} {source}".strip(), plan_shards(one, recipe), progress)
    splits = {name: open_split(rows[name], shards) for name, shards in opened.items()}
    refuse_uneven_shards([one for split in splits.values() for one in split.shard_sources], stored)
    return splits


def plan_shards(rows: SplitRows, recipe: StoreRecipe) -> list[PlannedShard]:
    """Plan one shard per part of a split's source; a validation split held out of train lies in the shards of train."""
    reader, source = rows.reader, rows.source
    known = recipe.key()
    held_out = []
    if len(rows.stored_splits) > 1:
        held_out = [rows.holdout_threshold, reader.validation_share, len(rows.parts) == 1]
    found = []
    for part in rows.parts:
        filtered = reader.filtering.key(source, part)
        read = [part.digest, reader.choose(source, part), rows.inputs, rows.stored_splits, reader.kind, *filtered]
        name = name_for([*known, *read, held_out, *reader.held_out_by(source, part)])
        found.append(PlannedShard(rows, part, recipe, home() / SHARDS / name))
    return found


def fill_shards(name: str, planned: Sequence[PlannedShard], progress: Progress | None) -> list[Shard]:
    """Open the shards of a split; create the missing ones that no other process is creating.

    Any number of processes may do this at the same time: each shard is created by one of them, the others wait for it.
    """
    found = {shard.folder: opened for shard in planned if (opened := shard.open()) is not None}
    # parts with equal content share a shard
    missing = list({shard.folder: shard for shard in planned if shard.folder not in found}.values())
    total, done = sum(shard.part.size for shard in missing), 0
    if missing:
        remove_all_leftovers(home() / SHARDS)

    def seen(share: int) -> None:
        if progress is not None:
            progress(name, (done + share) // MEBIBYTE, total // MEBIBYTE + 1)

    while missing:
        waiting = []
        for shard in missing:
            opened = make_shard(shard, seen)
            if opened is None:
                waiting.append(shard)
                continue
            found[shard.folder] = opened
            done += shard.part.size
        if len(waiting) == len(missing):  # other processes are creating all of them
            time.sleep(WAIT)
        missing = waiting
    if total and progress is not None:
        progress(name, total // MEBIBYTE + 1, total // MEBIBYTE + 1)
    return [found[shard.folder] for shard in planned]


def make_shard(shard: PlannedShard, seen: Callable[[int], None]) -> Shard | None:
    """Create a shard, unless it exists by now; None if another process is creating it."""
    with lock_creation(shard.folder) as mine:
        if mine and (opened := shard.open()) is not None:
            return opened
        if mine:
            make_folder(shard.folder, lambda aside: shard.write(aside, seen), lambda place: shard.open() is not None)
            return Shard(shard.folder)
    return None


def open_split(rows: SplitRows, shards: Mapping[str, Sequence[Shard]]) -> Split:
    """A split, from the shards of its sources; what was skipped is logged.

    Raises:
        ValueError: it has no document.
    """
    split = rows.split
    for source, found in shards.items():
        name, one = f"{split} {source}".strip(), rows.sources[source]
        total, documents = (sum(shard.splits[split][what] for shard in found) for what in ("rows", "documents"))
        if total == 0:
            touched = one.reader.filtering.touches(split)
            said = "source.filter leaves out all of its rows" if touched else "it has no rows"
            raise ValueError(f"{one.place}: {said}")
        if documents == 0:
            raise ValueError(f"{name}: no usable rows: each of {total:,} is empty")
        if "labels" in found[0].arrays(split) and not one.label_reader.coded:
            ends = [number for shard in found for number in shard.splits[split]["labels"]]
            one.label_reader((), (), names_given=False).report(ends, name, train=split == TRAIN)
        if left_out := sum(shard.left_out(split) for shard in found):
            every = f"{total + left_out:,}"
            logger.info("%s: source.filter leaves out %s of %s rows", name, f"{left_out:,}", every)
        if skipped := total - documents:
            logger.warning("%s: skipped %s of %s rows: they are empty", name, f"{skipped:,}", f"{total:,}")
    return Split(rows, shards)
