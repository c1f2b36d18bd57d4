"""A Hugging Face folder as a run: its target's declaration read backwards."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.task import read_task
from zoo.data.tokenizers.tokenizer import ROLES_FILE, Tokenizer
from zoo.examples.form import ModelTraits
from zoo.hub.exporting.tokenizer_files import to_json
from zoo.hub.importing.config import (
    CONFIG,
    ConfigReader,
    build_settings,
    check_demands,
    find_target,
    label_names,
    named_class,
    read_flat,
)
from zoo.hub.importing.generation import read_generation
from zoo.hub.importing.tokenizer import OPTIONS, read_tokenizer
from zoo.hub.importing.weights import choose_class, name_tensors, read_tensors, settle_copies, settle_presence
from zoo.hub.sources.folder import CheckpointFolder, Json
from zoo.hub.sources.headers import find_tensors
from zoo.hub.targets.declare.renaming import Tensors
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.hub.targets.shell import MODEL_TYPE, read_target
from zoo.inference.loaded import stream_of
from zoo.models.cost import Bounds, on_meta
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, dump_settings
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.runs.environment import versions
from zoo.runs.run import RunFiles, check_folder, create_run
from zoo.runs.tensors import load_matching, part_of, unique_tensors

CODE = ("auto_map", "custom_pipelines", "custom_generate")
FRESH_SEED = 0  # what is not in the folder begins with the same numbers each time


@dataclass(frozen=True)
class ImportReport:
    """What was imported.

    Args:
        run: the new run.
        target, class_name: what the folder was read as.
        fresh: parts that the folder lacks, newly initialised. dropped: its tensors that the model has no place for.
        no_tokenizer: why there is no tokenizer; empty where there is one, or nothing to read with it.
        idle: keys of the folder that act on what is generated, and that zoo has no setting for.
        ignored: keys that ask for code of the folder to be run.
    """

    run: Path
    target: str
    class_name: str
    parameters: int
    fresh: tuple[str, ...]
    dropped: tuple[str, ...]
    no_tokenizer: str
    idle: tuple[str, ...]
    ignored: tuple[str, ...]

    def remarks(self) -> list[str]:
        """What a user should know before using it."""
        said = [f"newly initialised (missing from the folder): {', '.join(self.fresh)}"] * bool(self.fresh)
        said += [f"left out, since {self.class_name} has no place for it: {', '.join(self.dropped)}"] * bool(
            self.dropped
        )
        said += [f"no tokenizer ({self.no_tokenizer}): the model reads token ids only"] * bool(self.no_tokenizer)
        said += [f"generating has no setting here for: {', '.join(self.idle)}"] * bool(self.idle)
        ignored = f"ignored: {', '.join(self.ignored)}; zoo runs no code of a checkpoint"
        return said + [ignored] * bool(self.ignored)

    def lines(self) -> list[str]:
        """The report as a terminal shows it."""
        return [f"{self.run}: {self.class_name} ({self.target}), {self.parameters:,} parameters", *self.remarks()]


def import_folder(source: Path, folder: Path) -> ImportReport:
    """Write a Hugging Face folder as a new run.

    Args:
        source: the folder; nothing outside of it is read, nothing in it is run.
        folder: of the run, new or empty.

    Raises:
        ValueError: the folder is none, is damaged, or holds a model that zoo cannot express; nothing is written.
        RuntimeError: the run cannot be written.
    """
    check_folder(folder, resume=False)
    foreign = CheckpointFolder(source)
    config, place = foreign.read_json(CONFIG), str(source / CONFIG)
    target, known = read_family(foreign, config, place)
    stored = find_tensors(foreign, named_class(config) or "AutoModel")
    found = name_tensors(stored, target, str(source))
    chosen = choose_class(target, named_class(config), found.stored)
    labels = label_names(config, target, chosen, place)
    reader = ConfigReader(config, (*target.keys, *chosen.keys), place)
    flat = read_flat(reader, target, chosen)
    settle_copies(found, flat, target, chosen, str(source))
    settle_presence(found, flat, target, chosen)
    if labels:
        flat |= {f"heads.{head}.labels": (len(labels),) for head in labelled(chosen)}
    bounds = Bounds.of(tensor.elements for tensor in stored.values())
    settings = known or build_settings(flat, target, chosen, bounds, place)
    tokenizer = read_tokenizer(foreign, config, target, chosen)
    generation = read_generation(foreign, config, target, chosen.generates, settings.vocab_size)
    read = read_tensors(found, settings, target, chosen, str(source))
    check_vocabulary(tokenizer, settings, source)
    model = on_meta(settings)
    stream = stream_of(model)
    task = task_of(settings, stream, labels, generation.settings)
    read_task(task, place)  # what a run cannot be read with is refused before it is written
    tensors = complete(settings, read.tensors) if read.missing else read.tensors
    files = tokenizer_of(tokenizer, generation.special) if stream.has_text else {}
    write_run(folder, settings, task, tensors, files, source, untrained_heads(model, read.missing))
    return ImportReport(
        folder,
        target.name,
        chosen.name,
        sum(p.numel() for p in model.parameters()),
        tuple(dict.fromkeys(part_of(name) for name in read.missing)),
        tuple(dict.fromkeys(".".join(name.split(".")[:-1][:2]) or name for name in read.dropped)),
        tokenizer if isinstance(tokenizer, str) and stream.has_text else "",
        generation.left_out,
        tuple(key for key in CODE for tree in (config, foreign.read_json(OPTIONS)) if key in tree)[:1],
    )


def read_family(foreign: CheckpointFolder, config: Json, place: str) -> tuple[Target, ModelSettings | None]:
    """The target that a config.json names, and the settings where it holds them as zoo writes them."""
    if not config:
        raise ValueError(f"{place}: no such file, or an empty one; a Hugging Face folder has one")
    own = config.get("model_type") == MODEL_TYPE
    target, known = read_target(foreign, config, place) if own else (find_target(config, place), None)
    check_demands(config, target, place)
    return target, known


def check_vocabulary(tokenizer: Tokenizer | str, settings: ModelSettings, source: Path) -> None:
    """Refuse a tokenizer with tokens that the model has no vectors for."""
    if isinstance(tokenizer, Tokenizer) and tokenizer.vocab_size > settings.vocab_size:
        sizes = f"the tokenizer has {tokenizer.vocab_size} tokens, the model {settings.vocab_size} token vectors"
        raise ValueError(f"{source}: {sizes}; they do not belong together")


def labelled(chosen: NativeClass) -> list[str]:
    """The heads of a class that choose among labels."""
    return [name for name in chosen.heads if "labels" in heads.options(name)]


def task_of(
    settings: ModelSettings, stream: ModelTraits, labels: list[str], generate: dict[str, Any]
) -> dict[str, Any]:
    """What the model is for: an objective for each of its heads, and no data."""
    named: dict[str, dict[str, Any]] = {head.name: {} for head in settings.heads}
    members = {objective_of(head, stream): options for head, options in named.items()}
    known = {"labels": labels, "generate": generate}
    return {"objective": members, "source": {}, **{key: value for key, value in known.items() if value}}


def objective_of(head: str, stream: ModelTraits) -> str:
    """The first objective that trains a head of such a model."""
    for name in objectives.names():
        mixture = Mixture({name: objectives.build(name)})
        if mixture.heads == [head] and mixture.trains(stream):
            return name
    raise AssertionError(f"no objective trains the head '{head}'")


def untrained_heads(model: Model, missing: list[str]) -> list[str]:
    """The heads that are newly initialised, or read a pooler that is."""
    parts = {part_of(name) for name in missing}
    return [
        name
        for name, head in model.heads.items()
        if f"heads.{name}" in parts or ("pooler" in parts and head.scores_documents)
    ]


def complete(settings: ModelSettings, tensors: Tensors) -> Tensors:
    """The tensors of a model, those that are lacking as they are where training begins."""
    model = Model(settings).initialize(FRESH_SEED)
    load_matching(model, tensors)
    return unique_tensors(model)


def tokenizer_of(tokenizer: Tokenizer | str, special: dict[str, int]) -> dict[str, bytes]:
    """The tokenizer's files, or the ids of special tokens where there is none."""
    return tokenizer.files() if isinstance(tokenizer, Tokenizer) else {ROLES_FILE: to_json(special)}


def write_run(
    folder: Path,
    settings: ModelSettings,
    task: dict[str, Any],
    tensors: Tensors,
    tokenizer: dict[str, bytes],
    source: Path,
    untrained: list[str],
) -> None:
    """A run that stands before its first step, and records which of its heads are newly initialised."""
    files = RunFiles(
        dump_settings(settings),
        task,
        tokenizer=tokenizer,
        environment={"command": ["zoo", "import", source.name], "versions": versions()},
    )
    with create_run(folder, files) as run:
        run.save(0, {"weights": tensors}, {"step": 0, "untrained": untrained})
