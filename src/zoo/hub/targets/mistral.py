"""Native target `mistral`: Llama's decoders without biases, with or without a window, transformers' Mistral… classes.

Source: Jiang et al. 2023, arXiv:2310.06825; transformers' `models/mistral`. Its window W means the same as zoo's: a
position attends to distances below W.
"""

import dataclasses

from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.layer_types import THEIRS
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.requirements import cached_window, exactly, whole_cache
from zoo.hub.targets.llama import DEMANDS, KEYS, REQUIREMENTS, classes, sizes
from zoo.hub.targets.llama import target as llama

target = dataclasses.replace(
    llama,
    name="mistral",
    model_type="mistral",
    family="transformers' Mistral",
    models="as `llama`, without biases, with one window or none",
    example="gpt-modern decoder.attention.window=5",
    rank=10,
    requirements=(
        *REQUIREMENTS,
        *exactly("decoder.attention", qk_norm=False),
        cached_window("decoder.attention.window"),
        *exactly("decoder.attention", bias=False),
        *exactly("decoder.feed_forward", bias=False),
    ),
    keys=(
        *KEYS,
        *sizes(32000, 14336, 131072, 8, None),
        key("sliding_window", "decoder.attention.window", default=4096),
    ),
    demands=DEMANDS,
    cache_demands=whole_cache("max_position_embeddings", *THEIRS.values()),
    classes=classes("Mistral"),
)
register(target)
