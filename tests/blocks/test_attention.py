"""Attention against torch's, against the formula in float64, and against itself by two ways."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo.blocks.attention import Attention, DirectAttention, FullAttention, GroupedAttention
from zoo.blocks.norm import RMSNorm, norms
from zoo.blocks.position import positions
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Recorder, View, Visibility
from zoo.blocks.score import scores

EXACT = {"rtol": 1e-10, "atol": 1e-10}
DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2], [1, 1, 2, 2, 0]])
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"window": 2},
    {"d_key": 3},
    {"d_value": 5},
    {"d_key": 4, "d_value": 2},
    {"qk_norm": True},
    {"qk_norm": "layernorm"},
    {"sinks": True},
    {"sinks": 3, "window": 2, "d_key": 3, "qk_norm": "rmsnorm"},
]


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def filled(attention: Attention) -> Attention:
    """In float64, with parameters that are all different, biases, gains and sinks too."""
    for seed, parameter in enumerate(attention.double().parameters()):
        nn.init.normal_(parameter, std=0.7, generator=torch.Generator().manual_seed(seed))
    return attention


def build(d_model: int, n_heads: int, n_kv_heads: int | None = None, **options: Any) -> Attention:
    if n_kv_heads is None:
        return filled(FullAttention(d_model, n_heads, **options))
    return filled(GroupedAttention(d_model, n_heads, n_kv_heads=n_kv_heads, **options))


def self_view(documents: Tensor = DOCUMENTS, causal: bool = True, position: str = "none", n_heads: int = 4) -> View:
    module = positions.build(position, 12, n_heads, 4, 16, causal).double()
    return View(Visibility(Documents(documents), Documents(documents), causal=causal), module)


def attend(attention: Attention, x: Tensor, view: View) -> Tensor:
    out: Tensor = attention(x, attention.read(x, view), view)
    return out


def watched(attention: Attention, x: Tensor, view: View) -> tuple[Tensor, Tensor]:
    """What it says while somebody looks on, and its weights."""
    recorder = Recorder()
    out = attend(attention, x, View(view.visibility, view.position, recorder))
    assert recorder.written is not None
    return out, recorder.written


def formula(attention: Attention, x: Tensor, view: View) -> Tensor:
    """softmax(Q K' / sqrt(d_key)) V, head by head and query by query, over the keys that a query may see."""
    queries, keys, values = attention.query(x), attention.key(x), attention.value(x)
    shared = attention.n_heads // attention.n_kv_heads
    bias = view.position.bias(*view.visibility.places())
    allowed = view.visibility.mask(attention.window)
    out = torch.zeros(*x.shape[:2], attention.n_heads, attention.d_value, dtype=x.dtype)
    for row in range(len(x)):
        for head in range(attention.n_heads):
            q = queries[row].unflatten(-1, (-1, attention.d_key))[:, head]
            k = keys[row].unflatten(-1, (-1, attention.d_key))[:, head // shared]
            v = values[row].unflatten(-1, (-1, attention.d_value))[:, head // shared]
            q, k = (turned(one, row, view) for one in (attention.query_norm(q), attention.key_norm(k)))
            for i in range(x.shape[1]):
                seen = allowed.expand(len(x), 1, -1, -1)[row, 0, i].nonzero()[:, 0].tolist()
                if not seen:
                    continue
                scores = torch.stack([q[i] @ k[j] / attention.d_key**0.5 for j in seen])
                scores = scores if bias is None else scores + bias[head, i, seen]
                sinks = scores.new_zeros(0) if attention.sinks is None else attention.sinks[head]
                weights = torch.cat([scores, sinks]).exp()
                out[row, i, head] = (weights / weights.sum())[: len(seen)] @ v[seen]
    return attention.output(out.flatten(2))


def turned(heads: Tensor, row: int, view: View) -> Tensor:
    """A head's queries or keys of a row, turned where the position does that."""
    if not view.position.rotates:
        return heads
    turns = view.position.rotations(view.documents.positions[row][None], heads.dtype)
    return view.position.rotate(heads[None, None], turns)[0, 0]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("position", ["none", "alibi", "relative"])
@pytest.mark.parametrize("n_kv_heads", [None, 2, 1])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_attention_is_the_formula(options: dict[str, Any], n_kv_heads: int | None, position: str, causal: bool):
    attention, x, view = (
        build(12, 4, n_kv_heads, **options),
        randn(2, 5, 12),
        self_view(causal=causal, position=position),
    )
    torch.testing.assert_close(attend(attention, x, view), formula(attention, x, view), **EXACT)


@pytest.mark.parametrize("n_kv_heads", [None, 2])
@pytest.mark.parametrize("qk_norm", [False, "rmsnorm"])
def test_heads_are_normalized_before_they_are_turned(qk_norm: bool | str, n_kv_heads: int | None):
    attention, x, view = build(16, 4, n_kv_heads, qk_norm=qk_norm), randn(2, 5, 16), self_view(position="rotary")
    torch.testing.assert_close(attend(attention, x, view), formula(attention, x, view), **EXACT)


@pytest.mark.parametrize("position", ["none", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("n_kv_heads", [None, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_eager_result_and_its_weights_are_the_fused_ones(
    options: dict[str, Any], n_kv_heads: int | None, position: str
):
    if position == "rotary":
        options = {**options, "d_key": 4}
    attention, x, view = build(12, 4, n_kv_heads, **options), randn(2, 5, 12), self_view(position=position)
    eager, weights = watched(attention, x, view)
    torch.testing.assert_close(eager, attend(attention, x, view), **EXACT)
    reading = attention.read(x, view)
    read = weights @ reading.values.repeat_interleave(4 // attention.n_kv_heads, dim=1)
    torch.testing.assert_close(attention.output(read.transpose(1, 2).flatten(2)), eager, **EXACT)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_is_torchs(bias: bool, causal: bool):
    ours, theirs = build(12, 4, bias=bias), nn.MultiheadAttention(12, 4, bias=bias, batch_first=True).double()
    maps = [ours.query, ours.key, ours.value]
    state = {"in_proj_weight": torch.cat([m.weight for m in maps]), "out_proj.weight": ours.output.weight}
    if bias:
        state |= {"in_proj_bias": torch.cat([m.bias for m in maps]), "out_proj.bias": ours.output.bias}
    theirs.load_state_dict(state)
    x, ones = randn(2, 5, 12), torch.ones(2, 5, dtype=torch.long)
    hidden = torch.ones(5, 5).triu(1).bool() if causal else None
    expected, weights = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    for view in (self_view(ones, causal), View.of(Documents(ones, whole=True), causal=causal)):
        torch.testing.assert_close(attend(ours, x, view), expected, **EXACT)
    torch.testing.assert_close(watched(ours, x, view)[1], weights, **EXACT)


def test_attention_to_a_memory_of_another_width_is_torchs():
    ours = filled(FullAttention(12, 4, 7))
    theirs = nn.MultiheadAttention(12, 4, kdim=7, vdim=7, batch_first=True).double()
    maps = {"q": ours.query, "k": ours.key, "v": ours.value}
    state = {f"{name}_proj_weight": m.weight for name, m in maps.items()}
    state |= {"in_proj_bias": torch.cat([m.bias for m in maps.values()])}
    theirs.load_state_dict(state | {f"out_proj.{n}": p for n, p in ours.output.named_parameters()})
    x, memory = randn(2, 3, 12), randn(2, 5, 7, seed=1)
    memory_documents = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    view = View.of(Documents(torch.ones(2, 3, dtype=torch.long)), Documents(memory_documents))
    expected, _ = theirs(x, memory, memory, key_padding_mask=memory_documents == 0)
    torch.testing.assert_close(ours(x, ours.read(memory), view), expected, **EXACT)


def test_grouped_with_a_group_for_each_head_is_full():
    full, grouped = build(12, 4), build(12, 4, 4)
    grouped.load_state_dict(full.state_dict())
    x = randn(2, 5, 12)
    assert torch.equal(attend(grouped, x, self_view()), attend(full, x, self_view()))


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("position", ["none", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("options", [{}, {"window": 2}, {"sinks": 2}, {"dropout": 0.5}], ids=str)
def test_a_query_without_a_key_gives_0_and_finite_gradients(
    options: dict[str, Any], position: str, dtype: torch.dtype, weights: bool
):
    attention = build(16, 4, 2, **options, bias=False).to(dtype)
    view = self_view(position=position)
    view.position.to(dtype)
    x = randn(2, 5, 16).to(dtype).requires_grad_()
    out = watched(attention, x, view)[0] if weights else attend(attention, x, view)
    out.float().square().sum().backward()
    assert out.dtype == dtype
    assert torch.equal(out[DOCUMENTS == 0], torch.zeros(2, 16, dtype=dtype))
    assert x.grad.isfinite().all() and not x.grad[DOCUMENTS == 0].any()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in view.position.parameters())


def test_eager_weights_of_a_row_sum_to_1_without_sinks_and_to_less_with_them():
    view = self_view()
    for sinks, low, high in ((False, 1 - 1e-12, 1 + 1e-12), (2, 0.0, 1.0)):
        sums = watched(build(12, 4, sinks=sinks), randn(2, 5, 12), view)[1].sum(-1).transpose(1, 2)
        assert (low < sums[DOCUMENTS > 0]).all() and (sums[DOCUMENTS > 0] < high).all()
        assert not sums[DOCUMENTS == 0].any()


def test_a_dropped_weight_is_dropped_in_training_only():
    attention, x, view = build(12, 4, dropout=0.9), randn(2, 5, 12), self_view()
    assert not torch.equal(attend(attention.train(), x, view), attend(attention.eval(), x, view))
    torch.testing.assert_close(attend(attention, x, view), attend(build(12, 4), x, view), **EXACT)


def test_qk_norm_takes_a_registered_norm_with_its_options():
    attention = FullAttention(12, 4, qk_norm=norms.parse({"name": "layernorm", "bias": False}))
    assert [n for n, _ in attention.named_parameters() if "norm" in n] == ["query_norm.weight", "key_norm.weight"]
    assert type(FullAttention(12, 4, qk_norm=True).key_norm) is RMSNorm


@pytest.mark.parametrize("n_kv_heads", [None, 2])
@pytest.mark.parametrize("score", ["dot", "bilinear", {"name": "additive", "d_hidden": 3}], ids=str)
def test_any_score_gives_the_softmax_of_its_scores(score: Any, n_kv_heads: int | None):
    attention, x, view = build(12, 4, n_kv_heads, score=scores.parse(score)), randn(2, 5, 12), self_view()
    queries, keys, values = (
        m(x).unflatten(-1, (-1, 3)).transpose(1, 2) for m in (attention.query, attention.key, attention.value)
    )
    keys, values = (t.repeat_interleave(4 // attention.n_kv_heads, dim=1) for t in (keys, values))
    score = attention.score
    scored = score.compare(score.transform_queries(queries), score.transform_keys(keys))
    said = scored.masked_fill(~view.visibility.mask(None), -torch.inf).softmax(-1).nan_to_num()
    expected = attention.output((said @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attend(attention, x, view), expected, **EXACT)
    for found, wanted in zip(watched(attention, x, view), (expected, said), strict=True):
        torch.testing.assert_close(found, wanted, **EXACT)


@pytest.mark.parametrize("score", ["bilinear", "additive"])
def test_direct_attention_reads_the_memory_as_it_is(score: str):
    """c = sum_i softmax(score(s, h))_i h_i."""
    attention, states, memory = filled(DirectAttention(6, 1, 4, score=score)), randn(2, 3, 6), randn(2, 5, 4, seed=1)
    documents = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    view = View.of(Documents(torch.ones(2, 3, dtype=torch.long)), Documents(documents))
    score = attention.score
    scored = score.compare(score.transform_queries(states), score.transform_keys(memory))
    weights = scored.masked_fill(documents[:, None] == 0, -torch.inf).softmax(-1)
    torch.testing.assert_close(attention(states, attention.read(memory), view), weights @ memory, **EXACT)


@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("build_one", [FullAttention, DirectAttention])
def test_self_attention_without_positions_follows_a_permutation(build_one: type[Attention], score: str):
    attention, x, order = filled(build_one(12, 4, score=score)), randn(2, 5, 12), torch.tensor([3, 0, 4, 1, 2])
    view = self_view(torch.ones(2, 5, dtype=torch.long), causal=False)
    torch.testing.assert_close(attend(attention, x[:, order], view), attend(attention, x, view)[:, order], **EXACT)
    ordered = self_view(torch.ones(2, 5, dtype=torch.long), causal=False, position="alibi")
    assert not torch.allclose(attend(attention, x[:, order], ordered), attend(attention, x, ordered)[:, order])


@pytest.mark.parametrize("score", scores.names())
def test_many_heads_are_single_heads_side_by_side(score: str):
    """MultiHead = Concat(head_1 … head_h) W_O, each head with its own columns of W_Q, W_K and W_V."""
    many, x, view, heads = build(12, 4, bias=False, score=score), randn(2, 5, 12), self_view(), []
    for head in range(4):
        single = build(12, 1, bias=False, d_key=3, d_value=3, score=score)
        single.score.load_state_dict(many.score.state_dict())
        single.output = nn.Identity()
        for name in ("query", "key", "value"):
            getattr(single, name).weight.data = getattr(many, name).weight[3 * head : 3 * head + 3]
        heads.append(attend(single, x, self_view(n_heads=1)))
    torch.testing.assert_close(attend(many, x, view), many.output(torch.cat(heads, dim=-1)), **EXACT)
