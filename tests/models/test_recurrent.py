"""Recurrent encoder and decoder against their formulas, written out step by step with torch's own cells."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo import create_model
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.models.kinds.part import PartInput
from zoo.models.kinds.source import TargetSources
from zoo.models.model import Model

EXACT = {"rtol": 1e-10, "atol": 1e-10}
TOKENS = torch.randint(0, 300, (2, 6), generator=torch.Generator().manual_seed(0))
SOURCE = torch.randint(0, 300, (2, 5), generator=torch.Generator().manual_seed(1))
PADDED = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "vanilla": nn.RNNCell}
WHOLE = {"gru": nn.GRU, "lstm": nn.LSTM, "vanilla": nn.RNN}


def build(name: str, **changes: Any) -> Model:
    model = create_model(name, d_model=8, **changes).double().eval()
    for seed, parameter in enumerate(model.parameters()):
        nn.init.normal_(parameter, std=0.4, generator=torch.Generator().manual_seed(seed))
    return model


def cell_of(kernel: nn.RNNBase, name: str) -> nn.Module:
    """torch's cell with a kernel's weights."""
    cell = CELLS[name](kernel.input_size, kernel.hidden_size).double()
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in kernel.state_dict().items()})
    return cell


def said_step_by_step(model: Model, name: str, row: int) -> tuple[Tensor, Tensor]:
    """s_t = g(y_{t-1}, s_{t-1}, c_t) for one row, in words of the formula; and the weights of every step."""
    decoder, words = model.decoder, model.decoder.embeddings.tokens.weight
    memory = model.encode_source(SOURCE, PADDED)
    states = memory.states[row, PADDED[row] > 0]
    half = states.shape[1] // 2
    summary = torch.cat([states[-1, :half], states[0, half:]])
    start = torch.tanh(decoder.begin.weight @ summary + decoder.begin.bias).split(decoder.d_model)
    cell, s, c = cell_of(decoder.layers[0].kernel, name), start[0], start[-1]
    said, weights = [], []
    for word in words[TOKENS[row]]:
        context = summary
        if decoder.attention is not None:
            score = decoder.attention.score
            hidden = torch.tanh(states @ score.key.weight.T + score.query.weight @ s)
            weights.append((hidden @ score.weigh.weight[0]).softmax(0))
            context = weights[-1] @ states
        read = torch.cat([word, context])[None]
        if name == "lstm":
            s, c = (v[0] for v in cell(read, (s[None], c[None])))
        else:
            s = cell(read, s[None])[0]
        parts = torch.cat([s, word, context])
        said.append(torch.tanh(decoder.readout.weight @ parts + decoder.readout.bias) @ words.T)
    return torch.stack(said), torch.stack(weights) if weights else torch.zeros(0)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_the_decoder_is_the_formula(name: str, cell: str):
    model = build(name, **{"decoder.cell": cell})
    out = model(TOKENS, SOURCE, source_documents=PADDED, weights=True)
    fast = model(TOKENS, SOURCE, source_documents=PADDED).logits
    for row in range(2):
        expected, weights = said_step_by_step(model, cell, row)
        torch.testing.assert_close(out.logits[row], expected, **EXACT)
        torch.testing.assert_close(fast[row], expected, **EXACT)
        if name == "rnn-attention-nano":
            found = out.weights["decoder.cross"][0][row, 0]
            torch.testing.assert_close(found[:, PADDED[row] > 0], weights, **EXACT)
            assert not found[:, PADDED[row] == 0].any()
    assert ("decoder.cross" in out.weights) == (name == "rnn-attention-nano")


@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_dropout_stands_between_layers_and_before_the_head(name: str):
    model = build(name, **{"decoder.n_layers": 2})
    model.decoder.dropout.forward = lambda x: 2 * x
    doubled = model(TOKENS, SOURCE, source_documents=PADDED).logits
    model.decoder.dropout.forward = lambda x: x
    with torch.no_grad():
        model.decoder.layers[1].kernel.weight_ih_l0.mul_(2)
    torch.testing.assert_close(doubled, 2 * model(TOKENS, SOURCE, source_documents=PADDED).logits, **EXACT)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_the_encoder_is_torchs_and_its_summary_the_last_state_of_each_direction(cell: str, both: bool):
    model = build("rnn-attention-nano", **{"encoder.cell": cell, "encoder.bidirectional": both, "encoder.n_layers": 2})
    theirs = WHOLE[cell](8, 4 if both else 8, 2, batch_first=True, bidirectional=both).double()
    theirs.load_state_dict(
        {
            key.replace("_l0", f"_l{layer}"): value
            for layer in range(2)
            for key, value in model.encoder.layers[layer].kernel.state_dict().items()
        }
    )
    memory = model.encoder(PartInput(SOURCE, PADDED))
    for place, (row, length) in enumerate(((1, 5), (0, 3))):  # the longest first
        states, last = theirs(model.encoder.embeddings.tokens(SOURCE[row : row + 1, :length]))
        torch.testing.assert_close(memory.states[row, :length], states[0], **EXACT)
        hidden = last[0] if cell == "lstm" else last
        expected = torch.cat([hidden[-2, 0], hidden[-1, 0]]) if both else hidden[-1, 0]
        torch.testing.assert_close(memory.summaries()[place], expected, **EXACT)
    assert not memory.states[0, 3:].any()


def test_packed_documents_have_a_summary_each_from_the_longest_on():
    model = build("rnn-attention-nano")
    documents = torch.tensor([[1, 1, 2, 2, 2], [0, 1, 1, 0, 0]])
    memory = model.encoder(PartInput(SOURCE, documents))
    for summary, (row, places) in zip(
        memory.summaries(), [(0, slice(2, 5)), (0, slice(2)), (1, slice(1, 3))], strict=True
    ):
        alone = model.encoder(PartInput(SOURCE[row : row + 1, places])).summaries()[0]
        torch.testing.assert_close(summary, alone, **EXACT)


def test_weights_of_packed_documents_stand_at_the_positions_of_their_sources():
    model = build("rnn-attention-nano")
    documents, sources = torch.tensor([[1, 1, 2, 2, 2, 3]]), torch.tensor([[1, 2, 2, 2, 0]])
    (weights,) = model(TOKENS[:1], SOURCE[:1], documents, sources, weights=True).weights["decoder.cross"]
    (alone,) = model(TOKENS[:1, 2:5], SOURCE[:1, 1:4], weights=True).weights["decoder.cross"]
    torch.testing.assert_close(weights[0, :, 2:5, 1:4], alone[0], **EXACT)
    seen = (documents[:, :, None] == sources[:, None])[0]
    assert not weights[0, 0][~seen].any()  # document 3 has no source
    torch.testing.assert_close(weights[0, 0, :5].sum(-1), torch.ones(5).double(), **EXACT)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_generated_tokens_have_the_score_that_whole_rows_give_them(name: str, beams: int):
    model = build(name)
    settings = GenerateSettings(max_new_tokens=5, beams=beams, length_penalty=0.0)
    for row, found in enumerate(generate(model, [[1], [1]], settings, 2, SOURCE, PADDED)):
        written = [1, *found.tokens, 2][:6]
        logits = model(torch.tensor([written]), SOURCE[row : row + 1], None, PADDED[row : row + 1]).logits[0, :-1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(written[1:])[:, None]).sum()
        assert found.score == pytest.approx(expected.item(), abs=1e-6)


def test_a_decoder_alone_is_a_language_model():
    model = create_model("gpt2-nano", decoder={"kind": "recurrent", "n_layers": 2, "cell": "lstm"}).double().eval()
    whole = model(TOKENS).logits
    state, said = model.decoder.start(2), []
    for new in (TOKENS[:, :2], TOKENS[:, 2:3], TOKENS[:, 3:]):
        said.append(
            model.heads["language"](model.decoder.step(new, None, state), model.decoder.embeddings.tokens.weight)
        )
    torch.testing.assert_close(torch.cat(said, dim=1), whole, **EXACT)
    assert [w for w in model(TOKENS, weights=True).weights["decoder.self"]] == [None, None]


def test_each_layer_begins_with_its_own_part_of_the_map_of_the_summary():
    decoder = build("rnn-attention-nano", **{"decoder.n_layers": 2, "decoder.cell": "lstm"}).decoder
    summary = torch.randn(3, decoder.begin.in_features, generator=torch.Generator().manual_seed(0)).double()
    begun = torch.tanh(decoder.begin(summary)).chunk(4, dim=1)  # h and c of the lower layer, then of the upper one
    lower, upper = decoder.first_states(summary, 3, TargetSources(summary, None))
    assert torch.equal(lower, torch.stack(begun[:2])) and torch.equal(upper, torch.stack(begun[2:]))


@pytest.mark.parametrize("cell", CELLS)
def test_a_left_padded_row_of_a_decoder_says_what_the_row_alone_says(cell: str):
    model = create_model("gpt2-nano", decoder={"kind": "recurrent", "cell": cell}).double().eval()
    documents, state, said = torch.tensor([[1] * 6, [0] * 2 + [1] * 4]), model.decoder.start(2), []
    for new in (slice(0, 4), slice(4, 6)):
        states = model.decoder.step(TOKENS[:, new], documents[:, new], state)
        said.append(model.heads["language"](states, model.decoder.embeddings.tokens.weight))
    torch.testing.assert_close(torch.cat(said, dim=1)[0], model(TOKENS[:1]).logits[0], **EXACT)
    torch.testing.assert_close(torch.cat(said, dim=1)[1, 2:], model(TOKENS[1:, 2:]).logits[0], **EXACT)


@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_a_target_without_a_source_reads_no_other_one(name: str):
    model, documents, sources = build(name), torch.tensor([[1, 1, 2, 2, 2, 3]]), torch.tensor([[1, 2, 2, 2, 0]])
    one, other = (model(TOKENS[:1], source, documents, sources).logits[0] for source in (SOURCE[:1], SOURCE[1:]))
    assert torch.equal(one[5], other[5]) and not torch.equal(one[4], other[4])


@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_packed_documents_beside_an_empty_row_read_their_own_sources(name: str):
    model, nothing = build(name), [0] * 6
    documents, sources = torch.tensor([[1, 1, 1, 2, 2, 2], nothing]), torch.tensor([[1, 1, 1, 2, 2], nothing[:5]])
    packed = model(TOKENS, SOURCE, documents, sources).logits[0]
    for target, source in ((slice(0, 3), slice(0, 3)), (slice(3, 6), slice(3, 5))):
        alone = model(TOKENS[:1, target], SOURCE[:1, source]).logits[0]
        torch.testing.assert_close(packed[target], alone, **EXACT)


def test_an_encoder_alone_classifies_by_its_summary():
    model = create_model("bert-nano", encoder={"kind": "recurrent"}, heads=["classification"], dropout=0).eval()
    logits = model(SOURCE, documents=torch.tensor([[1, 1, 2, 2, 2], [0, 1, 1, 1, 0]])).logits
    alone = model(SOURCE[:1, 2:]).logits
    torch.testing.assert_close(logits[1], alone[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"encoder.d_model": 7},
            r"encoder: d_model \(7\) must be even for bidirectional: true",
        ),
        ({"encoder.n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"decoder.n_heads": 0}, "n_heads must be at least 1, got 0"),
        ({"decoder.n_heads": 3}, r"decoder: d_model \(32\) must be a multiple of n_heads \(3\)"),
        ({"decoder.cell": "gur"}, r"decoder.cell: unknown cell 'gur' \(did you mean 'gru'\?\)"),
        (
            {"decoder.attention": "none"},
            "decoder.attention: unknown attention 'none'.*; allowed: full",
        ),
        (
            {"encoder.d_model": 16, "embeddings.shared": False, "decoder.attention.score": "dot"},
            "decoder: score 'dot': queries are 32 wide, keys 16, which have no inner product",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        create_model("rnn-attention-nano", **changes)


@pytest.mark.parametrize(("name", "settings"), [("rnn-attention-nano", {}), ("gpt2-nano", {"mixer": "recurrent"})])
def test_a_gap_in_a_document_is_refused(name: str, settings: dict[str, Any]):
    model, gap = create_model(name, **settings), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 1]])
    tokens = torch.randint(0, 100, (2, 5), generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="document 1 of sequence 1 has a gap, which recurrent layers cannot read"):
        model(tokens, tokens if model.encoder is not None else None, gap)


@pytest.mark.parametrize("name", ["rnn-seq2seq-nano", "rnn-attention-nano"])
def test_a_source_of_fewer_rows_than_the_target_is_refused(name: str):
    with pytest.raises(ValueError, match="source: expected 2 rows, one per row of tokens, got 1"):
        create_model(name)(TOKENS, SOURCE[:1])


@pytest.mark.parametrize("name", ["rnn-attention-nano", "captioner-rnn-nano"])
def test_a_window_on_a_source_is_refused(name: str):
    with pytest.raises(ValueError, match="decoder: attention.window: target and source positions have no distance"):
        create_model(name, **{"decoder.attention.window": 3})
    assert create_model(name, **{"decoder.attention.window": None}).decoder is not None
