"""Native target `pegasus`: pre-norm encoder-decoders with sinusoids that are transformers' PegasusFor… class.

Its layers are those of `marian`, with norms in other places.

Source: Zhang et al. 2020, arXiv:1912.08777; transformers' `models/pegasus`.
"""

from zoo.hub.targets.declare.classes import translator
from zoo.hub.targets.declare.recipes import PEGASUS
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.requirements import UNSCALED, both, plain_blocks
from zoo.hub.targets.declare.target import Requirement, Target, key
from zoo.hub.targets.marian import COLUMNS, COPIES, LAYERS, LOGITS_BIAS, SIZES, TABLES, TOKENS, stream_norm

target = Target(
    name="pegasus",
    model_type="pegasus",
    family="transformers' Pegasus",
    models="pre-norm encoder-decoders with sinusoids",
    example="transformer-pre-norm",
    sides=("encoder", "decoder"),
    requirements=(
        *plain_blocks("encoder", "pre_norm", "sinusoidal", ends_with_norm=True),
        *plain_blocks("decoder", "pre_norm", "sinusoidal", ends_with_norm=True),
        Requirement("encoder.norm.eps", (1e-5,)),
        Requirement("decoder.norm.eps", (1e-5,)),
        Requirement("embeddings.norm", (None,)),
        Requirement("embeddings.segments", (0,)),
        Requirement("embeddings.shared", (True,)),
    ),
    keys=(key("vocab_size", *both("vocab_size"), default=50265), *SIZES),
    constants={"is_encoder_decoder": True, "forced_eos_token_id": None, "tie_word_embeddings": True},
    roles={"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end", "decoder_start_token_id": "start"},
    renames=(
        same(TOKENS.format("encoder"), "model.shared.weight", COLUMNS),
        *LAYERS,
        *stream_norm("encoder.stack.norm", "model.encoder.layer_norm"),
        *stream_norm("decoder.stack.norm", "model.decoder.layer_norm"),
    ),
    tables=TABLES,
    classes=(
        translator(
            "PegasusForConditionalGeneration",
            requirements=(Requirement("heads.language.tied", (True,)), UNSCALED),
            renames=(LOGITS_BIAS,),
        ),
    ),
    longest="encoder.max_length",
    prefix="model.",
    copies=COPIES,
    lenient=("forced_eos_token_id",),
    recipe=PEGASUS,
)
register(target)
