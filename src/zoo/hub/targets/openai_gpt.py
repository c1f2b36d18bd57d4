"""Native target `openai-gpt`: post-norm decoders that are transformers' OpenAIGPT… classes.

Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training"; transformers'
`models/openai`.
"""

from zoo.hub.targets.declare.classes import double_heads, last_token_classifier, tied_causal_lm
from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.recipes import OPENAI_GPT
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.requirements import exactly, plain_blocks, plain_embeddings
from zoo.hub.targets.declare.target import Requirement, Target
from zoo.hub.targets.gpt2 import ALIASES, LAYERS, SIZES, TRAINING

ACTIVATIONS = {"gelu_tanh": "gelu", "relu": "relu", "silu": "silu"}  # OpenAI-GPT's gelu is the tanh form

target = Target(
    name="openai-gpt",
    model_type="openai-gpt",
    family="transformers' OpenAI-GPT",
    models="post-norm decoders with learned positions (GPT-1)",
    example="gpt",
    rank=3,
    sides=("decoder",),
    requirements=(
        *plain_blocks("decoder", "post_norm", "learned", ends_with_norm=False),
        Requirement("decoder.d_ff", lambda flat: (4 * flat["decoder.d_model"][0],), "4 d_model"),
        *plain_embeddings(),
        *exactly("embeddings", norm=None),
    ),
    keys=(
        key("vocab_size", "decoder.vocab_size", default=40478),
        key("n_positions", "decoder.max_length", default=512),
        *SIZES,
        key("afn", "decoder.feed_forward.activation", names=ACTIVATIONS, default="gelu"),
        *TRAINING,
    ),
    renames=(
        same("decoder.stack.embeddings.tokens.weight", "transformer.tokens_embed.weight"),
        same("decoder.stack.positions.0.table.weight", "transformer.positions_embed.weight"),
        *LAYERS,
    ),
    classes=(
        tied_causal_lm("OpenAIGPTLMHeadModel", "transformer.tokens_embed.weight"),
        last_token_classifier("OpenAIGPTForSequenceClassification"),
        double_heads("OpenAIGPTDoubleHeadsModel", "transformer.tokens_embed.weight"),
    ),
    longest="decoder.max_length",
    prefix="transformer.",
    strays=("attn.bias", "position_ids"),
    recipe=OPENAI_GPT,
    aliases=ALIASES,
)
register(target)
