"""config.json and generation_config.json of a native class."""

from zoo.config import as_tree
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.sources.folder import Json
from zoo.hub.targets.declare.classes import classifies
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.generation.settings import parse_generate
from zoo.objectives.kinds.span import AnswerSpan

QUESTIONS = "task_specific_params.question-answering"
IMPOSSIBLE, STRIDE = f"{QUESTIONS}.handle_impossible_answer", f"{QUESTIONS}.stride"  # the second key is zoo's own


def config_file(trained: TrainedModel, target: Target, native: NativeClass) -> Json:
    """The content of config.json: every key that the target declares, so that no default of transformers applies."""
    flat = flatten(trained.settings)
    keys = {key.theirs: key.value(flat) for key in (*target.keys, *native.keys) if key.applies(flat)}
    start = {"architectures": [native.name], "model_type": target.model_type, "dtype": "float32"}
    written = as_tree((key.split("."), value) for key, value in {**keys, **target.constants}.items())
    said = {**label_maps(trained, native), **pipeline_settings(trained, native)}
    return {**start, **written, **token_ids(trained, target), **said}


def token_ids(trained: TrainedModel, target: Target) -> Json:
    """The ids of special tokens, under the target's keys; null if the tokenizer lacks one."""
    return {key: getattr(trained.roles, role) for key, role in target.roles.items()}


def label_maps(trained: TrainedModel, native: NativeClass) -> Json:
    """The names of the classes by number and back, with the problem type; empty if the class has no labels."""
    names = trained.class_names(native)
    if not names:
        return {}
    maps = {"id2label": {str(i): name for i, name in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}
    return {**maps, **({"problem_type": trained.answer.problem} if classifies(native) else {})}


def pipeline_settings(trained: TrainedModel, native: NativeClass) -> Json:
    """Non-default settings of question answering: whether there may be no answer, and the stride of windows."""
    member = trained.mixture.members.get("span")
    if not isinstance(member, AnswerSpan) or member.head not in native.heads:
        return {}
    said: Json = {IMPOSSIBLE: True} if member.no_answer else {}
    if member.stride != AnswerSpan().stride:
        said[STRIDE] = member.stride
    return as_tree((key.split("."), value) for key, value in said.items())


def generation_file(trained: TrainedModel, target: Target) -> Json:
    """The content of generation_config.json: the task's generation settings under transformers' keys."""
    settings = parse_generate(trained.task.generate)
    sampling: Json = {"do_sample": settings.samples}
    if settings.samples:
        sampling["temperature"] = 1.0 if settings.temperature is None else settings.temperature
        sampling["top_k"] = settings.top_k or 0  # transformers' default is 50
        sampling["top_p"] = 1.0 if settings.top_p is None else settings.top_p
    beams: Json = {"num_beams": settings.beams}
    if settings.beams > 1:  # transformers warns about these keys without beams
        beams |= {"early_stopping": False, "length_penalty": settings.length_penalty}
    most = min(settings.max_new_tokens, max_new_tokens(flatten(trained.settings)))
    return {**token_ids(trained, target), **sampling, **beams, "max_new_tokens": most}


def max_new_tokens(flat: FlatSettings) -> int:
    """The number of decoder positions; half of it in a decoder alone, where a prompt comes first.

    The last token of an output is never read, so the start token costs no position: `generate` counts in the same way.
    """
    room: int = flat["decoder.max_length"][0]
    return max(1, room if "encoder.kind" in flat else room // 2)
