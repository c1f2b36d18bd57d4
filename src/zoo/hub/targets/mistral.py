"""Native target `mistral`: Llama's decoders without biases, with a window or not, transformers' Mistral… classes.

Source: Jiang et al. 2023, arXiv:2310.06825; transformers' `models/mistral`. Its window of W is ours: a place sees those
at distances below W.
"""

from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.requirements import cached_window
from zoo.hub.targets.declare.target import Requirement, Target, key
from zoo.hub.targets.llama import CONSTANTS, KEYS, NO_QK_NORM, RENAMES, REQUIREMENTS, ROLES, classes, sizes

target = Target(
    name="mistral",
    model_type="mistral",
    family="transformers' Mistral",
    models="as `llama`, without biases, with one window or none",
    example="gpt-modern decoder.attention.window=5",
    sides=("decoder",),
    requirements=(
        *REQUIREMENTS,
        NO_QK_NORM,
        cached_window("decoder.attention.window"),
        Requirement("decoder.attention.bias", (False,)),
        Requirement("decoder.feed_forward.bias", (False,)),
    ),
    keys=(
        *KEYS,
        *sizes(32000, 14336, 131072, 8, None),
        key("sliding_window", "decoder.attention.window", default=4096),
    ),
    constants=CONSTANTS,
    roles=ROLES,
    renames=RENAMES,
    classes=classes("Mistral"),
    longest="decoder.max_length",
    prefix="model.",
    strays=("rotary_emb.inv_freq",),
)
register(target)
