"""Native target `pegasus`: pre-norm encoder-decoders with sinusoids that are transformers' PegasusFor… class.

It has the layers of `marian`, with norms in other places.

Source: Zhang et al. 2020, arXiv:1912.08777; transformers' `models/pegasus`.
"""

import dataclasses

from zoo.hub.targets.declare.classes import translator
from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.recipes import PEGASUS
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.requirements import UNSCALED, both_sides, exactly
from zoo.hub.targets.marian import COLUMNS, LAYERS, LOGITS_BIAS, SHARED, SIZES, TOKENS, stacks, writes_stream
from zoo.hub.targets.marian import target as marian

target = dataclasses.replace(
    marian,
    name="pegasus",
    model_type="pegasus",
    family="transformers' Pegasus",
    models="pre-norm encoder-decoders with sinusoids",
    example="transformer-pre-norm",
    rank=10,
    requirements=(*stacks("pre_norm", ends_with_norm=True), *exactly("embeddings", shared=True)),
    keys=(key("vocab_size", *both_sides("vocab_size"), default=50265), *SIZES),
    constants={**marian.constants, "tie_word_embeddings": True},
    renames=(
        same(TOKENS.format("encoder"), SHARED, COLUMNS),
        *LAYERS,
        *writes_stream("encoder.stack.norm", "model.encoder.layer_norm"),
        *writes_stream("decoder.stack.norm", "model.decoder.layer_norm"),
    ),
    classes=(
        translator(
            "PegasusForConditionalGeneration",
            requirements=(*exactly("heads.language", tied=True), UNSCALED),
            renames=(LOGITS_BIAS,),
        ),
    ),
    recipe=PEGASUS,
)
register(target)
