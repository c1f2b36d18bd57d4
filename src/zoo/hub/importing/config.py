"""config.json read backwards: the target it names, the class, and the model's settings."""

from collections.abc import Collection, Mapping
from typing import Any

from zoo import config
from zoo.hub.sources.folder import Json
from zoo.hub.targets.declare.flat_settings import FlatSettings, by_layer
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import Key, NativeClass, Target, listed, written
from zoo.hub.targets.shell import MODEL_TYPE
from zoo.models.cost import Bounds
from zoo.models.heads.head import heads
from zoo.models.settings import INHERITED, ModelSettings, parse_settings
from zoo.registry import REQUIRED, nearest

CONFIG = "config.json"
# what changes every family's numbers, or what its tensors are
DEMANDS: Mapping[str, tuple[Any, ...]] = {"quantization_config": (None,), "pruned_heads": ({}, None)}
MOST_LABELS = 2**20


class ConfigReader:
    """What a config.json says, by key; dots lead into maps.

    Args:
        tree: the file's content. keys: those that are declared, with their defaults. place: for messages.
    """

    def __init__(self, tree: Json, keys: Collection[Key], place: str) -> None:
        self.tree, self.place = tree, place
        self.defaults = {key.theirs: key.default for key in keys}

    def says(self, key: str) -> bool:
        return self.find(key) is not REQUIRED

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

    def settings(self, key: Key) -> dict[str, Any]:
        """The settings that a key gives.

        Raises:
            ValueError: a value that the target does not know.
        """
        value = self(key.theirs)
        if value is None and key.null is not None:
            value = key.null(self)
        try:
            return key.back(value)
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None
        except (TypeError, AttributeError, LookupError):  # a value of a kind that the way back cannot take
            raise ValueError(f"{self.place}: {key.theirs} cannot be {value!r:.80}") from None


def find_target(tree: Json, place: str) -> Target:
    """The target of a config.json.

    Raises:
        ValueError: none has its model_type.
    """
    named = tree.get("model_type")
    known = {target.model_type: target for target in targets.values()}
    if not isinstance(named, str) or named not in known:
        all_types = (*known, MODEL_TYPE)
        raise ValueError(
            f"{place}: zoo cannot import model type {named!r:.80}{nearest(str(named)[:80], all_types)}; "
            f"it imports: {', '.join(all_types)}"
        )
    return known[named]


def named_class(tree: Json) -> str | None:
    """The class that a config.json says it was saved from."""
    found = tree.get("architectures")
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else None


def check_demands(tree: Json, target: Target, place: str) -> None:
    """Refuse what would make another model of it than the target's.

    Raises:
        ValueError: a key has a value that the target cannot express; the message names both.
    """
    named = named_class(tree)
    unread = next((chosen.unread for chosen in target.classes if chosen.name == named), ())
    free = (*target.lenient, *unread)
    constants = {key: (value,) for key, value in target.constants.items() if key not in free}
    reader = ConfigReader(tree, (), place)
    for key, allowed in {**DEMANDS, **constants, **target.demands}.items():
        value = reader.find(key)
        if value is not REQUIRED and value not in allowed:
            can = " or ".join(written(v) for v in allowed)
            raise ValueError(f"{place}: {key} is {written(value):.80}; zoo imports {target.family} with {can} only")


def read_flat(reader: ConfigReader, target: Target, chosen: NativeClass) -> FlatSettings:
    """Settings by path, from the keys, then from what the target demands of all its models.

    What the file says speaks before defaults, and the first key of several for one setting.

    Raises:
        ValueError: an unknown value, or two keys that contradict each other.
    """
    keys = (*target.keys, *chosen.keys)
    found: FlatSettings = {}
    for key in sorted(keys, key=lambda key: not reader.says(key.theirs)):
        for path, value in reader.settings(key).items():
            if path in found and found[path] != (value,) and reader.says(key.theirs) and key.merge is None:
                raise ValueError(
                    f"{reader.place}: {key.theirs} says {written(value)} of what another key says is "
                    f"{listed(found[path])}; zoo has one setting for both, {path}"
                )
            found.setdefault(path, (value,))
    for demand in (*target.requirements, *chosen.requirements):
        if demand.path not in found:
            try:
                allowed = demand.allowed(found) if callable(demand.allowed) else demand.allowed
            except (KeyError, TypeError, ZeroDivisionError):  # it follows from a default, or is no number
                continue
            if allowed and allowed[0] is not None:
                found[demand.path] = (allowed[0],)
    return found


def build_settings(
    flat: FlatSettings, target: Target, chosen: NativeClass, bounds: Bounds, place: str
) -> ModelSettings:
    """The model's settings, from settings by path.

    Args:
        bounds: what the tensors can be.

    Raises:
        ValueError: they do not combine, are beyond the tensors, or are not what the target has.
    """
    layered = by_layer({path: value for path, (value, *_) in flat.items()})
    # outer settings first: a name gets its options, a map does not become a name
    outer_first = sorted(layered, key=lambda path: path.count("."))
    tree = config.as_tree((path.split("."), layered[path]) for path in outer_first)
    stream = tree[target.sides[-1]]
    inherited = {name: stream[name] for name in INHERITED if name in stream}
    own = tree.get("heads", {})
    tree |= {**inherited, "heads": {name: own.get(name, {}) for name in chosen.heads}}
    settings = parse_settings(tree, place=place)
    bounds.check(tree, place)  # before anything is built, or counted, layer by layer
    obstacle = target.obstacle(settings)
    if obstacle is not None:
        raise ValueError(f"{place}: {obstacle}")
    return settings


def label_names(tree: Json, target: Target, chosen: NativeClass, place: str) -> list[str]:
    """The names of the classes, of a class that has some; as transformers names them where the file does not.

    Raises:
        ValueError: they are no list of names, or the class does not choose one of them.
    """
    if not any("labels" in heads.options(name) for name in chosen.heads):
        return []
    kind = tree.get("problem_type")
    if kind not in (None, "single_label_classification"):
        raise ValueError(f"{place}: problem_type is {kind!r}; zoo's classification chooses one of several classes")
    named = tree.get("id2label")
    if named is None:
        count = tree.get("num_labels", 2)
        named = {str(i): f"LABEL_{i}" for i in range(count if type(count) is int and count < MOST_LABELS else 0)}
    ordered = {str(i) for i in range(len(named))} if isinstance(named, dict) else None
    if ordered is None or named.keys() != ordered or not all(isinstance(name, str) for name in named.values()):
        raise ValueError(f"{place}: id2label must name the classes 0, 1, …, got {named!r:.80}")
    names = [named[str(i)] for i in range(len(named))]
    odd = [name for name in names if not name.isprintable()]
    if odd:
        raise ValueError(f"{place}: id2label has control characters in {odd[0]!r:.80}")
    return names
