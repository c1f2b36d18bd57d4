"""Export a model: write, check and finish a folder that plain transformers loads."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.disk import NO_LOCKS, expand_user, sync
from zoo.hub.exporting.card.card import CARD, card_files
from zoo.hub.exporting.child import Reload, reload_in_child
from zoo.hub.exporting.config_files import config_file, generation_file
from zoo.hub.exporting.hashes import hash_files
from zoo.hub.exporting.tokenizer_files import to_json, tokenizer_files
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.exporting.verify import Check, verify
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.sources.folder import CONFIG, GENERATION, HASHES, PREPROCESSOR
from zoo.hub.sources.headers import WEIGHTS_FILE
from zoo.hub.targets.choose import choose_target
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.inference.loaded import check_vocabulary
from zoo.runs.files import TEMPORARY_PREFIX, names_in, remove_leftovers, write_file
from zoo.runs.layout import LOCK
from zoo.runs.lock import is_lock, take_lock
from zoo.runs.tensors import write_tensors
from zoo.wording import first_few

logger = logging.getLogger(__name__)
PARTIAL = f"{TEMPORARY_PREFIX}export"


@dataclass(frozen=True)
class ExportReport:
    """What was exported.

    Args:
        folder: the finished folder.
        target: name of the target. class_name: the transformers class, loaded by the Auto class `auto`.
        files: names of its files.
        check: what was compared, and the largest differences.
        left_out: heads that the class lacks.
    """

    folder: Path
    target: str
    class_name: str
    auto: str
    files: tuple[str, ...]
    check: Check
    left_out: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report as a terminal shows it."""
        return [
            f"{self.folder}: {self.class_name} ({', '.join(self.files)})",
            *self.check.lines(),
            *(f"left out, since {self.class_name} has no such head: {head}" for head in self.left_out),
        ]


def export_model(
    trained: TrainedModel, folder: Path, target_name: str | None = None, reload: Reload = reload_in_child
) -> ExportReport:
    """Write a model into a new or empty folder, as the named target or the first native one that fits.

    Args:
        reload: loads the folder with transformers and returns its report and logits.

    Raises:
        ValueError: an unknown target, a model that does not fit it, or a folder that is not empty, cannot be written,
            or is in use by another process.
        RuntimeError: transformers computes something else than zoo's model, or logits are not finite; nothing is left
            behind.
    """
    target = choose_target(trained.settings, target_name)
    native = target.native_class(trained.settings)
    assert native is not None
    native = trained.with_special_tokens(native)
    left_out = [head.name for head in trained.settings.heads if head.name not in native.heads]
    check_vocabulary(trained.tokenizer, trained.vocab_size, trained.history.name)
    random = trained.untrained_heads(native)
    if random:
        logger.warning(
            "newly initialized and never trained, so the answers are random: heads.%s", ", heads.".join(random)
        )
    folder = expand_user(folder)
    check_folder(folder)
    try:
        with lock_folder(folder), partial_folder(folder) as aside:
            write_files(aside, trained, target, native)
            check = verify(aside, trained, target, native, reload)
            write_all(aside, card_files(trained, target, native, check, left_out))
            write_all(aside, {HASHES: hash_files(aside, edited=CARD, untrained=random)})
            files = tuple(sorted(path.name for path in aside.iterdir()))
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"export to {target.name}: {error}. Nothing was written to {folder}") from error
    return ExportReport(folder, target.name, native.name, native.auto, files, check, tuple(left_out))


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a lock.

    Raises:
        ValueError: it is not empty.
    """
    if there := [name for name in names_in(folder) if name != LOCK or not is_lock(folder / name)]:
        raise ValueError(f"{folder}: is not empty ({first_few(there)}); choose a new or empty folder")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a new or empty folder against other exports and runs; a new folder that stays empty is removed.

    Raises:
        ValueError: another process holds the lock or has filled the folder, or the folder cannot be written.
    """
    made, lock = not folder.exists(), None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            if made:
                with suppress(OSError):  # it does not exist, or another process has filled it
                    folder.rmdir()
            raise ValueError(f"{folder}: cannot be written: {error.strerror}") from None
        logger.warning("%s: its file system has no locks, so other commands could write there, too", folder)
    try:
        check_folder(folder)  # again: another process may have filled it since
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        if lock is not None:
            lock.close()
        if made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """A folder for incomplete files: they move up into `folder` at the end; if anything fails, `folder` is as before.

    It lies inside `folder`, not beside it: `folder` may be a mount point, which a rename cannot replace, or the shell's
    working directory.

    Raises:
        ValueError: the folder cannot be written.
    """
    partial = folder / PARTIAL
    try:
        remove_leftovers(folder)
        partial.mkdir()
    except OSError as error:
        raise ValueError(f"{folder}: cannot be written: {error.strerror}") from None
    moved: list[Path] = []
    try:
        yield partial
        for path in sorted(partial.iterdir(), key=lambda path: path.name == CONFIG):  # last, as it makes it a model
            moved.append(path.rename(folder / path.name))
        partial.rmdir()
        sync(folder)
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_files(folder: Path, trained: TrainedModel, target: Target, native: NativeClass) -> None:
    """Write every file that transformers reads; the card follows later."""
    contents = {CONFIG: to_json(config_file(trained, target, native))}
    if native.generates:
        contents[GENERATION] = to_json(generation_file(trained, target))
    if target.image_processor:
        contents[PREPROCESSOR] = to_json(target.image_processor)
    if trained.tokenizer is not None:
        longest: int = flatten(trained.settings)[target.longest][0]
        chats = trained.chat_templates(native)
        contents |= tokenizer_files(trained.tokenizer, trained.segments, native, longest, chats)
    write_all(folder, contents)
    write_tensors(folder / WEIGHTS_FILE, native_tensors(trained, target, native), {"format": "pt"})


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, given as name -> content."""
    for name, content in contents.items():
        write_file(folder / name, content)
