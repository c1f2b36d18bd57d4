"""The 2017 Transformer: ours against torch.nn's layers and Marian, with the same random weights."""

from typing import Any

import pytest
import torch
from copied import State, close, load, randomized, split, take
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from zoo import create_model

TOKENS = torch.randint(0, 300, (3, 7), generator=torch.Generator().manual_seed(0))
SOURCE = torch.randint(0, 300, (3, 10), generator=torch.Generator().manual_seed(1))
PADDED = torch.tensor([[1] * 10, [1] * 3 + [0] * 2 + [1] * 3 + [0] * 2, [1] + [0] * 9])  # the second with a gap
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
D_MODEL = 32
# Marian's table of sinusoids has all sines first: its axes of the stream are ours in this order.
ORDER = torch.cat([torch.arange(0, D_MODEL, 2), torch.arange(1, D_MODEL, 2)]).argsort()


def reads(ours: str, map: nn.Module) -> State:
    return {f"{ours}.weight": map.weight.detach()[:, ORDER], f"{ours}.bias": map.bias.detach()}


def writes(ours: str, map: nn.Module) -> State:
    return {f"{ours}.weight": map.weight.detach()[ORDER], f"{ours}.bias": map.bias.detach()[ORDER]}


def norm(ours: str, theirs: nn.Module) -> State:
    return {name: parameter[ORDER] for name, parameter in take(ours, theirs).items()}


def attention_state(ours: str, theirs: nn.Module) -> State:
    state = reads(f"{ours}.query", theirs.q_proj) | reads(f"{ours}.key", theirs.k_proj)
    return state | reads(f"{ours}.value", theirs.v_proj) | writes(f"{ours}.output", theirs.out_proj)


def marian_state(theirs: MarianMTModel) -> State:
    state: State = {"decoder.stack.embeddings.tokens.weight": theirs.model.shared.weight.detach()[:, ORDER]}
    for side, part in (("encoder", theirs.model.encoder), ("decoder", theirs.model.decoder)):
        for i, layer in enumerate(part.layers):
            block = f"{side}.stack.blocks.{i}"
            state |= attention_state(f"{block}.mixer.attention", layer.self_attn)
            state |= norm(f"{block}.norms.mixer", layer.self_attn_layer_norm)
            if side == "decoder":
                state |= attention_state(f"{block}.cross", layer.encoder_attn)
                state |= norm(f"{block}.norms.cross", layer.encoder_attn_layer_norm)
            state |= reads(f"{block}.feed_forward.up", layer.fc1) | writes(f"{block}.feed_forward.down", layer.fc2)
            state |= norm(f"{block}.norms.feed_forward", layer.final_layer_norm)
    return state


@DTYPES
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_transformer_is_marian(dtype: torch.dtype, attention: str):
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    settings = MarianConfig(
        vocab_size=300,
        decoder_vocab_size=300,
        d_model=D_MODEL,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        decoder_start_token_id=1,
        eos_token_id=2,
        attn_implementation=attention,
        **sizes,
    )
    theirs = MarianMTModel(settings).to(dtype)
    tables = {name: p.clone() for name, p in theirs.named_parameters() if "embed_positions" in name}
    randomized(theirs).load_state_dict(tables, strict=False)
    ours = load("transformer-nano", marian_state(theirs))
    expected = theirs(SOURCE, attention_mask=PADDED, decoder_input_ids=TOKENS).logits
    close(ours(TOKENS, SOURCE, source_documents=PADDED).logits, expected)


def layer_state(ours: str, theirs: nn.Module, side: str) -> State:
    """A torch layer's weights; its norms are numbered in the order of the sublayers."""
    mixer, names = (
        theirs.self_attn,
        ["mixer", "feed_forward"] if side == "encoder" else ["mixer", "cross", "feed_forward"],
    )
    state = split(f"{ours}.mixer.attention", mixer.in_proj_weight, mixer.in_proj_bias)
    state |= take(f"{ours}.mixer.attention.output", mixer.out_proj)
    if side == "decoder":
        cross = theirs.multihead_attn
        state |= split(f"{ours}.cross", cross.in_proj_weight, cross.in_proj_bias)
        state |= take(f"{ours}.cross.output", cross.out_proj)
    state |= take(f"{ours}.feed_forward.up", theirs.linear1) | take(f"{ours}.feed_forward.down", theirs.linear2)
    for number, name in enumerate(names, start=1):
        state |= take(f"{ours}.norms.{name}", theirs.get_submodule(f"norm{number}"))
    return state


@DTYPES
@pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_is_torchs(dtype: torch.dtype, norm_first: bool, activation: str):
    options: dict[str, Any] = {"batch_first": True, "norm_first": norm_first, "activation": activation}
    theirs = nn.Transformer(D_MODEL, 4, 2, 2, 48, **options, dtype=dtype)
    if not norm_first:  # torch ends a stack with a norm even where its blocks do
        theirs.encoder.norm = theirs.decoder.norm = None
    randomized(theirs)
    table = torch.randn(300, D_MODEL, generator=torch.Generator().manual_seed(3)).to(dtype)
    state: State = {"decoder.stack.embeddings.tokens.weight": table}
    for side, part in (("encoder", theirs.encoder), ("decoder", theirs.decoder)):
        for i, layer in enumerate(part.layers):
            state |= layer_state(f"{side}.stack.blocks.{i}", layer, side)
        state |= take(f"{side}.stack.norm", part.norm) if norm_first else {}
    changes: dict[str, Any] = {"embeddings.scale": False}
    for side in ("encoder", "decoder"):
        changes |= {f"{side}.position": "none", f"{side}.block": "pre_norm" if norm_first else "post_norm"}
        changes[f"{side}.feed_forward.activation"] = activation
    ours = load("transformer-nano", state, **changes)
    hidden = PADDED == 0
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    states = theirs(
        table[SOURCE], table[TOKENS], tgt_mask=later, src_key_padding_mask=hidden, memory_key_padding_mask=hidden
    )
    close(ours(TOKENS, SOURCE, source_documents=PADDED).logits, states @ table.T)


@DTYPES
def test_sinusoids_and_scale_enter_as_in_section_3_4(dtype: torch.dtype):
    model = create_model("transformer-nano").to(dtype).eval()
    stack = model.decoder.stack
    at = torch.arange(7)
    table: Tensor = torch.empty(7, D_MODEL, dtype=torch.float64)
    for i in range(0, D_MODEL, 2):
        table[:, i] = (at / 10000 ** (i / D_MODEL)).double().sin()
        table[:, i + 1] = (at / 10000 ** (i / D_MODEL)).double().cos()
    expected = stack.embeddings.tokens(TOKENS).double() * D_MODEL**0.5 + table
    embedded = stack.embed(TOKENS, None, at.expand(3, 7), 7)
    torch.testing.assert_close(embedded.double(), expected, rtol=1e-6, atol=1e-6)
