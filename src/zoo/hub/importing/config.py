"""config.json read backwards: the target it names, the names of labels, and the model's settings."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from zoo.config import as_tree
from zoo.hub.sources.folder import CONFIG, CheckpointFolder
from zoo.hub.sources.headers import WHOLE
from zoo.hub.targets.declare.classes import classifies
from zoo.hub.targets.declare.flat_settings import FlatSettings, by_layer
from zoo.hub.targets.declare.key import Config, Key
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.hub.targets.declare.words import listed, written
from zoo.hub.targets.shell import MODEL_TYPE, read_target
from zoo.models.cost import Bounds
from zoo.models.heads.head import heads
from zoo.models.settings import INHERITED, ModelSettings, parse_settings
from zoo.objectives.answers import ANSWERS, OneClass, OneNumber
from zoo.registry import REQUIRED
from zoo.wording import nearest

# what changes every family's numbers, or what its tensors are
DEMANDS: Mapping[str, tuple[Any, ...]] = {
    "configuration_files": ([],),  # of which transformers reads one in place of config.json, by its own version
    "per_layer_config": (None, {}),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
    "transformers_weights": (None, WHOLE),  # the file that is read in place of the usual one
}
MOST_LABELS = 2**20
ODD = ("Cc", "Cs")  # escapes, which a terminal would obey, and halves of characters, which no file can hold


class ConfigReader:
    """What a folder's config.json says, by key; dots lead into maps."""

    def __init__(self, foreign: CheckpointFolder) -> None:
        self.tree, self.place = foreign.config, str(foreign.folder / CONFIG)
        self.defaults: dict[str, Any] = {}  # of the class's keys, once the class is known
        if not self.tree:
            raise ValueError(f"{self.place}: no such file, or an empty one; a Hugging Face folder has one")

    def find(self, key: str) -> Any:
        """A key's value, or REQUIRED where there is none.

        Raises:
            ValueError: what the key leads through is no map.
        """
        found: Any = self.tree
        names = key.split(".")
        for depth, name in enumerate(names):
            if found is None:
                return REQUIRED
            if not isinstance(found, Mapping):
                raise ValueError(f"{self.place}: {'.'.join(names[:depth])} must be a map, got {found!r:.80}")
            if name not in found:
                return REQUIRED
            found = found[name]
        return found

    def take_aliases(self, aliases: Mapping[str, str]) -> None:
        """Have keys by the names that everything is read by.

        Raises:
            ValueError: a key has two values, by two names.
        """
        for alias, key in aliases.items():
            if self.tree.get(alias) is None:
                continue
            if self.tree.get(key) is None:
                self.tree[key] = self.tree[alias]
            elif self.tree[key] != self.tree[alias]:
                both = f"{alias} is {written(self.tree[alias])}, and {key} is {written(self.tree[key])}"
                raise ValueError(f"{self.place}: {both}; they are two names of one key")

    def __call__(self, key: str) -> Any:
        """A key's value, or the default of their class.

        Raises:
            ValueError: it is not there and has no default.
        """
        found = self.find(key)
        value = self.defaults.get(key, REQUIRED) if found is REQUIRED else found
        if value is REQUIRED:
            raise ValueError(f"{self.place}: the key '{key}' is missing")
        return value

    def following(self, key: Key, null: Callable[[Config], Any]) -> Any:
        """What a key means that says nothing, by other keys.

        Raises:
            ValueError: their values cannot be.
        """
        try:
            return null(self)
        except (TypeError, ZeroDivisionError) as error:
            unsaid = f"{key.theirs} is missing, and does not follow from other keys"
            raise ValueError(f"{self.place}: {unsaid}: {error}") from None

    def settings(self, key: Key) -> dict[str, Any]:
        """The settings that a key gives.

        Raises:
            ValueError: a value that the target does not know.
        """
        value = self(key.theirs)
        if value is None and key.null is not None:
            value = self.following(key, key.null)
        try:
            return key.back(value)
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None
        except (TypeError, AttributeError, LookupError):  # a value of a kind that the way back cannot take
            raise ValueError(f"{self.place}: {key.theirs} cannot be {value!r:.80}") from None


def read_family(foreign: CheckpointFolder, config: ConfigReader) -> tuple[Target, ModelSettings | None]:
    """The target that a config.json names, and the settings where it holds them as zoo writes them.

    Raises:
        ValueError: none has its model_type, or a key has a value that the target cannot express.
    """
    named, settings = config.tree.get("model_type"), None
    known = {target.model_type: target for target in targets.values()}
    if named == MODEL_TYPE:
        target, settings = read_target(foreign, config.tree, config.place)
    elif isinstance(named, str) and named in known:
        target = known[named]
    else:
        every = (*known, MODEL_TYPE)
        unknown = f"zoo cannot import model type {named!r:.80}{nearest(str(named)[:80], every)}"
        raise ValueError(f"{config.place}: {unknown}; it imports: {', '.join(every)}")
    config.take_aliases(target.aliases)
    config.tree = dict(target.newer(config.tree))
    own = next((chosen for chosen in target.classes if chosen.name == foreign.class_name), None)
    unread, demands = ((), {}) if own is None else (own.unread, own.demands)
    demanded = {key: (value,) for key, value in target.constants.items() if key not in (*target.lenient, *unread)}
    for key, allowed in {**DEMANDS, **demanded, **target.demands, **demands}.items():
        value = config.find(key)
        if value is not REQUIRED and value not in allowed:
            found = f"{key} is {written(value):.80}"
            only = f"with {listed(allowed, ' or ')}" if allowed else "without that key"
            raise ValueError(f"{config.place}: {found}; zoo imports {target.family} only {only}")
    return target, settings


def read_flat(config: ConfigReader, target: Target) -> FlatSettings:
    """Settings by path, from the keys, then from what the target demands of all its models.

    Keys that the file has come before defaults, and the first key of several for one setting.

    Raises:
        ValueError: an unknown value, or two keys that contradict each other.
    """
    config.defaults = {key.theirs: key.default for key in target.keys}
    said = [key for key in target.keys if config.find(key.theirs) is not REQUIRED]
    found: FlatSettings = {}
    for key in (*said, *(key for key in target.keys if key not in said)):
        if not key.speaks(found):
            continue
        for path, value in config.settings(key).items():
            # where settings are merged, several keys may say different things of what no output depends on
            if path in found and found[path] != (value,) and key in said and key.merge is None:
                raise ValueError(
                    f"{config.place}: {key.theirs} is {written(value)}, but another key gives {listed(found[path])}; "
                    f"zoo has one setting for both, {path}"
                )
            found.setdefault(path, (value,))
    for demand in target.requirements:
        if demand.path not in found:
            try:
                allowed = demand.values(found)
            except (KeyError, TypeError, ZeroDivisionError):  # it follows from a default, or is no number
                continue
            if allowed and allowed[0] is not None:
                found[demand.path] = (allowed[0],)
    return {path: (value(found),) for path, value in target.begins.items()} | found


def build_settings(flat: FlatSettings, target: Target, elements: Iterable[int], place: str) -> ModelSettings:
    """The model's settings, from settings by path.

    Args:
        elements: of each tensor in the files.

    Raises:
        ValueError: they do not combine, are beyond the tensors, or are not what the target has.
    """
    layered = by_layer({path: value for path, (value, *_) in flat.items()})
    # outer settings first: a name gets its options, a map does not become a name
    tree = as_tree((path.split("."), layered[path]) for path in sorted(layered, key=lambda path: path.count(".")))
    stream = tree[target.sides[-1]]
    own = tree.get("heads", {})
    tree |= {name: stream[name] for name in INHERITED if name in stream}
    tree["heads"] = {name: own.get(name, {}) for name in target.classes[0].heads}
    settings = parse_settings(tree, place=place)
    Bounds(elements).check(tree, place)  # before anything is built, or counted, layer by layer
    obstacle = target.obstacle(settings)
    if obstacle is not None:
        raise ValueError(f"{place}: {obstacle}")
    return settings


@dataclass(frozen=True)
class LabelNames:
    """What the labels of a class are.

    Args:
        names: of the classes; none where there are none.
        kind: as a task says it. count: how many scores the head gives.
    """

    names: list[str]
    kind: str = "one"
    count: int = 0

    def plain(self) -> Any:
        """`labels` of a task."""
        return self.names if self.kind == "one" else {self.kind: self.names} if self.names else self.kind


def read_labels(config: ConfigReader, chosen: NativeClass) -> LabelNames:
    """The labels of a class that has some; named as transformers names them where the file does not.

    Raises:
        ValueError: they are no list of names, or the problem is none that zoo knows.
    """
    if not any("labels" in heads.options(name) for name in chosen.heads):
        return LabelNames([])
    names, problem = label_names(config), config.tree.get("problem_type")
    if not classifies(chosen):
        return LabelNames(names, count=len(names))
    if problem is None:  # as their classes decide it
        problem = (OneNumber if len(names) == 1 else OneClass).problem
    kinds = {answer.problem: kind for kind, answer in ANSWERS.items()}
    if not isinstance(problem, str) or problem not in kinds:
        raise ValueError(f"{config.place}: problem_type is {problem!r}; zoo reads {listed(list(kinds), ' or ')}")
    if kinds[problem] == "number" and len(names) != 1:
        raise ValueError(
            f"{config.place}: problem_type is {problem!r} with {len(names)} outputs; zoo predicts one number"
        )
    return LabelNames([] if kinds[problem] == "number" else names, kinds[problem], len(names))


def label_names(config: ConfigReader) -> list[str]:
    """The names of the labels.

    Raises:
        ValueError: they are no list of names.
    """
    named = config.tree.get("id2label")
    if named is None:
        count = config.tree.get("num_labels", 2)
        named = {str(i): f"LABEL_{i}" for i in range(count if type(count) is int and count < MOST_LABELS else 0)}
    names: list[Any] = [named.get(str(i)) for i in range(len(named))] if isinstance(named, dict) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{config.place}: id2label must name the classes 0, 1, …, got {named!r:.80}")
    odd = [name for name in names if any(category(c) in ODD for c in name)]
    if odd:
        raise ValueError(f"{config.place}: id2label has control characters in {odd[0]!r:.80}")
    return names
