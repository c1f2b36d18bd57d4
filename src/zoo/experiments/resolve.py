"""Resolve a request to an experiment. Precedence: library < model's files < task's files < `--set`.

This is the only place that does so; values that depend on data and tokenizer are filled in by `fill_in`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zoo import config
from zoo.config import Layer, as_tree, nest
from zoo.data.task import Task
from zoo.data.task_list import listed_tasks
from zoo.data.tokenizers.adding import ADD
from zoo.experiments.experiment import Experiment, traits_of
from zoo.experiments.fill_in import fit_length, fix_steps, mark_vocabulary
from zoo.experiments.layers import FIRST_SET, SET, Traced, leaves
from zoo.experiments.request import MODEL, Pair, Request, by_section, refuse_without_task
from zoo.experiments.tasks import SourcedSet, resolve_task
from zoo.inference.loaded import settings_of
from zoo.metrics.choose import parse_metrics
from zoo.models.cost import on_meta
from zoo.models.generation.settings import parse_generate
from zoo.models.heads.head import heads
from zoo.models.settings import ModelSettings, apply_set, full_path, head_map, keep_heads, parse_settings, refuse_unread
from zoo.objectives.mixture import Mixture
from zoo.registry import Choice, plain
from zoo.runs.saved import SavedRun
from zoo.strict_yaml import Tree
from zoo.training.settings import LOWEST, Training, merge_training, nest_optimizer_options
from zoo.training.weights.freezing import freeze

OBJECTIVE = "the task's objective"
MAY_SET = "it may change dropout, max_length (upward), position.scaling, heads.…, embeddings.frozen, "
MAY_SET += "task.…, training.… and generate.…"


def resolve_pretraining(request: Request) -> Experiment:
    """Resolve a pretraining request.

    Raises:
        ValueError: an unknown name or key, or values that do not combine.
    """
    layers = config.read_layers(request.start, "configs")
    return mark_vocabulary(fit_length(resolve(layers, request, training_of(layers))))


def resolve_model_alone(name: str, sets: Sequence[Pair]) -> tuple[ModelSettings, dict[str, str]]:
    """Resolve a model without a task; returns its settings and the origin of each value.

    Raises:
        ValueError: an unknown name or key, values that do not combine, or a change of `task` or `generate`.
    """
    refuse_without_task(sets)
    layers, training = config.read_layers(name, "configs"), as_tree(by_section(sets)["training"])
    model, traced = resolve_model(layers, [(SET, pair) for pair in sets])
    # only to check them: a model's settings hold `training` as a plain map. What to freeze or adapt is checked with a
    # task, which brings the heads
    resolve_training([*training_of(layers), Layer(SET, training)])
    return model, {f"model.{key}": place for key, place in traced.origins.items()}


def check_task(name: str) -> None:
    """Refuse a task file, or a list of tasks, that no run could use.

    Raises:
        ValueError: an unknown name or key, or values that do not combine.
    """
    if (tasks := listed_tasks(name)) is not None:
        for task_name in tasks:
            check_task(task_name)
        return
    resolve_task_alone(name, ())


def resolve_task_alone(name: str, sets: Sequence[Pair]) -> Task:
    """Resolve and check a task without a model.

    Raises:
        ValueError: an unknown name or key, or values that do not combine.
    """
    files, own = config.read_layers(name, "tasks"), [(SET, pair) for pair in sets]
    task, _ = resolve_task(name, files, own)
    mixture = Mixture.of(task)
    parse_metrics(task.metrics, mixture.metrics)
    parse_generate(task.generate)
    if sets_generate(sets):
        mixture.refuse_generate()
    resolve_training(training_of_task(files, own))
    return task


def resolve_finetuning(saved: SavedRun, request: Request) -> Experiment:
    """Resolve a fine-tuning request; training settings of the checkpoint are not inherited.

    Raises:
        ValueError: as `resolve_pretraining`, or the request changes the architecture or the tokenizer.
    """
    for pair in (*request.repeated, *request.sets):
        refuse_architecture(pair, request.command)
    place = str(saved.folder / "config.yaml")
    before = positions_of(settings_of(saved))
    found = resolve([Layer(place, with_encoder_norm(saved))], request, [])
    after = positions_of(found.model)
    for part, places in after.items():
        if places < before[part]:
            raise ValueError(
                f"--set max_length={places}: the checkpoint's {part} has {before[part]} positions; {MAY_SET}"
            )
    return found


def with_encoder_norm(saved: SavedRun) -> Tree:
    """A checkpoint's model settings, in which heads that it lacks get the encoder's norm options (eps, bias).

    BERT, ELECTRA and ModernBERT share one eps between encoder and heads, so other heads could not be exported. A head
    whose default norm is another variant than the encoder's keeps its default.
    """
    encoder, place = settings_of(saved).encoder, f"{saved.folder / 'config.yaml'}.heads"
    norm = None if encoder is None else getattr(encoder.settings, "norm", None)
    own = head_map(saved.config.get("heads", []), place)
    lacking = [name for name in heads.names() if "norm" in heads.options(name) and name not in own]
    if not isinstance(norm, Choice):
        return saved.config
    alike = {name: {"norm": plain(norm)} for name in lacking if heads.options(name)["norm"].default == norm.name}
    return {**saved.config, "heads": own | alike}


def positions_of(settings: ModelSettings) -> dict[str, int]:
    """`encoder`, `decoder` -> the number of positions it has."""
    on = on_meta(settings)
    parts = {"encoder": on.encoder, "decoder": on.decoder}
    return {name: part.max_length for name, part in parts.items() if part is not None}


def refuse_architecture(pair: Pair, command: str) -> None:
    """Refuse a `--set` that would change the checkpoint's architecture or tokenizer."""
    path, _ = pair
    written = ".".join(path)
    if path[:2] == ("task", "tokenizer") and leaves(nest(*pair)).keys() != {f"task.tokenizer.{ADD}"}:
        only = "only tokenizer.add adds words to it"
        raise ValueError(f"--set {written}: {command} keeps the checkpoint's tokenizer; {only}")
    own = path[0] in ("task", "training", "generate", "heads") or path[-1] in ("dropout", "max_length")
    own = own or ("position", "scaling") in (path[:2], path[1:3])  # with or without the stack's name
    if not own and path != ("embeddings", "frozen"):
        raise ValueError(f"--set {written}: {command} keeps the checkpoint's architecture; {MAY_SET}")


def training_of(layers: Iterable[Layer]) -> list[Layer]:
    """The `training` sections of layers, as layers of their own."""
    return [Layer(place, tree["training"]) for place, tree in layers if isinstance(tree.get("training"), Mapping)]


def training_of_task(files: Iterable[Layer], sets: Iterable[SourcedSet]) -> list[Layer]:
    """A task's `training` sections: of its files, then of `--set task.training.…`."""
    return training_of([*files, *(Layer(place, as_tree([pair])) for place, pair in sets)])


def sets_generate(sets: Iterable[Pair]) -> bool:
    """Whether changes of a task set generation options."""
    return any(path[0] == "generate" for path, _ in sets)


def resolve(layers: Sequence[Layer], request: Request, below: Sequence[Layer]) -> Experiment:
    """Resolve model, task, training and generation settings, from the lowest layer to the highest.

    Args:
        layers: the model's, lowest first.
        below: the training settings below the task's: those of the model's files when pretraining.
    """
    of_model, of_task, of_training = list[SourcedSet](), list[SourcedSet](), list[Layer]()
    for call, pairs in ((FIRST_SET, request.repeated), (SET, request.sets)):
        sections = by_section(pairs)
        of_model += [(call, pair) for pair in sections[MODEL]]
        of_task += [(call, pair) for pair in sections["task"]]
        of_task += [(call, (("generate", *path), value)) for path, value in sections["generate"]]
        # one layer per call, because steps and epochs cancel each other only across layers
        of_training.append(Layer(call, as_tree(sections["training"])))
    files = config.read_layers(request.task, "tasks")
    task, from_task = resolve_task(request.task, files, of_task)
    mixture = Mixture.of(task)
    model, from_model = resolve_model(layers, of_model, mixture)
    training, from_training = resolve_training([*below, *training_of_task(files, of_task), *of_training])
    if obstacle := mixture.obstacle(traits_of(model)):  # before the metrics: their message would hide a wrong model
        raise ValueError(obstacle)
    metrics = parse_metrics(task.metrics, mixture.metrics)
    refuse_unknown_weights(model, training)
    origins = {
        f"{section}.{key}": place
        for section, traced in (("model", from_model), ("task", from_task), ("training", from_training))
        for key, place in traced.origins.items()
    }
    generate = parse_generate(task.generate)
    if sets_generate(pair for call, pair in of_task if call == SET):
        mixture.refuse_generate()
    return fix_steps(Experiment(model, task, mixture, metrics, generate, training, origins), None)


def resolve_model(
    layers: Sequence[Layer], sets: Iterable[SourcedSet], mixture: Mixture | None = None
) -> tuple[ModelSettings, Traced]:
    """Resolve the model from its files, then `--set`.

    Args:
        mixture: the objectives whose heads the model gets; None: the heads of its file.
    """
    place = layers[-1].place
    place = Path(place).stem if place.startswith("configs/") else place
    traced = Traced.of(layers)
    written = head_map(traced.tree.get("heads", []), f"{place}.heads")
    traced = traced.replaced_by({**traced.tree, "heads": written}, traced.origins.get("heads", place))
    if mixture is not None:
        traced = traced.replaced_by(keep_heads(traced.tree, mixture.heads, place), OBJECTIVE)
    named: list[tuple[str, ...]] = []
    # changes of heads come last (a stable sort): the model's file may lack the task's heads
    for call, (path, value) in sorted(sets, key=lambda placed: placed[1][0][0] == "heads"):
        full = full_path(traced.tree, path)
        traced = traced.replaced_by(apply_set(traced.tree, full, value), call, leaves(nest(full, value)))
        named.append(full)
    settings = parse_settings(traced.tree, (), place)
    refuse_unread(settings, named)
    return settings, traced


def refuse_unknown_weights(model: ModelSettings, training: Training) -> None:
    """Refuse weights to freeze or to adapt that the model does not have, before hours of tokenizing."""
    if training.freeze or training.lora is not None:
        freeze(on_meta(model), training.freeze, training.lora)


def resolve_training(levels: Iterable[Layer]) -> tuple[Training, Traced]:
    """Resolve the training settings from levels, the lowest first.

    Raises:
        ValueError: an unknown key, a wrong type, or values that do not combine.
    """
    traced = Traced(LOWEST, {})
    for place, level in levels:
        traced = traced.replaced_by(merge_training(traced.tree, level), place, leaves(nest_optimizer_options(level)))
    return config.build(Training, traced.tree, "training"), traced
