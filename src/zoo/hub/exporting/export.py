"""Write a model as a folder that plain transformers loads, and compare the two before the folder gets its name."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zoo.hub.exporting.card.card import card_files
from zoo.hub.exporting.config_files import config_file, generation_file
from zoo.hub.exporting.exportable import Exportable
from zoo.hub.exporting.tokenizer_files import to_json, tokenizer_files
from zoo.hub.exporting.verify import Check, Reload, reload_apart, verify
from zoo.hub.targets.choose import choose_target
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.renaming import Tensors, rename, unnamed
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.kinds.part import PARTS
from zoo.runs.files import make_aside, move_into_place
from zoo.runs.tensors import unique_tensors, write_tensors

SHOWN = 5


@dataclass(frozen=True)
class ExportReport:
    """What was exported.

    Args:
        target: the native target. class_name: the class of transformers, found by the Auto class `auto`.
        files: their names.
        check: what was compared, and how far the two are apart.
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
        differences = ", ".join(f"{value:.1e} in {dtype}" for dtype, value in self.check.differences.items())
        losses = ", ".join(f"{value:.1e} in {dtype}" for dtype, value in self.check.losses.items())
        same = [f"{self.check.same} are the same"] * bool(self.check.same)
        sides = "either side" if self.check.left else "the right"
        same += [f"rows were padded on {sides}"] * bool(self.check.generated or not self.check.pictures)
        return [
            f"{self.folder}: {self.class_name} ({', '.join(self.files)})",
            f"reloaded by transformers: largest difference of logits {differences}, of the loss {losses}",
            "; ".join(same),
            *(f"left out, since {self.class_name} has no such head: {head}" for head in self.left_out),
        ]


def export_model(
    given: Exportable, folder: Path, target: str | None = None, reload: Reload = reload_apart
) -> ExportReport:
    """Write a model into a new or empty folder, as the named target or the first one that fits.

    Raises:
        ValueError: an unknown target, a choice that the target lacks, or a folder that holds something.
        RuntimeError: transformers does not give what our model gives; nothing is left behind.
    """
    settings = given.settings
    native = choose_target(settings, target)
    check_vocabulary(given)
    chosen = native.native_class(settings)
    assert chosen is not None
    folder = folder.expanduser()
    check_folder(folder)
    left_out = [head.name for head in settings.heads if head.name not in chosen.heads]
    try:
        aside = make_aside(folder.resolve())
    except OSError as error:
        raise ValueError(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        write_files(aside, given, native, chosen)
        check = verify(aside, given, native, chosen, reload)
        write_all(aside, card_files(given, native, chosen, check, left_out))
        files = tuple(sorted(path.name for path in aside.iterdir()))
        move_into_place(aside, folder.resolve())
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"export to {native.name}: {error}. Nothing was written to {folder}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return ExportReport(folder, native.name, chosen.name, chosen.auto, files, check, tuple(left_out))


def check_vocabulary(given: Exportable) -> None:
    """Refuse a tokenizer with tokens that the model has no vectors for."""
    if given.tokenizer is None:
        return
    tables = [part.embeddings for part in given.readers.values()]
    rows = min(table.tokens.num_embeddings for table in tables if table is not None)
    if given.tokenizer.vocab_size > rows:
        raise ValueError(f"the tokenizer has {given.tokenizer.vocab_size} tokens, the model vectors for {rows}")


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; an export needs a new or empty folder")
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if there:
        more = ", …" if len(there) > SHOWN else ""
        raise ValueError(f"{folder}: is not empty ({', '.join(there[:SHOWN])}{more}); choose a new or empty folder")


def write_files(folder: Path, given: Exportable, target: Target, chosen: NativeClass) -> None:
    """All files but the card."""
    contents = {"config.json": to_json(config_file(given, target, chosen))}
    if chosen.generates:
        contents["generation_config.json"] = to_json(generation_file(given, target))
    if target.pictures:
        contents["preprocessor_config.json"] = to_json(target.pictures)
    if given.tokenizer is not None:
        longest: int = flatten(given.settings)[target.longest][0]
        contents |= tokenizer_files(given.tokenizer, given.segments, chosen, longest)
    write_all(folder, contents)
    write_tensors(folder / "model.safetensors", native_tensors(given, target, chosen), {"format": "pt"})


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Files by name."""
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def native_tensors(given: Exportable, target: Target, chosen: NativeClass) -> Tensors:
    """The tensors under their names, in float32; heads and the pooler may be left out, nothing else."""
    ours = {name: tensor.detach().cpu().float() for name, tensor in unique_tensors(given.model).items()}
    table, flat = (*target.renames, *chosen.renames), flatten(given.settings)
    forgotten = [name for name in unnamed(ours, table, flat) if name.split(".")[0] in PARTS]
    assert not forgotten, f"target {target.name} names no tensor for {', '.join(forgotten[:SHOWN])}"
    tables = {name: make(flat).float() for name, make in target.tables.items()}
    return rename(ours, table, flat) | tables
