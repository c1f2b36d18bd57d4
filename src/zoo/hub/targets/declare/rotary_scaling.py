"""Keys that say how rotary positions are scaled: `rope_parameters` of version 5, `rope_scaling` of versions before."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.hub.targets.declare.key import Key, key, like
from zoo.hub.targets.declare.renaming import Change

NEWER, OLDER, TRAINED = "rope_parameters", "rope_scaling", "original_max_position_embeddings"
NAMES = {None: "default", "linear": "linear", "dynamic": "dynamic", "yarn": "yarn", "llama3": "llama3"}
SCALED = tuple(name for name in NAMES if name is not None)
REMEMBER = ("yarn", "llama3")  # those whose file says how long the texts of training were
OPTIONS: tuple[tuple[str, str, tuple[str, ...], Any], ...] = (  # theirs, ours, of which scalings, and their default
    ("attention_factor", "attention_factor", ("yarn",), None),
    ("beta_fast", "beta_fast", ("yarn",), 32.0),
    ("beta_slow", "beta_slow", ("yarn",), 1.0),
    ("truncate", "truncate", ("yarn",), True),
    ("low_freq_factor", "low", ("llama3",), 1.0),
    ("high_freq_factor", "high", ("llama3",), 4.0),
)
# what else their functions read
UNREAD_SCALING: Mapping[str, tuple[Any, ...]] = {
    f"{NEWER}.mscale": (None, 0),
    f"{NEWER}.mscale_all_dim": (None, 0),
    f"{NEWER}.partial_rotary_factor": (None, 1.0),
    "partial_rotary_factor": (None, 1.0),
}


def newer_rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config.json whose `rope_scaling`, which counts first where it is not empty, has become `rope_parameters`.

    Either may spell its `rope_type` as `type`, and a length of training beside it goes before the one in it.

    Source: transformers' `modeling_rope_utils`, `standardize_rope_params`.
    """
    said = config.get(OLDER) or config.get(NEWER)
    if not isinstance(said, Mapping):
        return config
    named = {key: value for key, value in said.items() if key != "type"}
    named.setdefault("rope_type", said.get("type", "default"))
    if named["rope_type"] in REMEMBER and config.get(TRAINED) is not None:
        named[TRAINED] = config[TRAINED]
    base = {key: config[key] for key in ("rope_theta",) if key in config}
    return {key: value for key, value in config.items() if key != OLDER} | {NEWER: base | named}


def scaling_keys(side: str) -> Iterator[Key]:
    """How the rotary positions of a side are scaled, as both versions say it; the older keys are written only."""
    path, never = f"{side}.position.scaling", Change(lambda value: value, None)
    yield key(f"{NEWER}.rope_type", path, names=NAMES, default="default")
    none = {"default": None, "null": lambda _: None}
    yield key(OLDER, path, names={None: None}, when=(path, (None,)), **none)
    yield key(f"{OLDER}.rope_type", path, through=never, when=(path, SCALED), **none)
    for prefix, way in ((NEWER, None), (OLDER, never)):
        yield key(f"{prefix}.factor", f"{path}.factor", through=way, when=(path, SCALED), **none)
        trained = {"default": None, "null": like("max_position_embeddings")}
        theirs = f"{prefix}.{TRAINED}"
        yield key(theirs, f"{path}.trained_length", through=way, when=(path, REMEMBER), **trained)
        for name, ours, among, default in OPTIONS:
            nothing = False if default is True else default  # their class takes null of a switch for false
            said = {"default": default, "null": lambda _, value=nothing: value}
            yield key(f"{prefix}.{name}", f"{path}.{ours}", through=way, when=(path, among), **said)


def longest_keys(side: str, default: int) -> Iterator[Key]:
    """The most positions; where the scaling is dynamic, those of training, beyond which their class scales."""
    path, said = f"{side}.position.scaling", {"default": default}
    others = tuple(name for name in NAMES if name != "dynamic")
    longest = f"{side}.max_length"
    yield key("max_position_embeddings", longest, when=(path, others), **said)
    trained = f"{path}.trained_length"
    yield key("max_position_embeddings", trained, longest, merge=min, when=(path, ("dynamic",)), **said)
