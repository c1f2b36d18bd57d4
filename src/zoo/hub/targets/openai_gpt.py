"""Native target `openai-gpt`: post-norm decoders that are transformers' OpenAIGPT… classes.

Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training"; transformers'
`models/openai`.
"""

from zoo.hub.targets.declare.classes import last_token_classifier, tied_causal_lm
from zoo.hub.targets.declare.recipes import OPENAI_GPT
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import TRANSPOSED, affine, same
from zoo.hub.targets.declare.requirements import plain_blocks, plain_embeddings
from zoo.hub.targets.declare.target import Requirement, Target, first, key

ACTIVATIONS = {"gelu_tanh": "gelu", "relu": "relu", "silu": "silu"}  # what they call gelu is the approximation
OURS = "decoder.stack.blocks.{i}"
THEIRS = "transformer.h.{i}"
QKV = [f"{OURS}.mixer.attention.{name}" for name in ("query", "key", "value")]

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
        Requirement("embeddings.norm", (None,)),
    ),
    keys=(
        key("vocab_size", "decoder.vocab_size", default=40478),
        key("n_positions", "decoder.max_length", default=512),
        key("n_embd", "decoder.d_model", default=768),
        key("n_layer", "decoder.n_layers", default=12),
        key("n_head", "decoder.n_heads", default=12),
        key("afn", "decoder.feed_forward.activation", names=ACTIVATIONS, default="gelu"),
        key("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
        key("resid_pdrop", "decoder.dropout", merge=first, default=0.1),
        key("embd_pdrop", "decoder.dropout", merge=first, default=0.1),
        key("attn_pdrop", "decoder.attention.dropout", merge=first, default=0.1),
    ),
    roles={"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end"},
    renames=(
        same("decoder.stack.embeddings.tokens.weight", "transformer.tokens_embed.weight"),
        same("decoder.stack.positions.0.table.weight", "transformer.positions_embed.weight"),
        *affine(QKV, f"{THEIRS}.attn.c_attn", weight=[TRANSPOSED]),
        *affine(f"{OURS}.mixer.attention.output", f"{THEIRS}.attn.c_proj", weight=[TRANSPOSED]),
        *affine(f"{OURS}.norms.mixer", f"{THEIRS}.ln_1"),
        *affine(f"{OURS}.feed_forward.up", f"{THEIRS}.mlp.c_fc", weight=[TRANSPOSED]),
        *affine(f"{OURS}.feed_forward.down", f"{THEIRS}.mlp.c_proj", weight=[TRANSPOSED]),
        *affine(f"{OURS}.norms.feed_forward", f"{THEIRS}.ln_2"),
    ),
    classes=(
        tied_causal_lm("OpenAIGPTLMHeadModel", "transformer.tokens_embed.weight"),
        last_token_classifier("OpenAIGPTForSequenceClassification"),
    ),
    longest="decoder.max_length",
    prefix="transformer.",
    strays=("attn.bias", "position_ids"),
    recipe=OPENAI_GPT,
)
register(target)
