"""Heads against their formulas, and the positions they score."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from zoo import config, create_model
from zoo.blocks.activation import activations
from zoo.blocks.norm import norms
from zoo.models.heads.classification import ClassificationHead
from zoo.models.heads.head import heads
from zoo.models.heads.language import LanguageHead
from zoo.models.heads.masked_lm import MaskedLMHead
from zoo.models.heads.pooler import Pooler, PoolerSettings, document_means
from zoo.models.heads.replaced_token import ReplacedTokenHead
from zoo.models.heads.similarity import SimilarityHead
from zoo.models.settings import keep_heads, load_settings, parse_settings, with_labels

EXACT = {"rtol": 1e-12, "atol": 1e-12}
TOKENS = torch.randint(0, 300, (2, 6), generator=torch.Generator().manual_seed(0))
DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2], [1, 1, 2, 3, 3, 0]])


@pytest.fixture
def states() -> torch.Tensor:
    return torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def table() -> torch.Tensor:
    return torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_a_tied_language_head_multiplies_by_the_token_vectors(states: torch.Tensor, table: torch.Tensor):
    torch.testing.assert_close(LanguageHead(5, 7, False)(states, table), states @ table.T, **EXACT)
    assert not list(LanguageHead(5, 7, False).parameters())


def test_an_untied_language_head_has_a_matrix_of_its_own(states: torch.Tensor, table: torch.Tensor):
    head = LanguageHead(5, 7, False, tied=False, bias=True).double()
    torch.nn.init.ones_(head.bias)
    torch.testing.assert_close(head(states, table), states @ head.output.weight.T + 1, **EXACT)


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_hooked_to_the_last_map_is_in_the_logits_and_in_the_loss(states: torch.Tensor, bias: bool):
    head = LanguageHead(5, 7, False, tied=False, bias=bias).double()
    if bias:
        torch.nn.init.normal_(head.bias)
    head.output.register_forward_hook(lambda module, given, output: 2 * output)
    scores, targets = head.score(states, states), torch.tensor([[0, 3, -1], [6, 2, 1]])
    expected = 2 * states @ head.output.weight.T + (head.bias if bias else 0)
    torch.testing.assert_close(scores.logits(), expected, **EXACT)
    torch.testing.assert_close(scores.exact(), expected, **EXACT)
    loss = F.cross_entropy(expected.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum")
    torch.testing.assert_close(scores.cross_entropy(targets).sum, loss, **EXACT)


def test_logits_that_are_read_without_gradients_record_none(states: torch.Tensor):
    scores = LanguageHead(5, 7, False, tied=False).double().score(states, states)
    with torch.no_grad():
        assert not scores.logits().requires_grad and not scores.exact().requires_grad


def test_a_hooked_map_computes_as_the_head_did_when_autocast_has_ended(states: torch.Tensor):
    head = ClassificationHead(5, 7, True, labels=3, dropout=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        plain = head.score(states.bfloat16(), states)
        head.output.register_forward_hook(lambda module, given, output: 2 * output)
        hooked = head.score(states.bfloat16(), states)
    assert hooked.logits().dtype == torch.bfloat16 and torch.equal(hooked.logits(), 2 * plain.logits())


def test_a_scaled_language_head_divides_the_states_and_not_the_bias(states: torch.Tensor, table: torch.Tensor):
    head = LanguageHead(5, 7, False, scale=True, bias=True).double()
    torch.nn.init.ones_(head.bias)
    torch.testing.assert_close(head(states, table), states @ table.T / 5**0.5 + 1, **EXACT)


@pytest.mark.parametrize("bias", [True, False])
def test_masked_lm_is_berts_transform_and_bias(states: torch.Tensor, table: torch.Tensor, bias: bool):
    head = MaskedLMHead(5, 7, True, bias=bias).double()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    inner = F.gelu(F.linear(states, head.dense.weight, head.dense.bias))
    expected = F.layer_norm(inner, (5,), head.norm.weight, head.norm.bias) @ table.T + head.bias
    torch.testing.assert_close(head(states, table), expected, **EXACT)
    assert (head.dense.bias is not None) == bias


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        ("bert-nano", {"heads.masked_lm.width": 16}, "masked_lm: its vectors are 16 wide, but the token embeddings 32"),
        (
            "electra-nano",
            {"heads.masked_lm.width": None},
            "masked_lm: its vectors are 8 wide, but the token .* 16; leave",
        ),
        ("electra-nano", {"heads": ["language"]}, "language: its vectors are 32 wide, but the token embeddings 16$"),
    ],
)
def test_a_tied_head_of_another_width_than_the_token_vectors_is_refused(model: str, changes: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=rf"heads\.{said}"):
        create_model(model, **changes)


def test_a_tied_head_may_name_the_width_of_the_token_vectors():
    model = create_model("bert-nano", **{"heads": ["masked_lm"], "embeddings.width": 24, "heads.masked_lm.width": 24})
    assert model(TOKENS).logits.shape == (2, 6, 300)


def test_the_pooler_is_tanh_of_a_linear_map(states: torch.Tensor):
    pooler = Pooler(5, PoolerSettings()).double()
    expected = torch.tanh(states[0] @ pooler.dense.weight.T + pooler.dense.bias)
    torch.testing.assert_close(pooler(states[0]), expected, **EXACT)


def test_means_are_computed_once_for_each_document_however_many_positions_there_are(states: torch.Tensor):
    documents, places = torch.tensor([[1, 1, 10**9], [0, 0, 0]]), torch.tensor([0, 2, *[-1] * 50])
    states, sizes = states.requires_grad_(), list[int]()

    def pack(kept: torch.Tensor) -> torch.Tensor:
        sizes.append(kept.numel())
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        found = document_means(states, documents, places)
    assert max(sizes) <= max(states.numel(), len(places))
    (gradient,) = torch.autograd.grad(found[:2].sum(), states)
    torch.testing.assert_close(gradient[0, :, 0], torch.tensor([0.5, 0.5, 1.0]).double(), **EXACT)
    assert not gradient[1].any()


def test_a_pooler_may_end_with_a_norm_and_have_another_activation(states: torch.Tensor):
    settings = PoolerSettings(activations.parse("relu"), norms.parse({"name": "layernorm", "bias": False}), bias=False)
    pooler = Pooler(5, settings).double()
    hidden = torch.relu(states[0] @ pooler.dense.weight.T)
    scale = (hidden.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    assert pooler.dense.bias is None
    torch.testing.assert_close(pooler(states[0]), (hidden - hidden.mean(-1, keepdim=True)) / scale, **EXACT)


@pytest.mark.parametrize("most", [None, 2, 5])
def test_a_mean_is_over_the_document_of_each_position(states: torch.Tensor, most: int | None):
    documents = torch.tensor([[1, 1, 2], [1, 1, 0]])
    found = document_means(states, documents, torch.tensor([0, 2, 4, -1]), most)
    expected = [states[0, :2].mean(0), states[0, 2], states[1, :2].mean(0), states[0, :2].mean(0)]
    torch.testing.assert_close(found, torch.stack(expected), **EXACT)


def test_a_replaced_token_is_scored_by_electras_formula(states: torch.Tensor):
    head = ReplacedTokenHead(5, 7, False).double()
    hidden = F.gelu(states @ head.dense.weight.T + head.dense.bias)
    torch.testing.assert_close(head(states, states), hidden @ head.output.weight.T + head.output.bias, **EXACT)


@pytest.mark.parametrize("pooled", [True, False])
def test_classification_has_a_bias_for_encoders_only(pooled: bool):
    assert (ClassificationHead(5, 7, pooled, labels=3).output.bias is not None) == pooled


def test_similarity_has_no_bias_which_both_orders_would_add():
    assert SimilarityHead(5, 7, False).output.bias is None


def test_classification_refuses_no_label():
    with pytest.raises(ValueError, match="labels must be at least 1, got 0"):
        ClassificationHead(5, 7, True, labels=0)


def test_an_encoder_classifies_the_pooled_first_position_of_each_document():
    model = create_model("bert-nano", heads=[{"name": "classification", "labels": 3}]).double().eval()
    seen = []
    model.encoder.stack.register_forward_hook(lambda _, __, out: seen.append(out))
    logits = model(TOKENS, documents=DOCUMENTS).logits
    assert logits.shape == (5, 3)
    firsts = seen[0][[0, 0, 1, 1, 1], [1, 4, 0, 2, 3]]
    head = model.heads["classification"]
    torch.testing.assert_close(logits, head.output(model.pooler(firsts)), **EXACT)


def test_a_decoder_classifies_the_last_position_of_each_document_without_a_pooler():
    model = create_model("gpt-nano", heads=[{"name": "classification", "labels": 3}]).double().eval()
    seen = []
    model.decoder.stack.register_forward_hook(lambda _, __, out: seen.append(out))
    logits = model(TOKENS, documents=DOCUMENTS).logits
    lasts = seen[0][[0, 0, 1, 1, 1], [3, 5, 1, 2, 4]]
    assert model.pooler is None
    torch.testing.assert_close(logits, model.heads["classification"].output(lasts), **EXACT)


def test_positions_are_scored_in_their_order_and_minus_1_keeps_the_shape():
    model = create_model("bert-nano").double().eval()
    every = model(TOKENS, documents=DOCUMENTS)
    places = {"masked_lm": torch.tensor([7, 2, -1]), "next_sentence": torch.tensor([8, -1, 1])}
    chosen = model(TOKENS, documents=DOCUMENTS, places=places).heads
    torch.testing.assert_close(chosen["masked_lm"][:2], every.logits.flatten(0, 1)[[7, 2]], **EXACT)
    torch.testing.assert_close(chosen["next_sentence"][[0, 2]], every.heads["next_sentence"][[3, 0]], **EXACT)
    assert chosen["masked_lm"].shape == (3, 300) and chosen["next_sentence"].shape == (3, 2)


def test_any_position_of_a_document_stands_for_it_in_an_encoder():
    model = create_model("bert-nano").double().eval()
    at = {"next_sentence": torch.tensor([1, 2, 3, 9, 10])}  # of row 0's first document, and of row 1's third
    said = model(TOKENS, documents=DOCUMENTS, places=at).heads["next_sentence"]
    every = model(TOKENS, documents=DOCUMENTS).heads["next_sentence"]
    torch.testing.assert_close(said, every[[0, 0, 0, 4, 4]], **EXACT)


def test_a_head_drops_as_the_model_does_unless_it_says_otherwise():
    heads = [{"name": "classification", "labels": 3}]
    assert create_model("bert-nano", heads=heads).heads["classification"].dropout.share == 0.1
    assert create_model("bert-nano", heads=heads, dropout=0.0).heads["classification"].dropout.share == 0.0
    own = [{"name": "classification", "dropout": 0.3}]
    assert create_model("bert-nano", heads=own).heads["classification"].dropout.share == 0.3


@pytest.mark.parametrize("name", [name for name in heads.names() if "dropout" in heads.options(name)])
def test_what_a_head_drops_is_what_its_map_would_read(name: str, states: torch.Tensor, table: torch.Tensor):
    head = heads.build(name, 5, 7, True).double()
    head.dropout.forward = torch.zeros_like
    bias = head.output.bias
    expected = states.new_zeros(2, 3, len(head.output.weight)) + (0 if bias is None else bias)
    assert torch.equal(head(states, table), expected)


def test_exactly_the_wanted_heads_keep_the_options_of_the_file():
    tree = config.read_with_base("bert-nano", "configs")
    wanted = parse_settings(keep_heads(tree, ["masked_lm", "language"], "bert-nano"))
    assert [choice.name for choice in wanted.heads] == ["masked_lm", "language"]
    assert wanted.heads[0].option("norm") == load_settings("bert-nano").heads[0].option("norm")


def test_labels_are_counted_in_heads_that_have_classes_alone():
    settings = load_settings("bert-nano", [(("heads",), ["masked_lm", {"name": "classification", "dropout": 0.5}])])
    counted = with_labels(settings, 5).heads
    assert counted[0] == settings.heads[0] and counted[1].options == {"labels": 5, "dropout": 0.5}


def test_a_mean_of_narrow_states_is_that_of_wide_ones_also_under_autocast():
    states = torch.randn(1, 300, 4, generator=torch.Generator().manual_seed(0)) + 3
    documents, places = torch.ones(1, 300, dtype=torch.long), torch.tensor([0])
    expected = states.double().mean(1)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(document_means(states, documents, places).double(), expected, rtol=1e-6, atol=1e-6)
    narrow = states.bfloat16()
    expected = narrow.double().mean(1).bfloat16()
    assert torch.equal(document_means(narrow, documents, places), expected)
