"""Logits of BERT and ModernBERT: ours against transformers' classes with the same random weights."""

import pytest
import torch
from copied import State, close, load, randomized, split, take
from transformers import BertConfig, BertForPreTraining, ModernBertConfig, ModernBertForMaskedLM

TOKENS = torch.randint(0, 300, (3, 11), generator=torch.Generator().manual_seed(0))
SEGMENTS = torch.tensor([[0] * 5 + [1] * 6, [0] * 11, [0] * 2 + [1] * 9])
PADDED = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [1] * 2 + [0] * 3 + [1] * 3 + [0] * 3])  # the last with a gap
BLOCK = "encoder.stack.blocks"


def bert_state(theirs: BertForPreTraining) -> State:
    embeddings, head = theirs.bert.embeddings, theirs.cls.predictions
    state = take("encoder.stack.embeddings.tokens", embeddings.word_embeddings)
    state |= take("encoder.stack.embeddings.segments", embeddings.token_type_embeddings)
    state |= take("encoder.stack.embeddings.norm", embeddings.LayerNorm)
    state |= take("encoder.stack.positions.0.table", embeddings.position_embeddings)
    for i, layer in enumerate(theirs.bert.encoder.layer):
        attention, name = layer.attention, f"{BLOCK}.{i}.mixer.attention"
        for ours in ("query", "key", "value"):
            state |= take(f"{name}.{ours}", attention.self.get_submodule(ours))
        state |= take(f"{name}.output", attention.output.dense)
        state |= take(f"{BLOCK}.{i}.norms.mixer", attention.output.LayerNorm)
        state |= take(f"{BLOCK}.{i}.feed_forward.up", layer.intermediate.dense)
        state |= take(f"{BLOCK}.{i}.feed_forward.down", layer.output.dense)
        state |= take(f"{BLOCK}.{i}.norms.feed_forward", layer.output.LayerNorm)
    state |= take("pooler.dense", theirs.bert.pooler.dense)
    state |= take("heads.masked_lm.dense", head.transform.dense) | take(
        "heads.masked_lm.norm", head.transform.LayerNorm
    )
    state |= {"heads.masked_lm.bias": head.bias.detach()}
    return state | take("heads.next_sentence.output", theirs.cls.seq_relationship)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bert_is_bert_for_pretraining(dtype: torch.dtype, attention: str):
    settings = BertConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        attn_implementation=attention,
    )
    theirs = randomized(BertForPreTraining(settings).to(dtype))
    ours = load("bert-nano", bert_state(theirs))
    expected = theirs(TOKENS, token_type_ids=SEGMENTS, attention_mask=PADDED)
    said = ours(TOKENS, documents=PADDED, segments=SEGMENTS).heads
    close(said["masked_lm"][PADDED > 0], expected.prediction_logits[PADDED > 0])
    close(said["next_sentence"], expected.seq_relationship_logits)
    close(ours(TOKENS).logits, theirs(TOKENS).prediction_logits)


@pytest.mark.parametrize(  # in float64 theirs gives nan for padded rows in eager mode
    ("dtype", "attention"), [(torch.float32, "eager"), (torch.float32, "sdpa"), (torch.float64, "sdpa")], ids=str
)
def test_bert_modern_is_modernbert(dtype: torch.dtype, attention: str):
    settings = ModernBertConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        local_attention=4,
        pad_token_id=0,
        attn_implementation=attention,
    )
    theirs = randomized(ModernBertForMaskedLM(settings).to(dtype))
    assert settings.layer_types == ["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"]
    core = theirs.model
    state = take("encoder.stack.embeddings.tokens", core.embeddings.tok_embeddings)
    state |= take("encoder.stack.embeddings.norm", core.embeddings.norm) | take("encoder.stack.norm", core.final_norm)
    for i, layer in enumerate(core.layers):
        state |= split(f"{BLOCK}.{i}.mixer.attention", layer.attn.Wqkv.weight)
        state |= take(f"{BLOCK}.{i}.mixer.attention.output", layer.attn.Wo)
        gate, up = layer.mlp.Wi.weight.detach().chunk(2)
        state |= {f"{BLOCK}.{i}.feed_forward.gate.weight": gate, f"{BLOCK}.{i}.feed_forward.up.weight": up}
        state |= take(f"{BLOCK}.{i}.feed_forward.down", layer.mlp.Wo)
        state |= take(f"{BLOCK}.{i}.norms.feed_forward", layer.mlp_norm)
        state |= {} if i == 0 else take(f"{BLOCK}.{i}.norms.mixer", layer.attn_norm)
    state |= take("heads.masked_lm.dense", theirs.head.dense) | take("heads.masked_lm.norm", theirs.head.norm)
    state |= {"heads.masked_lm.bias": theirs.decoder.bias.detach()}
    sizes = {"vocab_size": 300, "max_length": 64, "d_model": 32, "n_layers": 4, "n_heads": 4, "d_ff": 48}
    ours = load("bert-modern", state, **sizes, **{"encoder.attention.window": [None, 3, 3]})
    expected = theirs(TOKENS, attention_mask=PADDED).logits[PADDED > 0]
    if dtype == torch.float32:
        close(ours(TOKENS, documents=PADDED).logits[PADDED > 0], expected)
    else:  # theirs computes angles in float32 whatever the model's dtype
        torch.testing.assert_close(ours(TOKENS, documents=PADDED).logits[PADDED > 0], expected, rtol=1e-5, atol=1e-5)
