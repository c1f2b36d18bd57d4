"""A task's tokenizer: trained once on a sample of its text and kept; files that are added later do not change it."""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from zoo.data.atomic_folders import WAIT, lock_creation, make_folder, warn_damaged
from zoo.data.home import explain_write_error, home
from zoo.data.sealed import read_sealed, write_sealed
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.sample import SAMPLE, sample_texts
from zoo.data.tokenizers.recipes.recipe import TokenizerRecipe, tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.registry import Choice, check
from zoo.wording import counted

VERSION = 3  # increase it when the same texts give another tokenizer
FOLDER = "tokenizers"
SOURCE = "source.json"
SAMPLE_KEY = "sample"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingText:
    """How a task's tokenizer is trained.

    Args:
        choice: the kind of tokenizer and its options.
        sample: the maximum number of characters to train on.
    """

    choice: Choice[TokenizerRecipe]
    sample: int

    @classmethod
    def parse(cls, tree: Mapping[str, Any], place: str) -> "TrainingText":
        """Parse the `tokenizer` settings of a task.

        Raises:
            ValueError: an unknown name or option, a wrong type, or a sample without characters.
        """
        sample = check(tree.get(SAMPLE_KEY, SAMPLE), int, f"{place}.{SAMPLE_KEY}")
        if sample < 1:
            raise ValueError(f"{place}.{SAMPLE_KEY}: must be at least 1 character, got {sample}")
        return cls(tokenizers.parse(tree, place, beside=(SAMPLE_KEY,)), int(sample))

    def train(self, rows: SplitRows) -> Tokenizer:
        """Train the tokenizer on the texts of a split.

        Raises:
            ValueError: there is no text.
        """
        sample = sample_texts(rows, self.sample)
        if not any(text.strip() for text in sample.texts):
            why = "each of its rows is empty, or left out by source.filter"
            if sample.seen:
                room = counted(self.sample, "character")
                why = f"no row fits into {SAMPLE_KEY}, which is {room} of {sample.seen:,}"
            raise ValueError(f"{rows.place}: no text to train a tokenizer on: {why}")
        tokenizer = Tokenizer.train(self.choice, sample.texts)
        on = "the task's text"
        if sample.characters < sample.seen:
            on = f"{sample.characters:,} of {sample.seen:,} characters of the task's text, chosen by hash"
        logger.info("tokenizer: %s with %d tokens, trained on %s", self.choice.name, tokenizer.vocab_size, on)
        return tokenizer


def stored_tokenizer(how: TrainingText, rows: SplitRows, retrain: bool = False) -> Tokenizer:
    """The stored tokenizer of a split's source; if there is none, one process trains it now.

    It is kept as long as the source still has a part that it was trained on: another corpus gets another tokenizer.

    Args:
        retrain: train it even if it exists.
    """
    key = [VERSION, how.choice.name, how.choice.options, how.sample, rows.cache_name]
    name = sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:32]
    folder = home() / FOLDER / name
    now = [sha256(part.digest.encode()).hexdigest() for part in rows.parts]

    def make(aside: Path) -> None:
        files = how.train(rows).files()
        for file, content in files.items():
            with explain_write_error(aside / file):
                (aside / file).write_bytes(content)
        write_sealed(aside / SOURCE, [now, checksums(files)])

    while True:
        if not retrain and (found := read_stored(folder, now)) is not None:
            return found  # without taking the lock: a complete store may be on a read-only disk
        with lock_creation(folder) as mine:
            if mine and (retrain or read_stored(folder, now) is None):
                # the old tokenizer stays until the new one is complete: training may fail or be interrupted
                make_folder(folder, make, lambda place: not retrain and read_stored(place, now) is not None)
                return read_files(folder, None)
        time.sleep(WAIT)


def read_stored(folder: Path, now: list[str]) -> Tokenizer | None:
    """Read a stored tokenizer; None if there is none, it is damaged, or it was trained on another corpus.

    Args:
        now: per part of the source, a hash of its digest.

    Raises:
        RuntimeError: it may not be read, as one of another user; training it again could give other ids.
    """
    try:
        parts, written = read_sealed(folder / SOURCE)
        before, tokenizer = set(parts), read_files(folder, written)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        said = f"{error.filename or folder}: cannot be read: {error.strerror}"
        raise RuntimeError(f"{said}; make it readable, or set ZOO_CACHE to a folder of your own") from None
    except (OSError, ValueError, TypeError) as damage:
        warn_damaged(f"the tokenizer in {folder}", str(damage), "retrained")
        return None
    new, gone = sum(digest not in before for digest in now), len(before.difference(now))
    if new == len(now):
        return None
    if not (new or gone):
        logger.info("tokenizer: %d tokens, trained before on the task's text", tokenizer.vocab_size)
    else:
        said = "tokenizer: %d tokens, trained before; since then, %d of the source's %d parts were added "
        said += "and %d removed; zoo tokenize --retrain trains it again"
        logger.info(said, tokenizer.vocab_size, new, len(now), gone)
    return tokenizer


def fault_of(folder: Path) -> str | None:
    """What is wrong with a stored tokenizer; None if it is intact."""
    try:
        _, written = read_sealed(folder / SOURCE)
        read_files(folder, written)
    except FileNotFoundError as missing:
        return f"{Path(missing.filename).name}: no such file"
    except (OSError, ValueError, TypeError) as damage:
        return str(damage)
    return None


def read_files(folder: Path, written: Mapping[str, str] | None) -> Tokenizer:
    """Read the tokenizer whose files are in a folder.

    Args:
        written: the expected checksums, by file name; None if the files were just written.

    Raises:
        ValueError: a checksum does not match, or a file is missing.
    """
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != SOURCE}
    if written is not None and written != checksums(files):
        raise ValueError("the checksum of its files does not match")
    return Tokenizer.from_files(files, str(folder))


def checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each file, by name."""
    return {name: sha256(content).hexdigest() for name, content in sorted(files.items())}
