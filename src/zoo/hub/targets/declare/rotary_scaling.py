"""Keys for the scaling of rotary positions: `rope_parameters` in transformers 5, `rope_scaling` before."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.hub.targets.declare.key import Key, key, value_of
from zoo.hub.targets.declare.renaming import Conversion

ROPE_PARAMETERS, ROPE_SCALING, ORIGINAL_LENGTH = "rope_parameters", "rope_scaling", "original_max_position_embeddings"
NAMES = {None: "default", "linear": "linear", "dynamic": "dynamic", "yarn": "yarn", "llama3": "llama3"}
SCALED = tuple(name for name in NAMES if name is not None)
HAS_ORIGINAL_LENGTH = ("yarn", "llama3")  # scalings whose files give the context length of training
OPTIONS: tuple[tuple[str, str, tuple[str, ...], Any], ...] = (  # transformers' name, zoo's name, scalings, default
    ("attention_factor", "attention_factor", ("yarn",), None),
    ("beta_fast", "beta_fast", ("yarn",), 32.0),
    ("beta_slow", "beta_slow", ("yarn",), 1.0),
    ("truncate", "truncate", ("yarn",), True),
    ("low_freq_factor", "low", ("llama3",), 1.0),
    ("high_freq_factor", "high", ("llama3",), 4.0),
)
# further keys that transformers' scaling functions read, with the values that change nothing
NEUTRAL_SCALING: Mapping[str, tuple[Any, ...]] = {
    f"{ROPE_PARAMETERS}.mscale": (None, 0),
    f"{ROPE_PARAMETERS}.mscale_all_dim": (None, 0),
    f"{ROPE_PARAMETERS}.partial_rotary_factor": (None, 1.0),
    "partial_rotary_factor": (None, 1.0),
}


def modernize_rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config.json in which `rope_scaling`, unless it is empty, has replaced `rope_parameters`.

    Either may spell `rope_type` as `type`. A top-level `original_max_position_embeddings` overrides the one in the map.

    Source: transformers' `modeling_rope_utils`, `standardize_rope_params`.
    """
    said = config.get(ROPE_SCALING) or config.get(ROPE_PARAMETERS)
    if not isinstance(said, Mapping):
        return config
    named = {key: value for key, value in said.items() if key != "type"}
    named.setdefault("rope_type", said.get("type", "default"))
    if named["rope_type"] in HAS_ORIGINAL_LENGTH and config.get(ORIGINAL_LENGTH) is not None:
        named[ORIGINAL_LENGTH] = config[ORIGINAL_LENGTH]
    base = {key: config[key] for key in ("rope_theta",) if key in config}
    return {key: value for key, value in config.items() if key != ROPE_SCALING} | {ROPE_PARAMETERS: base | named}


def scaling_keys(side: str) -> Iterator[Key]:
    """Yield the keys for a side's rotary scaling, as both versions spell them; the older keys are not read back."""
    path, never = f"{side}.position.scaling", Conversion(lambda value: value, None)
    yield key(f"{ROPE_PARAMETERS}.rope_type", path, names=NAMES, default="default")
    none = {"default": None, "null_means": lambda _: None}
    yield key(ROPE_SCALING, path, names={None: None}, when=(path, (None,)), **none)
    yield key(f"{ROPE_SCALING}.rope_type", path, conversion=never, when=(path, SCALED), **none)
    for prefix, way in ((ROPE_PARAMETERS, None), (ROPE_SCALING, never)):
        yield key(f"{prefix}.factor", f"{path}.factor", conversion=way, when=(path, SCALED), **none)
        trained = {"default": None, "null_means": value_of("max_position_embeddings")}
        theirs = f"{prefix}.{ORIGINAL_LENGTH}"
        yield key(theirs, f"{path}.trained_length", conversion=way, when=(path, HAS_ORIGINAL_LENGTH), **trained)
        for name, ours, among, default in OPTIONS:
            nothing = False if default is True else default  # transformers reads null as false
            said = {"default": default, "null_means": lambda _, value=nothing: value}
            yield key(f"{prefix}.{name}", f"{path}.{ours}", conversion=way, when=(path, among), **said)


def max_length_keys(side: str, default: int) -> Iterator[Key]:
    """Yield the key of the maximum length; with dynamic scaling it holds the length in training."""
    path, said = f"{side}.position.scaling", {"default": default}
    others = tuple(name for name in NAMES if name != "dynamic")
    longest = f"{side}.max_length"
    yield key("max_position_embeddings", longest, when=(path, others), **said)
    trained = f"{path}.trained_length"
    yield key("max_position_embeddings", trained, longest, merge=min, when=(path, ("dynamic",)), **said)
