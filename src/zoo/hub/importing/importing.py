"""A Hugging Face folder as a run: its target's declaration read backwards."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.ids import MESSAGES, NO_ROLES
from zoo.data.task import read_task
from zoo.data.tokenizers.tokenizer import ROLES_FILE, Tokenizer
from zoo.disk import remove
from zoo.examples.form import ModelTraits
from zoo.hub.exporting.config_files import IMPOSSIBLE, STRIDE
from zoo.hub.exporting.hashes import untrained_heads
from zoo.hub.exporting.tokenizer_files import DEFAULT_CHAT, chat_template, to_json
from zoo.hub.importing import weights
from zoo.hub.importing.config import ConfigReader, LabelNames, build_settings, read_family, read_flat, read_labels
from zoo.hub.importing.generation import read_generation
from zoo.hub.importing.other_texts import texts_otherwise
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.sources.folder import OPTIONS, CheckpointFolder
from zoo.hub.sources.headers import find_tensors, refuse_adapter
from zoo.hub.targets.declare.renaming import Tensors
from zoo.hub.targets.declare.target import Target
from zoo.inference.loaded import check_vocabulary, stream_of
from zoo.models.cost import on_meta, parameters
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, dump_settings
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.runs.environment import versions
from zoo.runs.layout import LOCK
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
        fresh: parts that the folder lacks, newly initialised.
        untrained: heads that were newly initialised when the folder was exported, and have not been trained.
        dropped: its tensors that the model has no place for.
        no_tokenizer: why there is no tokenizer; empty where there is one, or nothing to read with it.
        templates: how its tokenizer writes texts, where texts of such a model are read in another way here.
        switches: what transformers makes of a text by tokenizer_config.json, and not by tokenizer.json.
        idle: keys of the folder that act on what is generated, and that zoo has no setting for.
        ignored: keys that ask for code of the folder to be run.
    """

    run: Path
    target: str
    class_name: str
    parameters: int
    fresh: tuple[str, ...]
    untrained: tuple[str, ...]
    dropped: tuple[str, ...]
    no_tokenizer: tuple[str, ...]
    templates: tuple[str, ...]
    switches: tuple[str, ...]
    idle: tuple[str, ...]
    ignored: tuple[str, ...]

    def remarks(self) -> list[str]:
        """What a user should know before using it."""
        found = {
            "newly initialised (missing from the checkpoint)": self.fresh,
            "newly initialised, never trained before the export": self.untrained,
            f"left out, since {self.class_name} has no such tensor": self.dropped,
            "no tokenizer, so the model reads token ids only": self.no_tokenizer,
            "its tokenizer adds special tokens in another way than zoo": self.templates,
            "zoo follows tokenizer.json; transformers follows tokenizer_config.json and gives": self.switches,
            "generation settings that zoo lacks": self.idle,
            "ignored, since zoo runs no code of a checkpoint": self.ignored,
        }
        return [f"{what}: {', '.join(names)}" for what, names in found.items() if names]

    def lines(self) -> list[str]:
        """The report as a terminal shows it."""
        return [f"{self.run}: {self.class_name} ({self.target}), {self.parameters:,} parameters", *self.remarks()]


def recognise(
    foreign: CheckpointFolder, config: ConfigReader
) -> tuple[Target, weights.Stored, list[str], LabelNames, ModelSettings]:
    """Which model a folder holds; only the headers of its tensors are read.

    The target has the folder's class alone. The names are those of tensors that no class of the target has.

    Raises:
        ValueError: none that zoo can express.
    """
    place = str(foreign.folder)
    target, settings = read_family(foreign, config)
    stored, strange = weights.name_tensors(find_tensors(foreign), target, place)
    target = target.narrowed(weights.choose_class(target, foreign.class_name, stored))
    labels = read_labels(config, target.classes[0])
    settings = settings or settle(config, target, stored, labels.count, place)
    return target, stored, strange, labels, settings


def import_folder(source: Path, folder: Path) -> ImportReport:
    """Write a Hugging Face folder as a new run, which stands before its first step.

    Args:
        source: the folder; nothing outside of it is read, nothing in it is run.
        folder: of the run, new or empty.

    Raises:
        ValueError: the folder is none, is damaged, or holds a model that zoo cannot express; nothing is written.
        RuntimeError: the run cannot be written.
    """
    check_folder(folder, resume=False, resumable=False)
    foreign, place = CheckpointFolder(source), str(source)
    refuse_adapter(foreign)
    config = ConfigReader(foreign)
    target, stored, strange, labels, settings = recognise(foreign, config)
    chosen = target.classes[0]
    tokenizer = read_tokenizer(foreign, config.tree, target, chosen)
    size = settings.vocab_size
    check_vocabulary(tokenizer, size, place)
    roles = tokenizer.roles if isinstance(tokenizer, Tokenizer) else NO_ROLES
    generate, special, idle = read_generation(foreign, config.tree, target, chosen.generates, size, roles)
    tensors, missing, extra = weights.read_tensors(stored, settings, target, place)
    model = on_meta(settings)
    stream = stream_of(model)
    files = RunFiles(
        dump_settings(settings),
        task_of(settings, stream, labels.plain(), generate, chats_as_ours(tokenizer), about_answers(config)),
        tokenizer=tokenizer_files(tokenizer, special) if stream.has_text else {},
        environment={"command": ["zoo", "import", source.name], "versions": versions()},
    )
    read_task(files.task, config.place)  # what a run cannot be read with is refused before it is written
    tensors = completed(settings, tensors) if missing else tensors
    random = [name for name in untrained_heads(foreign) if name in model.heads]
    untrained = sorted({*missing_heads(model, missing), *random})
    with whole_or_nothing(folder), create_run(folder, files) as run:
        run.save(0, {"weights": tensors}, {"step": 0, "untrained": untrained})
    return ImportReport(
        folder,
        target.name,
        chosen.name,
        parameters(model),
        tuple(dict.fromkeys(map(part_of, missing))),
        tuple(random),
        modules_of(strange + extra),
        (tokenizer,) if isinstance(tokenizer, str) and stream.has_text else (),
        *texts_otherwise(foreign, tokenizer, stream.segments, target),
        idle,
        code_asked_for(config.tree, foreign.read_json(OPTIONS)),
    )


@contextmanager
def whole_or_nothing(folder: Path) -> Iterator[None]:
    """Leave nothing in a new or empty folder that could not be filled.

    Raises:
        RuntimeError: it could not.
    """
    existed = folder.is_dir()
    try:
        yield
    except ValueError:  # it was refused, and may be another process's
        raise
    except BaseException as error:
        with suppress(OSError):  # what went wrong before says more
            if (folder / LOCK).read_text().strip() == str(os.getpid()):  # else another process's run is there
                clear(folder, existed)
        if isinstance(error, OSError):
            raise RuntimeError(f"{folder}: cannot be written: {error.strerror}; nothing of it is left") from error
        raise


def clear(folder: Path, keep: bool) -> None:
    """Delete what a folder holds; the folder itself, which may be a mount point or a link, unless it is kept."""
    for path in folder.iterdir():
        remove(path)
    if not keep:
        folder.rmdir()


def tokenizer_files(tokenizer: Tokenizer | str, special: Mapping[str, int]) -> dict[str, bytes]:
    """A tokenizer as a run keeps it; without one, a run keeps the ids of its special tokens."""
    return tokenizer.files() if isinstance(tokenizer, Tokenizer) else {ROLES_FILE: to_json(special)}


def modules_of(tensors: Sequence[str]) -> tuple[str, ...]:
    """The modules of theirs, two names deep, that have these tensors."""
    return tuple(dict.fromkeys(".".join(name.split(".")[:-1][:2]) or name for name in sorted(tensors)))


def code_asked_for(*trees: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys by which their files ask for code of their own to be run."""
    return tuple(key for key in CODE if any(key in tree for tree in trees))


def settle(config: ConfigReader, target: Target, stored: weights.Stored, labels: int, place: str) -> ModelSettings:
    """The model's settings: what config.json says, then what the tensors show."""
    flat, elements = read_flat(config, target), [tensor.elements for tensor in stored.values()]
    weights.settle_copies(stored, flat, target, place)
    weights.settle_presence(stored, flat, target)
    if labels:
        choosing = [name for name in target.classes[0].heads if "labels" in heads.options(name)]
        flat |= {f"heads.{name}.labels": (labels,) for name in choosing}
    return build_settings(flat, target, elements, config.place)


def chats_as_ours(tokenizer: Tokenizer | str) -> bool:
    """Whether the tokenizer writes conversations as zoo does, so that the model was trained on such ones."""
    if isinstance(tokenizer, str) or not {"start", "separator", "end"} <= set(tokenizer.role_tokens):
        return False
    return tokenizer.chat_templates == {DEFAULT_CHAT: chat_template(tokenizer)}


def task_of(
    settings: ModelSettings,
    stream: ModelTraits,
    labels: Any,
    generate: dict[str, Any],
    chats: bool,
    answers: Mapping[str, Any],
) -> dict[str, Any]:
    """What the model is for: an objective for each of its heads, and no data.

    Args:
        chats: whether it answers turns of a conversation. answers: how it answers questions, as options of `span`.
    """
    members: dict[str, Any] = {objective_of(head.name, stream): {} for head in settings.heads}
    known = {"columns": {MESSAGES: MESSAGES} if chats else {}, "labels": labels, "generate": generate}
    if "span" in members:
        members["span"] = dict(answers)
        known["length"] = settings.max_length  # contexts are read in windows of this size
    return {"objective": members, "source": {}, **{key: value for key, value in known.items() if value}}


def about_answers(config: ConfigReader) -> dict[str, Any]:
    """How questions are answered, as far as a file says it: options of the objective `span`."""
    stride = config.find(STRIDE)
    options = {"no_answer": True} if config.find(IMPOSSIBLE) is True else {}
    return {**options, "stride": stride} if type(stride) is int and stride > 0 else options


def objective_of(head: str, stream: ModelTraits) -> str:
    """The first objective that is assumed to have trained a head of such a model."""
    for name in objectives.names():
        known = objectives[name]
        if known.head == head and known.assumed and not Mixture({name: known()}).obstacle(stream):
            return name
    raise AssertionError(f"no objective trains the head '{head}'")


def missing_heads(model: Model, missing: list[str]) -> list[str]:
    """The heads that are newly initialised, or read a pooler that is."""
    parts = set(map(part_of, missing))
    return [
        name
        for name, head in model.heads.items()
        if f"heads.{name}" in parts or ("pooler" in parts and model.pools(head))
    ]


def completed(settings: ModelSettings, tensors: Tensors) -> Tensors:
    """The tensors of a model, those that are lacking as they are where training begins."""
    model = Model.drawn(settings, FRESH_SEED)
    load_matching(model, tensors)
    return unique_tensors(model)
