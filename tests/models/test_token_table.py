"""The matrix of token vectors whose gradient is added up at the end, beside the ordinary way."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from zoo.models.create import create_model
from zoo.models.heads.head import Head
from zoo.models.heads.scores import Scores
from zoo.models.model import Model
from zoo.models.token_table import TokenTable

VOCABULARY = 1100  # more than few classes
KINDS = ["gpt2-nano", "bert-nano", "transformer-nano", "t5-nano", "electra-nano"]


def build(kind: str) -> Model:
    return create_model(kind, dropout=0, vocab_size=VOCABULARY).initialize(0).train()


def loss_of(model: Model) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    tokens, source = (torch.randint(5, VOCABULARY, (3, n), generator=draw) for n in (12, 9))
    with torch.autocast("cpu", torch.bfloat16):
        said = model(tokens, source) if model.encoder is not None and model.decoder is not None else model(tokens)
        targets = torch.randint(5, VOCABULARY, tokens.shape, generator=draw)
        name = next(name for name in said.scores if name in ("language", "masked_lm"))
        return said.scores[name].cross_entropy(targets).sum / 30


@contextmanager
def the_ordinary_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TokenTable, "early", staticmethod(lambda weight, heads: None))
        yield


def gradients(model: Model) -> dict[str, Tensor]:
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_ordinary_way(kind: str):
    model, other = build(kind), build(kind)
    loss = loss_of(model)
    loss.backward()
    with the_ordinary_way():
        expected = loss_of(other)
        expected.backward()
    assert torch.equal(loss, expected)
    found, right = gradients(model), gradients(other)
    assert found.keys() == right.keys()
    table = next(name for name in right if name.endswith("embeddings.tokens.weight"))
    assert all(torch.equal(found[name], right[name]) for name in right if name != table)
    # the head's share is rounded to bfloat16 once more
    error = (found[table] - right[table]).norm() / right[table].norm()
    assert 0 < error < 2**-8


def test_what_is_looked_up_is_added_up_as_before_where_no_head_is_in_the_loss():
    found = []
    for ordinary in (False, True):
        model = build("gpt2-nano")
        with the_ordinary_way() if ordinary else torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
            model(torch.tensor([[5, 7, 5, 9]])).states.square().sum().backward()
        found.append(gradients(model)["decoder.stack.embeddings.tokens.weight"])
    assert torch.equal(*found) and found[0].any(1).sum() == 3


def test_a_gradient_of_something_else_leaves_nothing_behind():
    model, other = build("gpt2-nano"), build("gpt2-nano")
    loss = loss_of(model)
    torch.autograd.grad(loss, model.decoder.stack.norm.weight, retain_graph=True)
    loss.backward(retain_graph=True)
    loss_of(other).backward()
    once = gradients(other)
    assert all(torch.equal(grad, once[name]) for name, grad in gradients(model).items())
    loss.backward()  # adds the same once more
    assert all(torch.equal(grad, 2 * once[name]) for name, grad in gradients(model).items())


def test_the_matrix_gets_its_gradient_when_those_of_all_layers_are_there():
    model, order = build("gpt2-nano"), list[str]()
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda grad, name=name: order.append(name))
    loss_of(model).backward()
    layers = [place for place, name in enumerate(order) if ".blocks." in name]
    assert order.index("decoder.stack.embeddings.tokens.weight") > max(layers)


def test_autograd_adds_the_gradient_up_where_the_loss_is_not_chunked(monkeypatch: pytest.MonkeyPatch):
    model = build("gpt2-nano")
    model.chunked_loss = False
    monkeypatch.delattr(TokenTable, "early")
    loss_of(model).backward()
    assert gradients(model)["decoder.stack.embeddings.tokens.weight"].any()


def test_hooks_of_the_embeddings_are_called():
    model, seen = build("gpt2-nano"), list[nn.Module]()
    model.decoder.stack.embeddings.tokens.register_forward_hook(lambda module, given, said: seen.append(module))
    loss_of(model).backward()
    assert len(seen) == 1 and gradients(model)["decoder.stack.embeddings.tokens.weight"].any()


@pytest.mark.parametrize("case", ["float32", "no gradient", "frozen", "few classes", "untied"])
def test_it_is_left_out_where_it_saves_nothing(case: str):
    size, untied = (
        900 if case == "few classes" else VOCABULARY,
        {"heads.language.tied": False} if case == "untied" else {},
    )
    model = create_model("gpt2-nano", vocab_size=size, **untied)
    model.token_vectors.requires_grad_(case != "frozen")
    with torch.set_grad_enabled(case != "no gradient"), torch.autocast("cpu", torch.bfloat16, case != "float32"):
        assert TokenTable.early(model.token_vectors, model.heads_by_name().values()) is None


@pytest.mark.parametrize("option", [{"padding_idx": 7}, {"scale_grad_by_freq": True}, {"max_norm": 0.1}])
def test_options_of_the_embeddings_are_followed(option: dict[str, int | float]):
    found = []
    for ordinary in (False, True):
        model = build("gpt2-nano")
        for name, value in option.items():
            setattr(model.decoder.stack.embeddings.tokens, name, value)
        with the_ordinary_way() if ordinary else torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
            model(torch.tensor([[5, 7, 5, 9]])).states.square().sum().backward()
        found.append(gradients(model)["decoder.stack.embeddings.tokens.weight"])
    assert torch.equal(*found)


def test_a_head_of_another_package_may_be_tied_to_something():
    class Cosine(Head):
        def __init__(self) -> None:
            super().__init__()
            self.tied = True

        def score(self, states: Tensor, table: Tensor) -> Scores:
            return Scores(states, table / table.norm(dim=-1, keepdim=True))

    assert not Cosine().ends_in_table


def test_exact_logits_are_those_of_the_matrix_as_it_is():
    model, found = build("gpt2-nano"), []
    for ordinary in (False, True):
        with the_ordinary_way() if ordinary else torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
            found.append(model(torch.tensor([[5, 7, 5, 9]])).scores["language"].exact())
    assert torch.equal(*found)


@pytest.mark.parametrize("kind", ["gpt2-nano", "bert-nano"])
def test_tokens_may_be_int32_as_torchs_own_lookups_take_them(kind: str):
    tokens, found = torch.randint(5, VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(1)), []
    for dtype in (torch.int64, torch.int32):
        model = build(kind)
        with torch.autocast("cpu", torch.bfloat16):
            model(tokens.to(dtype)).logits.float().square().mean().backward()
        found.append(gradients(model))
    assert found[0].keys() == found[1].keys() and all(torch.equal(found[0][name], found[1][name]) for name in found[0])
