"""Every backend is the formula: outputs and gradients of the others against `eager`, on a CPU."""

import warnings
from typing import Any

import pytest
import torch
import torch._dynamo
from test_attention import DOCUMENTS, EXACT, OPTIONS, attend, build, filled, randn, watched
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask

from attending import gpu_backends_on_the_cpu
from zoo.blocks.attention import Attention, FullAttention
from zoo.blocks.backends import flex, varlen
from zoo.blocks.backends.backend import Backend, backends, in_one_dtype
from zoo.blocks.backends.blocked import Blocked
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.flex import Flex, blocks_of
from zoo.blocks.backends.sdpa import Sdpa
from zoo.blocks.backends.varlen import Varlen
from zoo.blocks.position import Position, positions
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility
from zoo.devices import compiling

UNORDERED = torch.tensor([[3, 3, 1, 1, 1, 0], [0, 0, 2, 2, 7, 0]])
SOURCES = torch.tensor([[1, 1, 0, 3, 3, 3, 4], [5, 2, 2, 2, 2, 0, 7]])
EMPTY = torch.zeros(2, 6, dtype=torch.long)
FITTING = [options for options in OPTIONS if not options.get("sinks")]


@pytest.fixture(autouse=True)
def gpu_backends():
    with gpu_backends_on_the_cpu(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


def view_of(documents: Tensor, keys: Tensor, causal: bool = False, position: Position | None = None) -> View:
    return View(Visibility(Documents(documents), Documents(keys), causal=causal), position)


def learn(attention: Attention, backend: Backend, view: View, x: Tensor, memory: Tensor | None = None) -> list[Tensor]:
    """What it says, and the gradients of its inputs and of all parameters."""
    attention.backend = backend
    given = [x.clone().requires_grad_(), *([] if memory is None else [memory.clone().requires_grad_()])]
    parameters = [*attention.parameters(), *([] if view.position is None else view.position.parameters())]
    if memory is None:
        out = attend(attention, given[0], view)
    else:
        out = attention(given[0], attention.read(given[1]), view)
    out[..., 0].square().sum().backward()
    found = [out.detach(), *(t.grad for t in given), *(p.grad for p in parameters)]
    for parameter in parameters:
        parameter.grad = None
    assert all(t is not None for t in found)
    return found


def check_the_same(attention: Attention, backend: Backend, view: View, x: Tensor, memory: Tensor | None = None) -> None:
    said, expected = (learn(attention, b, view.without_cache(), x, memory) for b in (backend, Eager()))
    for one, other in zip(said, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def position_of(name: str, causal: bool) -> Position:
    """In float64, drawn from seed 0."""
    torch.manual_seed(0)
    return positions.build(name, 12, 4, 4, 16, causal).double()


@pytest.mark.parametrize(
    ("options", "n_kv_heads", "position", "causal"),
    [
        ({}, None, "none", True),
        ({"window": 2}, 2, "alibi", True),
        ({"window": 2, "d_key": 4, "d_value": 2}, 1, "relative", False),
        ({"sinks": 3, "window": 2, "d_key": 3, "qk_norm": "rmsnorm"}, 2, "relative", True),
        ({"sinks": True, "d_key": 4, "d_value": 20, "score": "bilinear"}, None, "rotary", False),
    ],
    ids=str,
)
def test_flex_is_the_formula(options: dict[str, Any], n_kv_heads: int | None, position: str, causal: bool):
    view = view_of(DOCUMENTS, DOCUMENTS, causal, position_of(position, causal))
    check_the_same(build(12, 4, n_kv_heads, **options), Flex(), view, randn(2, 5, 12))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_kv_heads", [None, 2])
@pytest.mark.parametrize("options", FITTING, ids=str)
def test_varlen_is_the_formula(options: dict[str, Any], n_kv_heads: int | None, causal: bool):
    rotary = position_of("rotary", causal) if options.get("d_key", 3) % 2 == 0 else None
    view = view_of(DOCUMENTS, DOCUMENTS, causal, rotary)
    check_the_same(build(12, 4, n_kv_heads, **options), Varlen(), view, randn(2, 5, 12))


@pytest.mark.parametrize("backend", [Blocked(), Flex(), Varlen()], ids=["blocked", "flex", "varlen"])
@pytest.mark.parametrize("sources", [SOURCES, torch.zeros_like(SOURCES)], ids=["sources", "none"])
def test_a_document_reads_its_source_wherever_it_stands(sources: Tensor, backend: Backend):
    attention = filled(FullAttention(12, 4, 7, d_value=5))
    check_the_same(attention, backend, view_of(UNORDERED, sources), randn(2, 6, 12), randn(2, 7, 7, seed=1))


def packed(rows: list[list[int]], length: int) -> Documents:
    """As a packer knows them."""
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] for row in rows]
    return Documents.packed(rows, torch.tensor([row + [0] * (length - len(row)) for row in numbers]))


PACKED, READ = packed([[2, 3], [], [1, 1, 1], [6]], 6), packed([[1, 4], [], [2, 3, 2], [1]], 7)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", [{"window": 2}, {"d_key": 3, "d_value": 5}], ids=str)
def test_what_a_packer_knows_spares_varlen_to_look_for_documents(
    options: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
):
    view = View(
        Visibility(PACKED, PACKED, causal=causal), position_of("rotary", causal) if "d_key" not in options else None
    )
    monkeypatch.setattr(varlen, "search_ends", None)
    check_the_same(build(16, 4, 2, **options), Varlen(), view, randn(4, 6, 16))


def test_packed_documents_read_packed_sources(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(varlen, "search_ends", None)
    attention = filled(FullAttention(12, 4, 7, d_value=5))
    check_the_same(attention, Varlen(), View.of(PACKED, READ), randn(4, 6, 12), randn(4, 7, 7, seed=1))


def test_varlen_drops_weights_in_training_alone():
    attention, x, ones = build(12, 4, dropout=0.5), randn(2, 5, 12), torch.ones(2, 5, 12, dtype=torch.float64)
    torch.nn.init.zeros_(attention.value.weight)
    torch.nn.init.ones_(attention.value.bias)  # so that each head says how much weight is left
    attention.backend, attention.output = Varlen(), torch.nn.Identity()
    view = View.of(Documents.of(None, x))
    torch.testing.assert_close(attend(attention.eval(), x, view), ones, **EXACT)
    left = attend(attention.train(), x, view)
    assert (left < 1).any() and (left > 1).any()


@pytest.mark.parametrize("length", [1, 5])
def test_varlen_looks_for_no_documents_where_rows_are_whole(length: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(varlen, "search_ends", None)
    x = randn(2, length, 12)
    check_the_same(build(12, 4), Varlen(), View.of(Documents.of(None, x), causal=True), x)


@pytest.mark.parametrize("backend", [Blocked(), Flex(), Varlen()], ids=["blocked", "flex", "varlen"])
def test_rows_that_hold_nothing_say_0_and_change_nothing(backend: Backend):
    found = learn(build(12, 4, bias=False), backend, view_of(EMPTY, EMPTY, causal=True), randn(2, 6, 12))
    assert not any(tensor.any() for tensor in found)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_flex_masks_position_by_position_as_the_rule_does(window: int | None, causal: bool):
    for keys in (UNORDERED, SOURCES):
        view = view_of(UNORDERED, keys, causal and keys is UNORDERED)
        mask = create_mask(blocks_of(view.visibility, window).mask_mod, 2, 1, 6, keys.shape[1], device="cpu")
        assert torch.equal(mask, view.visibility.mask(window))


def test_blocks_in_which_no_query_sees_a_key_are_left_out():
    documents = torch.arange(1, 5).repeat_interleave(128)[None]
    assert blocks_of(view_of(documents, documents, causal=True).visibility, None).sparsity() == 75.0


@pytest.mark.parametrize("name", backends.names())
def test_new_positions_are_read_by_sdpa_and_weights_are_eagers(name: str, monkeypatch: pytest.MonkeyPatch):
    attention, x, documents = build(12, 4), randn(2, 5, 12), torch.ones(2, 5, dtype=torch.long)
    attention.backend = backends[name]()
    whole = view_of(documents, documents, causal=True)
    expected = attend(attention, x, whole)
    monkeypatch.setattr(type(attention.backend), "attend", None) if name not in ("sdpa", "eager") else None
    torch.testing.assert_close(attention.step(x, attention.read(x, whole), whole), expected, **EXACT)
    torch.testing.assert_close(watched(attention, x, whole)[0], expected, **EXACT)


@pytest.mark.parametrize(
    ("options", "blocked", "flex", "varlen"),
    [
        ({}, None, None, None),
        ({"window": 2, "d_key": 4, "d_value": 20, "qk_norm": True}, None, None, None),
        ({"score": "additive"}, "inner products", "inner products", "inner products"),
        ({"dropout": 0.25}, None, "does not support attention dropout, but attention.dropout is 0.25", None),
        ({"sinks": 2}, "does not support sinks", None, "does not support sinks"),
        ({"d_value": 136}, None, "supports heads up to 128 wide, but d_key is 3, d_value 136", None),
        ({"d_key": 136, "d_value": 3}, None, "supports heads up to 128 wide, but d_key is 136, d_value 3", None),
        (
            {"d_value": 264},
            None,
            "supports heads up to 128 wide, but d_key is 3, d_value 264",
            "supports heads up to 256 wide, but d_key is 3, d_value 264",
        ),
    ],
    ids=str,
)
def test_a_backend_says_what_its_kernels_do_not_know(
    options: dict[str, Any], blocked: str | None, flex: str | None, varlen: str | None
):
    attention = build(12, 4, **options)
    for backend, words in ((Eager(), None), (Blocked(), blocked), (Flex(), flex), (Varlen(), varlen)):
        said = backend.obstacle(attention.rule(training=True), attention.d_key, attention.d_value, None)
        assert said is words is None or (words is not None and words in str(said))


def test_where_flex_cannot_be_compiled_sdpa_attends(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    """Its kernel may need more memory than a GPU's threads share; the training goes on, and says it once."""

    def fail(*tensors: Tensor, **named: Any) -> None:
        raise torch._dynamo.exc.TorchDynamoException("out of resource: shared memory")

    monkeypatch.setattr(compiling, "failures", [])
    monkeypatch.setattr(flex, "flex_attention", fail)
    monkeypatch.setattr(flex, "create_block_mask", fail)
    attention, x, documents = build(12, 4, sinks=2), randn(2, 5, 12), DOCUMENTS
    for _ in range(2):
        found, expected = (learn(attention, one, view_of(documents, documents, True), x) for one in (Flex(), Sdpa()))
        assert all(map(torch.equal, found, expected))
    assert caplog.text.count("compiling failed, so the rest runs uncompiled, slower") == 1


def test_short_rows_in_bfloat16_are_attended_in_float32_on_a_cpu():
    documents = torch.ones(2, 5, dtype=torch.long)
    view, rule = view_of(documents, documents, causal=True), build(12, 4).rule(training=False)
    heads = [randn(2, 4, 5, 3).bfloat16() for _ in range(3)]
    with torch.autocast("cpu", torch.bfloat16):
        said = Sdpa().attend(*heads, view, rule)
    assert torch.equal(said, Sdpa().attend(*(x.float() for x in heads), view, rule).bfloat16())


def test_kernels_get_one_dtype_that_of_autocast_if_there_is_one():
    wide, narrow = torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)
    assert [t.dtype for t in in_one_dtype(wide, narrow)] == [torch.float32] * 2
    with torch.autocast("cpu", torch.bfloat16):
        assert [t.dtype for t in in_one_dtype(wide, narrow)] == [torch.bfloat16] * 2
        assert [t.dtype for t in in_one_dtype(wide.double(), narrow)] == [torch.float64] * 2  # as torch's products
