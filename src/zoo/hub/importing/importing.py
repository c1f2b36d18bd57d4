"""Import a Hugging Face folder as a run, by its target's declaration read backwards."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from zoo.hub.importing.config import ConfigReader, build_settings, read_family, read_flat
from zoo.hub.importing.generation import read_generation
from zoo.hub.importing.labels import LabelNames, read_labels
from zoo.hub.importing.report import ImportReport
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.importing.tokenizer_differences import tokenizer_differences
from zoo.hub.sources.folder import TOKENIZER_CONFIG, CheckpointFolder
from zoo.hub.sources.headers import find_tensors, refuse_adapter
from zoo.hub.targets.declare.renaming import Tensors
from zoo.hub.targets.declare.target import Target
from zoo.inference.loaded import check_vocabulary, model_traits
from zoo.models.cost import on_meta, parameters
from zoo.models.heads.head import has_classes
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, dump_settings
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.runs.environment import versions
from zoo.runs.layout import LOCK
from zoo.runs.run import RunFiles, check_folder, create_run
from zoo.runs.tensors import load_matching, part_of, unique_tensors

CODE_KEYS = ("auto_map", "custom_pipelines", "custom_generate")
INIT_SEED = 0  # so that missing tensors are initialized to the same values in each import


def identify_model(
    checkpoint: CheckpointFolder, config: ConfigReader
) -> tuple[Target, weights.Stored, list[str], LabelNames, ModelSettings]:
    """Identify the model in a folder, from headers of its tensors; tensors are read only to compare tied copies.

    The target is narrowed to the folder's class. The list names tensors that no class of the target has.

    Raises:
        ValueError: zoo cannot express the model.
    """
    place = str(checkpoint.folder)
    target, settings = read_family(checkpoint, config)
    stored, strange = weights.name_tensors(find_tensors(checkpoint), target, place)
    target = target.for_class(weights.choose_class(target, checkpoint.class_name, stored))
    labels = read_labels(config, target.classes[0])
    settings = settings or folder_settings(config, target, stored, labels.count, place)
    return target, stored, strange, labels, settings


def import_folder(source: Path, folder: Path) -> ImportReport:
    """Write a Hugging Face folder as a new run at step 0.

    Args:
        source: the folder; nothing outside it is read, and no code in it is run.
        folder: the folder of the run, new or empty.

    Raises:
        ValueError: the folder is not a model, is damaged, or holds a model that zoo cannot express; nothing is written.
        RuntimeError: the run cannot be written.
    """
    check_folder(folder, resume=False, resumable=False)
    checkpoint, place = CheckpointFolder(source), str(source)
    refuse_adapter(checkpoint)
    config = ConfigReader(checkpoint)
    target, stored, strange, labels, settings = identify_model(checkpoint, config)
    chosen = target.classes[0]
    tokenizer = read_tokenizer(checkpoint, config.tree, target, chosen)
    size = settings.vocab_size
    check_vocabulary(tokenizer, size, place)
    roles = tokenizer.roles if isinstance(tokenizer, Tokenizer) else NO_ROLES
    generate, special, unsupported = read_generation(checkpoint, config.tree, target, chosen.generates, size, roles)
    tensors, missing, extra = weights.read_tensors(stored, settings, target, place)
    traits = model_traits(model := on_meta(settings))
    files = RunFiles(
        dump_settings(settings),
        task_of(settings, traits, labels.plain(), generate, has_zoo_chat_template(tokenizer), span_options(config)),
        tokenizer=tokenizer_files(tokenizer, special) if traits.has_text else {},
        environment={"command": ["zoo", "import", source.name], "versions": versions()},
    )
    read_task(files.task, config.place)  # refuse a task that the run could not be read with, before writing it
    differences = tokenizer_differences(checkpoint, tokenizer, traits.segments, target)
    tensors = fill_missing(settings, tensors) if missing else tensors
    random = [name for name in untrained_heads(checkpoint) if name in model.heads]
    with empty_on_failure(folder), create_run(folder, files) as run:
        run.save(0, {"weights": tensors}, {"step": 0, "untrained": sorted({*missing_heads(model, missing), *random})})
    return ImportReport(
        folder,
        target.name,
        chosen.name,
        parameters(model),
        tuple(dict.fromkeys(map(part_of, missing))),
        tuple(random),
        modules_of(strange + extra),
        (tokenizer,) if isinstance(tokenizer, str) and traits.has_text else (),
        *differences,
        unsupported_generation=unsupported,
        raw_numbers=tuple(chosen.heads) if labels.assumed_number else (),
        ignored=code_keys(config.tree, checkpoint.read_json(TOKENIZER_CONFIG)),
    )


@contextmanager
def empty_on_failure(folder: Path) -> Iterator[None]:
    """Empty a new or empty folder again if it could not be filled.

    Raises:
        RuntimeError: it could not be filled.
    """
    existed = folder.is_dir()
    try:
        yield
    except ValueError:  # the folder was refused, and may belong to another process
        raise
    except BaseException as error:
        with suppress(OSError):  # the first error says more
            if (folder / LOCK).read_text().strip() == str(os.getpid()):  # else another process's run is there
                empty_folder(folder, existed)
        if isinstance(error, OSError):
            raise RuntimeError(f"{folder}: cannot be written: {error.strerror}; nothing of it is left") from error
        raise


def empty_folder(folder: Path, keep: bool) -> None:
    """Delete what a folder holds, and unless `keep` the folder; an existing one may be a mount point or a link."""
    for path in folder.iterdir():
        remove(path)
    if not keep:
        folder.rmdir()


def tokenizer_files(tokenizer: Tokenizer | str, special: Mapping[str, int]) -> dict[str, bytes]:
    """The tokenizer files of a run; without a tokenizer, a file with the ids of special tokens."""
    return tokenizer.files() if isinstance(tokenizer, Tokenizer) else {ROLES_FILE: to_json(special)}


def modules_of(tensors: Sequence[str]) -> tuple[str, ...]:
    """The modules that these tensors of the folder belong to, named by at most two components."""
    return tuple(dict.fromkeys(".".join(name.split(".")[:-1][:2]) or name for name in sorted(tensors)))


def code_keys(*trees: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys in these files that ask to run code from the folder."""
    return tuple(key for key in CODE_KEYS if any(key in tree for tree in trees))


def folder_settings(
    config: ConfigReader, target: Target, stored: weights.Stored, labels: int, place: str
) -> ModelSettings:
    """The model's settings: what config.json says, then what the presence of tensors shows."""
    flat, elements = read_flat(config, target), [tensor.elements for tensor in stored.values()]
    weights.resolve_ties(stored, flat, target, place)
    weights.infer_settings(stored, flat, target)
    if labels:
        flat |= {f"heads.{name}.labels": (labels,) for name in target.classes[0].heads if has_classes(name)}
    return build_settings(flat, target, elements, config.place)


def has_zoo_chat_template(tokenizer: Tokenizer | str) -> bool:
    """Return whether the tokenizer's chat template is the one that zoo writes for models trained on conversations."""
    if isinstance(tokenizer, str) or not {"start", "separator", "end"} <= set(tokenizer.role_tokens):
        return False
    return tokenizer.chat_templates == {DEFAULT_CHAT: chat_template(tokenizer)}


def task_of(
    settings: ModelSettings,
    traits: ModelTraits,
    labels: Any,
    generate: dict[str, Any],
    chats: bool,
    answers: Mapping[str, Any],
) -> dict[str, Any]:
    """The task of an imported model: one objective per head, and no data.

    Args:
        chats: whether it answers turns of a conversation. answers: options of the objective `span`.
    """
    members: dict[str, Any] = {objective_of(head.name, traits): {} for head in settings.heads}
    known = {"columns": {MESSAGES: MESSAGES} if chats else {}, "labels": labels, "generate": generate}
    if "span" in members:
        members["span"] = dict(answers)
        known["length"] = settings.max_length  # contexts are read in windows of this size
    return {"objective": members, "source": {}, **{key: value for key, value in known.items() if value}}


def span_options(config: ConfigReader) -> dict[str, Any]:
    """The options of the objective `span` that config.json gives."""
    stride = config.find(STRIDE)
    options = {"no_answer": True} if config.find(IMPOSSIBLE) is True else {}
    return {**options, "stride": stride} if type(stride) is int and stride > 0 else options


def objective_of(head: str, traits: ModelTraits) -> str:
    """The first objective that is assumed to have trained this head of such a model."""
    for name in objectives.names():
        known = objectives[name]
        if known.head == head and known.assumed_on_import and not Mixture({name: known()}).obstacle(traits):
            return name
    raise AssertionError(f"no objective trains the head '{head}'")


def missing_heads(model: Model, missing: list[str]) -> list[str]:
    """The heads that are newly initialized, or read a newly initialized pooler."""
    parts = set(map(part_of, missing))
    return [
        name
        for name, head in model.heads.items()
        if f"heads.{name}" in parts or ("pooler" in parts and model.pools(head))
    ]


def fill_missing(settings: ModelSettings, tensors: Tensors) -> Tensors:
    """All tensors of the model; missing ones are initialized as for training from scratch."""
    model = Model.from_seed(settings, INIT_SEED)
    load_matching(model, tensors)
    return unique_tensors(model)
