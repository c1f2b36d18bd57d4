"""Stacks: what is cycled over layers, shared, frozen, recomputed and recorded; what a model takes and refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo import create_model
from zoo.blocks.backends.sdpa import Sdpa
from zoo.blocks.norm import LayerNorm, RMSNorm
from zoo.blocks.rows.documents import Documents
from zoo.models.model import Model
from zoo.models.settings import parse_settings

TOKENS = torch.randint(0, 300, (2, 7), generator=torch.Generator().manual_seed(0))
DOCUMENTS = torch.tensor([[1, 1, 1, 2, 2, 0, 0], [1, 1, 1, 1, 1, 1, 1]])
DOCUMENTS_OF_FIVE = torch.tensor([[1, 1, 1, 2, 2, 0, 0], [1, 1, 1, 1, 1, 2, 2]])


def gpt(**changes: Any) -> nn.Module:
    return create_model("gpt2-nano", n_layers=5, **changes).decoder.stack


def test_windows_are_cycled_over_layers():
    windows = [block.mixer.attention.window for block in gpt(**{"attention.window": [None, 3, 4]}).blocks]
    assert windows == [None, 3, 4, None, 3]


def test_rotary_bases_are_cycled_and_layers_with_the_same_one_share_it():
    stack = gpt(position={"name": "rotary", "base": [100.0, 9.0, 9.0]})
    assert [stack.positions[i].base for i in stack.position_of] == [100, 9, 9, 100, 9]
    assert len(stack.positions) == 2


def test_layers_share_one_table_of_relative_positions_as_in_t5():
    assert len(gpt(position="relative").positions) == 1


def test_layers_with_other_heads_have_tables_of_their_own():
    shapes = [tuple(p.table.weight.shape) for p in gpt(position="relative", n_heads=[4, 2]).positions]
    assert shapes == [(32, 4), (32, 2)]


def test_layers_with_other_heads_read_the_same_learned_positions():
    stack = gpt(n_heads=[4, 2])
    assert len(stack.positions) == 1 and stack.position_of == [0] * 5


def test_norms_are_cycled_and_the_last_layers_ends_the_stack():
    stack = gpt(norm=["layernorm", "rmsnorm"])
    assert [type(block.norms["mixer"]) for block in stack.blocks] == [LayerNorm, RMSNorm, LayerNorm, RMSNorm, LayerNorm]
    assert type(stack.norm) is LayerNorm


def test_widths_blocks_and_dropout_are_cycled():
    stack = gpt(d_ff=[7, 9], **{"decoder.dropout": [0.1, 0.2, 0.3]})
    assert [block.feed_forward.up.out_features for block in stack.blocks] == [7, 9, 7, 9, 7]
    assert [block.dropout.share for block in stack.blocks] == [0.1, 0.2, 0.3, 0.1, 0.2]
    assert [block.mixer.attention.dropout for block in stack.blocks] == [0.1, 0.2, 0.3, 0.1, 0.2]


@pytest.mark.parametrize(("given", "ends"), [(None, True), (True, True), (False, False)])
def test_a_pre_norm_stack_ends_with_a_norm_unless_told_otherwise(given: bool | None, ends: bool):
    assert isinstance(gpt(final_norm=given).norm, LayerNorm) == ends


def test_attention_to_a_memory_has_no_window():
    model = create_model("transformer-nano", **{"decoder.attention.window": 2, "encoder.attention.window": 3})
    block = model.decoder.stack.blocks[0]
    assert (block.mixer.attention.window, block.cross.window) == (2, None)


def test_encoder_and_decoder_share_one_matrix_of_token_vectors():
    model = create_model("transformer-nano")
    assert model.encoder.embeddings.tokens is model.decoder.embeddings.tokens
    apart = create_model("transformer-nano", **{"embeddings.shared": False})
    assert apart.encoder.embeddings.tokens is not apart.decoder.embeddings.tokens


def test_an_encoder_may_be_narrower_than_its_decoder():
    changes = {"encoder.d_model": 16, "encoder.vocab_size": 40, "embeddings.shared": False}
    model = create_model("transformer-nano", **changes)
    assert model(TOKENS, TOKENS % 40).logits.shape == (2, 7, 300)


def test_frozen_token_vectors_get_no_gradient():
    model = create_model("gpt-nano", **{"embeddings.frozen": True})
    model(TOKENS).logits.sum().backward()
    assert model.decoder.embeddings.tokens.weight.grad is None
    assert all(p.grad is not None for n, p in model.named_parameters() if "tokens" not in n)


def test_all_is_the_first_sentence_where_no_segments_are_given():
    model = create_model("bert-nano").eval()
    assert torch.equal(model(TOKENS).logits, model(TOKENS, segments=torch.zeros_like(TOKENS)).logits)
    assert not torch.equal(model(TOKENS).logits, model(TOKENS, segments=torch.ones_like(TOKENS)).logits)


@pytest.mark.parametrize("position", ["none", "learned", "rotary", "alibi", "relative"])
def test_recomputing_layers_changes_neither_loss_nor_gradients(position: str):
    found = []
    for recompute in (False, True):
        model = create_model("gpt2-nano", position=position).train()
        model.decoder.checkpointing = recompute
        torch.manual_seed(0)
        model(TOKENS, documents=DOCUMENTS).logits.square().mean().backward()
        found.append([p.grad for p in model.parameters()])
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again)


def test_recomputing_layers_of_both_sides_changes_no_gradients():
    found = []
    for recompute in (False, True):
        model = create_model("transformer-nano").train()
        for part in (model.encoder, model.decoder):
            part.checkpointing = recompute
        torch.manual_seed(0)
        model(TOKENS, TOKENS, DOCUMENTS, DOCUMENTS).logits.square().mean().backward()
        found.append([p.grad for p in model.parameters()])
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again)


def test_weights_come_by_side_and_layer_and_change_no_logits():
    model = create_model("transformer-nano").eval()
    said = model(TOKENS, TOKENS[:, :5], DOCUMENTS, DOCUMENTS[:, :5], weights=True)
    torch.testing.assert_close(said.logits, model(TOKENS, TOKENS[:, :5], DOCUMENTS, DOCUMENTS[:, :5]).logits)
    shapes = {name: [tuple(w.shape) for w in layers] for name, layers in said.weights.items()}
    assert shapes == {
        "encoder.self": [(2, 4, 5, 5)] * 2,
        "decoder.self": [(2, 4, 7, 7)] * 2,
        "decoder.cross": [(2, 4, 7, 5)] * 2,
    }
    assert model(TOKENS, TOKENS).weights is None


def test_only_attention_whose_weights_are_asked_for_leaves_its_backend(monkeypatch: pytest.MonkeyPatch):
    model, asked = create_model("transformer-nano").eval(), []
    attend = Sdpa.attend
    monkeypatch.setattr(Sdpa, "attend", lambda self, *given: asked.append(given[0]) or attend(self, *given))
    said = model(TOKENS, TOKENS, weights=("decoder.cross",))
    assert list(said.weights) == ["decoder.cross"] and len(asked) == 2 + 2  # of the encoder, of the decoder on itself


def test_layers_are_recomputed_while_their_weights_are_read_and_gradients_stay():
    found, runs = [], []
    for recompute in (False, True):
        model, calls = create_model("transformer-nano").train(), []
        for part in (model.encoder, model.decoder):
            part.checkpointing = recompute
            part.stack.blocks[0].feed_forward.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        torch.manual_seed(0)
        said = model(TOKENS, TOKENS, DOCUMENTS, DOCUMENTS, weights=("decoder.cross",))
        (said.logits.square().mean() + sum(w.square().sum() for w in said.weights["decoder.cross"])).backward()
        found.append([p.grad for p in model.parameters()])
        runs.append(len(calls))
    assert runs == [2, 4]
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again)


def test_target_document_k_reads_source_document_k():
    model = create_model("transformer-nano").eval()
    source = torch.tensor([[1, 1, 2, 2, 2, 0, 0]])
    weights = model(TOKENS[:1], TOKENS[:1], DOCUMENTS[:1], source, weights=True).weights["decoder.cross"][0]
    seen = (weights > 0).all(1)[0]
    assert torch.equal(seen, (DOCUMENTS[0, :, None] == source) & (DOCUMENTS[0] > 0)[:, None])


def test_leaving_documents_out_says_that_every_row_is_one():
    for name, source in (("gpt2-nano", None), ("bert-nano", None), ("transformer-nano", TOKENS)):
        model, ones = create_model(name).eval(), torch.ones_like(TOKENS)
        given = model(TOKENS, source, ones, None if source is None else ones)
        torch.testing.assert_close(model(TOKENS, source).logits, given.logits)


def test_a_model_with_both_parts_needs_a_source_and_one_with_a_single_part_takes_none():
    with pytest.raises(
        ValueError, match="source: this model has an encoder and a decoder, so it needs a source beside"
    ):
        create_model("transformer-nano")(TOKENS)
    with pytest.raises(ValueError, match="source: this model has one part, so it takes tokens only"):
        create_model("gpt-nano")(TOKENS, TOKENS)


@pytest.mark.parametrize("name", ["transformer-nano", "rnn-seq2seq-nano", "rnn-attention-nano"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_source_of_fewer_or_more_rows_than_the_tokens_is_refused(name: str, rows: int):
    with pytest.raises(ValueError, match=f"source: expected 2 rows, one per row of tokens, got {rows}"):
        create_model(name)(TOKENS, TOKENS[:1].expand(rows, -1))


@pytest.mark.parametrize("name", ["gpt2-nano", "rnn-seq2seq-nano"])
def test_documents_that_are_not_of_the_tokens_positions_are_refused(name: str):
    model = create_model(name)
    source = TOKENS if model.encoder is not None else None
    with pytest.raises(ValueError, match=r"documents: expected one number per position, \(2, 7\), got \(2, 6\)"):
        model(TOKENS, source, DOCUMENTS[:, :6])


@pytest.mark.parametrize("name", ["transformer-nano", "rnn-attention-nano"])
def test_documents_that_are_not_of_the_sources_positions_are_refused_by_its_name(name: str):
    with pytest.raises(
        ValueError, match=r"^source_documents: expected one number per position, \(2, 7\), got \(2, 6\)"
    ):
        create_model(name)(TOKENS, TOKENS, source_documents=DOCUMENTS[:, :6])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source_documents": TOKENS}, "source_documents: this model has one part"),
        (
            {"segments": torch.zeros_like(TOKENS)},
            r"segments: this model has no segment embeddings \(embeddings.segments\)",
        ),
        ({"places": {"langage": TOKENS}}, r"places: unknown head 'langage' \(did you mean 'language'\?\)"),
        ({"weights": ["decoder.slef"]}, r"weights: unknown kind 'decoder.slef' \(did you mean 'decoder.self'\?\)"),
        ({"weights": "self"}, "weights: unknown kind 'self'"),
        ({"places": {3: TOKENS}}, "places: unknown head '3'"),
        ({"draws": TOKENS}, "draws: this model has no generator"),
    ],
)
def test_what_a_model_does_not_read_is_refused(given: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        create_model("gpt2-nano")(TOKENS, **given)


def test_draws_without_positions_are_refused():
    with pytest.raises(ValueError, match="draws: they need the places of head 'masked_lm', which 'places' lacks"):
        create_model("electra-nano")(TOKENS, draws=TOKENS)


def test_one_kind_of_segments_is_read():
    model, segments = create_model("bert-nano", **{"embeddings.segments": 1}).eval(), torch.zeros_like(TOKENS)
    assert torch.equal(model(TOKENS, segments=segments).logits, model(TOKENS).logits)


def test_weights_of_one_kind_may_be_asked_for_by_its_name():
    found = create_model("gpt2-nano")(TOKENS, weights="decoder.self").weights
    assert found is not None and list(found) == ["decoder.self"]


def mixing(mixer: Any, position: str) -> Model:
    """As a file may say it; `--set` would refuse a position that nothing reads."""
    stack = {"n_layers": 2, "n_heads": 4, "d_ff": 64, "mixer": mixer, "position": position}
    return Model(parse_settings({"vocab_size": 300, "d_model": 32, "heads": ["language"], "decoder": stack}))


@pytest.mark.parametrize(("mixer", "tables"), [("recurrent", 0), (["convolution", "attention"], 1)])
def test_what_acts_in_attention_is_built_only_where_a_layer_attends(mixer: Any, tables: int):
    model = mixing(mixer, "relative")
    model(TOKENS, documents=DOCUMENTS).logits.sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    assert sum("positions" in name for name, _ in model.named_parameters()) == tables


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "relative", "rotary", "alibi"])
def test_a_model_that_only_convolves_takes_every_position(position: str):
    model = mixing("convolution", position)
    assert model(TOKENS).logits.isfinite().all()


def test_rows_longer_than_learned_positions_are_looked_at_only_where_lengths_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
):
    """A packer has told the lengths, and on a GPU looking at the positions would wait for it."""
    model = create_model("gpt2-nano", vocab_size=300, max_length=5).eval()
    told, alone = Documents.packed([[3, 2], [5, 2]], DOCUMENTS_OF_FIVE), Documents(DOCUMENTS_OF_FIVE)
    expected = model(TOKENS, documents=alone).heads["language"]
    monkeypatch.setattr(Tensor, "max", None)
    assert torch.equal(model(TOKENS, documents=told).heads["language"], expected)
    with pytest.raises(TypeError):
        model(TOKENS, documents=alone)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_of_no_rows_or_positions_nothing_is_said(shape: tuple[int, int]):
    for name in ("bert-nano", "gpt-modern-nano"):
        model = create_model(name).initialize(0)
        assert model(torch.ones(*shape, dtype=torch.long)).states.shape == (*shape, model.stream.d_model)
