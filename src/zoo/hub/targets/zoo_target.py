"""The target `zoo`: any model, in zoo's own transformers classes, which build it from its settings.

Needs no transformers; the classes themselves are in `hub/modeling/shell.py`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from zoo.examples.template import CLASSIFIED_PAIR, CLASSIFIED_TEXT, STARTED_TEXT
from zoo.hub.sources.folder import CheckpointFolder, Json
from zoo.hub.sources.headers import find_tensors
from zoo.hub.targets.declare import classes
from zoo.hub.targets.declare.classes import SCORES
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.spelling import format_heads, name_parts
from zoo.hub.targets.declare.target import ROLES, NativeClass, Target, class_of
from zoo.models.cost import Bounds, on_meta
from zoo.models.heads.head import has_classes, heads
from zoo.models.kinds.part import PartChoice
from zoo.models.settings import ModelSettings, dump_settings, parse_settings

MODEL_TYPE = "zoo"
MODULE = "zoo.hub.modeling.shell"  # importing it registers the classes with transformers
PROCESSOR = "ZooImageProcessor"
SETTINGS = "settings"  # the key of config.json
TRANSLATION = classes.translator("ZooForConditionalGeneration")
CAPTIONING = dataclasses.replace(
    TRANSLATION, name="ZooForImageTextToText", auto="AutoModelForImageTextToText", pipeline="image-to-text"
)
IMAGE_CLASSIFICATION = NativeClass(
    name="ZooForImageClassification",
    auto="AutoModelForImageClassification",
    heads={"classification": SCORES},
    text=(),
    pipeline="image-classification",
)
CHOOSER = "ZooForMultipleChoice"
CLASSIFIER = "ZooForSequenceClassification"
TAGGER, TAGGER_AUTO = "ZooForTokenClassification", "AutoModelForTokenClassification"
CLASSES = {  # (parts that read tokens, parts that read images) -> classes, in the order in which they are tried
    (("decoder",), ()): (
        classes.causal_lm("ZooForCausalLM"),
        classes.text_classifier(CLASSIFIER, text=CLASSIFIED_TEXT, pair=CLASSIFIED_PAIR),
        classes.token_classifier(TAGGER, text=STARTED_TEXT),
        classes.chooser(CHOOSER, text=CLASSIFIED_TEXT, pair=CLASSIFIED_PAIR),
    ),
    (("encoder", "decoder"), ()): (TRANSLATION,),
    (("encoder",), ()): (
        classes.pretraining("ZooForPreTraining"),
        classes.masked_lm("ZooForMaskedLM"),
        classes.next_sentence("ZooForNextSentencePrediction"),
        classes.text_classifier(CLASSIFIER),
        classes.token_classifier(TAGGER),
        classes.chooser(CHOOSER),
        classes.question_answerer("ZooForQuestionAnswering"),
    ),
    (("decoder",), ("encoder",)): (CAPTIONING,),
    ((), ("encoder",)): (IMAGE_CLASSIFICATION,),
}
FAMILY = "zoo's own"


def target_of(settings: ModelSettings) -> Target:
    """Build the target that fits one model: tensors under their own names, and the settings unchanged.

    Raises:
        ValueError: no class has the model's first head.
    """
    readers, sizes = readers_of(settings)
    chosen = choose_zoo_class(settings)
    kept = dataclasses.replace(settings, heads=tuple(head for head in settings.heads if head.name in chosen.heads))
    model, both = on_meta(kept), len(kept.parts) > 1
    names = [name for name, _ in (*model.named_parameters(), *model.named_buffers())]  # tied tensors once
    roles = {**ROLES, "decoder_start_token_id": "start"} if both else ROLES
    return Target(
        name=MODEL_TYPE,
        model_type=MODEL_TYPE,
        family=FAMILY,
        models="any model",
        example="cnn-attention",
        sides=tuple(kept.parts),
        requirements=(),
        keys=(),
        constants={SETTINGS: plain_settings(kept), "is_encoder_decoder": both},
        roles=roles if readers else {},
        renames=tuple(same(name, name) for name in names),
        classes=(chosen,),
        lenient=(SETTINGS,),  # a file may leave defaults out
        longest=f"{readers[0]}.max_length" if readers else "",
        imports=MODULE,
        counts_positions=True,
        image_processor={"image_processor_type": PROCESSOR, "image_size": next(iter(sizes.values()))} if sizes else {},
    )


def image_size(part: PartChoice) -> int | None:
    """Side of the square images that a part reads (pixels); None: it reads tokens."""
    size: int | None = getattr(part.settings, "image_size", None)
    return size


def readers_of(settings: ModelSettings) -> tuple[tuple[str, ...], dict[str, int]]:
    """The parts that read tokens, and the image size of each part that reads images."""
    sizes = {side: size for side, part in settings.parts.items() if (size := image_size(part)) is not None}
    return tuple(side for side in settings.parts if side not in sizes), sizes


def choose_zoo_class(settings: ModelSettings) -> NativeClass:
    """Pick the class with the most heads among those that have the model's first head and no head that it lacks.

    A first head that no class lists, such as one of another package, is exported in the class for classification: of
    documents, or of tokens.

    Raises:
        ValueError: no class has the model's first head.
    """
    readers, sizes = readers_of(settings)
    known, name = CLASSES.get((readers, tuple(sizes)), ()), settings.heads[0].name
    chosen = class_of(known, settings)
    if chosen is not None:
        return chosen
    classifier = next((one for one in known if "classification" in one.heads), None)
    if classifier is None or any(name in one.heads for table in CLASSES.values() for one in table):
        carried = f"{FAMILY} classes have {format_heads(known)}"
        raise ValueError(f"the first head is {name}; with {name_parts(settings.parts)}, {carried}")
    own = dataclasses.replace(classifier, heads={name: SCORES}, pipeline=None)
    return own if heads[name].scores_documents else dataclasses.replace(own, name=TAGGER, auto=TAGGER_AUTO)


def plain_settings(settings: ModelSettings) -> Json:
    """The settings as config.json holds them: without training settings and file names."""
    embeddings = dataclasses.replace(settings.embeddings, vectors=None)
    tree = dump_settings(dataclasses.replace(settings, embeddings=embeddings))
    return {key: value for key, value in tree.items() if key != "training"}


def read_settings(tree: Any, place: str) -> ModelSettings:
    """Read the settings from a config.json.

    Raises:
        ValueError: they are no map, do not combine, or name a file.
    """
    if not isinstance(tree, dict):
        raise ValueError(f"{place}: expected a map of settings, got {tree!r:.80}")
    settings = parse_settings(tree, place=place)
    if settings.embeddings.vectors is not None:
        raise ValueError(f"{place}.embeddings.vectors: names a file; the vectors of a checkpoint are among its weights")
    return settings


def read_target(checkpoint: CheckpointFolder, config: Json, place: str) -> tuple[Target, ModelSettings]:
    """Read the target and the settings of a folder from its config.json.

    Raises:
        ValueError: the settings are damaged, claim sizes beyond the stored tensors, or disagree with `id2label`.
    """
    where = f"{place}: {SETTINGS}"
    if SETTINGS not in config:
        raise ValueError(f"{place}: the key '{SETTINGS}' is missing")
    settings = read_settings(config[SETTINGS], where)
    elements = [tensor.elements for tensor in find_tensors(checkpoint).values()]
    Bounds(elements).check(config[SETTINGS], where)  # before anything is built, or counted, layer by layer
    named = config.get("id2label")
    counts = [head.option("labels") for head in settings.heads if has_classes(head.name)]
    known = len(named) if isinstance(named, dict) else 0
    if named is None:
        known = 2  # two unnamed classes are left out
    if counts and known != counts[0]:
        raise ValueError(f"{place}: id2label must name the {counts[0]} classes of the head, got {named!r:.80}")
    try:
        return target_of(settings), settings
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def heads_of(settings: ModelSettings, class_name: str) -> tuple[str, ...]:
    """The heads that a folder with these settings has for a class; empty if the folder is of another class."""
    chosen = choose_zoo_class(settings)
    return tuple(chosen.heads) if chosen.name == class_name else ()


def with_heads(settings: ModelSettings, names: Sequence[str], labels: int) -> ModelSettings:
    """Return the settings with exactly these heads; heads with an option `labels` get this number of classes."""
    written = {head.name: head for head in settings.heads}
    found = []
    for name in names:
        own = {"labels": labels} if has_classes(name) else {}
        choice = heads.parse({"name": name, **own}, f"heads.{name}")
        found.append(choice.inherit(**written[name].options) if name in written else choice)
    return dataclasses.replace(settings, heads=tuple(found))
