"""Read a config.json: the target that it names, and the model's settings."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zoo.config import as_tree
from zoo.hub.sources.folder import CONFIG, CheckpointFolder
from zoo.hub.sources.headers import WEIGHTS_FILE
from zoo.hub.targets.declare.flat_settings import FlatSettings, by_layer
from zoo.hub.targets.declare.key import Config, Key
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.spelling import join_values, spell_value
from zoo.hub.targets.declare.target import Target
from zoo.hub.targets.zoo_target import MODEL_TYPE, read_target
from zoo.models.cost import Bounds, on_meta
from zoo.models.settings import INHERITED, ModelSettings, parse_settings
from zoo.registry import REQUIRED
from zoo.wording import nearest

# keys that change the outputs or the tensors of any family, with the values that zoo accepts
ACCEPTED: Mapping[str, tuple[Any, ...]] = {
    "configuration_files": ([],),  # transformers reads one of these in place of config.json, by its own version
    "per_layer_config": (None, {}),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
    "transformers_weights": (None, WEIGHTS_FILE),  # the file that is read in place of the usual one
}


class ConfigReader:
    """The values of a folder's config.json by key; dots lead into nested maps.

    Raises:
        ValueError: there is no config.json, or it is empty.
    """

    def __init__(self, checkpoint: CheckpointFolder) -> None:
        self.tree, self.place = checkpoint.config, str(checkpoint.folder / CONFIG)
        self.defaults: dict[str, Any] = {}  # of the target's keys, once the target is known
        if not self.tree:
            raise ValueError(f"{self.place}: no such file, or an empty one; a Hugging Face folder has one")

    def find(self, key: str) -> Any:
        """The value of a key in the file, or REQUIRED if it is missing.

        Raises:
            ValueError: the key leads through a value that is not a map.
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

    def resolve_aliases(self, aliases: Mapping[str, str]) -> None:
        """Store the values of alias keys under the keys that zoo reads.

        Raises:
            ValueError: a key and its alias have different values.
        """
        for alias, key in aliases.items():
            if self.tree.get(alias) is None:
                continue
            if self.tree.get(key) is None:
                self.tree[key] = self.tree[alias]
            elif self.tree[key] != self.tree[alias]:
                both = f"{alias} is {spell_value(self.tree[alias])}, and {key} is {spell_value(self.tree[key])}"
                raise ValueError(f"{self.place}: {both}; they are two names of one key")

    def __call__(self, key: str) -> Any:
        """The value of a key, by default that of transformers' config class.

        Raises:
            ValueError: the key is missing and has no default.
        """
        found = self.find(key)
        value = self.defaults.get(key, REQUIRED) if found is REQUIRED else found
        if value is REQUIRED:
            raise ValueError(f"{self.place}: the key '{key}' is missing")
        return value

    def null_value(self, key: Key, null: Callable[[Config], Any]) -> Any:
        """The meaning of a null key, computed by `null` from other keys.

        Raises:
            ValueError: it cannot be computed from their values.
        """
        try:
            return null(self)
        except (TypeError, ZeroDivisionError) as error:
            unsaid = f"{key.theirs} is missing, and does not follow from other keys"
            raise ValueError(f"{self.place}: {unsaid}: {error}") from None

    def settings(self, key: Key) -> dict[str, Any]:
        """The settings that a key gives, by path.

        Raises:
            ValueError: the target cannot express the value.
        """
        value = self(key.theirs)
        if value is None and key.null_means is not None:
            value = self.null_value(key, key.null_means)
        try:
            return key.read(value)
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None
        except (TypeError, AttributeError, LookupError):  # a value of a type that the conversion cannot take
            raise ValueError(f"{self.place}: {key.theirs} cannot be {value!r:.80}") from None


def read_family(checkpoint: CheckpointFolder, config: ConfigReader) -> tuple[Target, ModelSettings | None]:
    """The target that a config.json names; for zoo's own target, also the settings, which it holds as zoo writes them.

    Raises:
        ValueError: an unknown model_type, or a key has a value that the target cannot express.
    """
    named, settings = config.tree.get("model_type"), None
    known = {target.model_type: target for target in targets.values()}
    if named == MODEL_TYPE:
        target, settings = read_target(checkpoint, config.tree, config.place)
    elif isinstance(named, str) and named in known:
        target = known[named]
    else:
        every = (*known, MODEL_TYPE)
        unknown = f"zoo cannot import model type {named!r:.80}{nearest(str(named)[:80], every)}"
        unknown = "the key 'model_type' is missing" if named is None else unknown
        raise ValueError(f"{config.place}: {unknown}; zoo imports: {', '.join(every)}")
    config.resolve_aliases(target.aliases)
    config.tree = dict(target.modernize(config.tree))
    check_demands(config, target, checkpoint.class_name)
    return target, settings


def check_demands(config: ConfigReader, target: Target, class_name: str | None) -> None:
    """Refuse values of keys that change the model and that the target cannot express.

    Raises:
        ValueError: there is such a value.
    """
    # so that a demand can look up other keys
    config.defaults = dict.fromkeys(target.cache_demands) | {key.theirs: key.default for key in target.keys}
    own = next((chosen for chosen in target.classes if chosen.name == class_name), None)
    ignored, demands = ((), {}) if own is None else (own.ignored_constants, own.demands)
    cache = target.cache_demands if own is None or own.generates else {}
    demanded = {key: (value,) for key, value in target.constants.items() if key not in (*target.lenient, *ignored)}
    for key, accepted in {**ACCEPTED, **demanded, **target.demands, **cache, **demands}.items():
        value = config.find(key)
        if value is REQUIRED:
            continue
        allowed = accepted(config) if callable(accepted) else accepted
        if value not in allowed:
            alike = spell_value(value) in map(spell_value, allowed)  # a text, where a number is meant
            found = f"{key} is {repr(value) if alike else spell_value(value):.80}"
            only = f"with {join_values(allowed, ' or ')}" if allowed else "without that key"
            raise ValueError(f"{config.place}: {found}; zoo imports {target.family} only {only}")


def read_flat(config: ConfigReader, target: Target) -> FlatSettings:
    """Read settings by path from the keys, then fill in settings for which the target requires one value.

    Keys in the file take precedence over defaults; of several keys for one setting the first counts.

    Raises:
        ValueError: an unknown value, or two keys in the file contradict each other.
    """
    config.defaults = {key.theirs: key.default for key in target.keys}
    said = [key for key in target.keys if config.find(key.theirs) is not REQUIRED]
    found: FlatSettings = {}
    for key in (*said, *(key for key in target.keys if key not in said)):
        if not key.applies(found):
            continue
        for path, value in config.settings(key).items():
            # keys with `merge` may disagree, since no output depends on their settings
            if path in found and found[path] != (value,) and key in said and key.merge is None:
                raise ValueError(
                    f"{config.place}: {key.theirs} is {spell_value(value)}, but another key gives "
                    f"{join_values(found[path])}; zoo has one setting for both, {path}"
                )
            found.setdefault(path, (value,))
    for demand in target.requirements:
        if demand.path not in found:
            try:
                allowed = demand.values(found)
            except (KeyError, TypeError, ZeroDivisionError):  # it depends on a setting not read, or no number
                continue
            if allowed and allowed[0] is not None:
                found[demand.path] = (allowed[0],)
    return {path: (value(found),) for path, value in target.headless_defaults.items()} | found


def build_settings(flat: FlatSettings, target: Target, elements: Iterable[int], place: str) -> ModelSettings:
    """Build the model's settings from settings by path.

    Args:
        elements: number of elements of each stored tensor.

    Raises:
        ValueError: they do not combine, claim sizes beyond the stored tensors, or do not fit the target.
    """
    layered = by_layer({path: value for path, (value, *_) in flat.items()})
    # shorter paths first, so that options are added to a name, and no name replaces its options
    tree = as_tree((path.split("."), layered[path]) for path in sorted(layered, key=lambda path: path.count(".")))
    stream = tree[target.sides[-1]]
    own = tree.get("heads", {})
    tree |= {name: stream[name] for name in INHERITED if name in stream}
    tree["heads"] = {name: own.get(name, {}) for name in target.classes[0].heads}
    settings = parse_settings(tree, place=place)
    Bounds(elements).check(tree, place)  # before anything is built, or counted, layer by layer: sizes are untrusted
    obstacle = target.obstacle(settings)
    if obstacle is not None:
        raise ValueError(f"{place}: {obstacle}")
    try:
        on_meta(settings)
    except ValueError as error:  # a value that only a block checks, such as a dropout of 2
        raise ValueError(f"{place}: {error}") from None
    return settings
