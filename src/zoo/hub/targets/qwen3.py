"""Native target `qwen3`: Llama's decoders with normalized queries and keys, transformers' Qwen3… classes.

Source: Yang et al. 2025, arXiv:2505.09388; transformers' `models/qwen3`. Some layers may have a window, of one size for
all.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from zoo.hub.targets.declare.flat_settings import GLOBAL, LOCAL, in_layers
from zoo.hub.targets.declare.key import Config, key
from zoo.hub.targets.declare.layer_types import THEIRS as KINDS
from zoo.hub.targets.declare.layer_types import layer_indices, layer_types, one_each, repeated_key
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.requirements import cached_window, equal_to, exactly
from zoo.hub.targets.declare.rotary_scaling import ROPE_PARAMETERS, modernize_rope
from zoo.hub.targets.llama import DEMANDS, KEYS, REQUIREMENTS, THEIRS, classes, sizes
from zoo.hub.targets.llama import target as llama

OURS = "decoder.stack.blocks.{i}.mixer.attention"
WINDOW = in_layers(LOCAL, "decoder.attention.window")


def modernize(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config.json with newer rotary keys, and with `use_sliding_window` false if there is no window."""
    unused = "use_sliding_window" not in config or config.get("sliding_window", 0) is None
    return {**modernize_rope(config), **({"use_sliding_window": False} if unused else {})}


def used_window(config: Config) -> tuple[Any, ...]:
    """For `Target.demands`: layers with a window need `use_sliding_window` and a `sliding_window`."""
    kinds, slides = config("layer_types"), KINDS[LOCAL]
    if config("use_sliding_window") is False and isinstance(kinds, list) and slides in kinds:
        return (f"true and a sliding_window, since layer_types has {slides}",)
    return (True, False)


def older_layers(config: Config) -> list[str]:
    """The kinds of layers if the file does not list them: with `use_sliding_window`, the last ones have the window."""
    whole = config("max_window_layers") if config("use_sliding_window") else config("num_hidden_layers")
    return [GLOBAL if i < whole else LOCAL for i in layer_indices(config)]


target = dataclasses.replace(
    llama,
    name="qwen3",
    model_type="qwen3",
    family="transformers' Qwen3",
    models="as `llama`, with queries and keys normalized; layers may have a window",
    example="gpt-modern decoder.attention.qk_norm=true decoder.attention.window=[5,null]",
    rank=10,
    requirements=(
        *REQUIREMENTS,
        *exactly("decoder.attention", qk_norm="rmsnorm"),
        equal_to("decoder.attention.qk_norm.eps", "decoder.norm.eps"),
        cached_window("decoder.attention.window"),
        *exactly("decoder.feed_forward", bias=False),
    ),
    keys=(
        *KEYS,
        *sizes(151936, 22016, 32768, 32, 128),
        key("attention_bias", "decoder.attention.bias", default=False),
        layer_types("decoder", older_layers),
        repeated_key("use_sliding_window", "decoder", lambda kinds: LOCAL in kinds, default=False),
        repeated_key("max_window_layers", "decoder", lambda kinds: (*kinds, LOCAL).index(LOCAL), default=28),
        key(
            "sliding_window",
            WINDOW,
            default=None,
            null_means=lambda config: 4096 if config("use_sliding_window") else None,
        ),
    ),
    renames=(
        *llama.renames,
        same(f"{OURS}.query_norm.weight", f"{THEIRS}.self_attn.q_norm.weight"),
        same(f"{OURS}.key_norm.weight", f"{THEIRS}.self_attn.k_norm.weight"),
    ),
    modernize=modernize,
    demands={
        **DEMANDS,
        "layer_types": one_each,
        "use_sliding_window": used_window,
        # rotary positions of each kind of layer, which its class cannot read
        **{f"{ROPE_PARAMETERS}.{kind}": (None,) for kind in KINDS.values()},
    },
    cache_demands={},  # its attention has the windows that its cache has
    classes=classes("Qwen3"),
)
register(target)
