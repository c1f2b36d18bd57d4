"""What every backend of attention keeps in whole models: those of one kind of device on a CPU, a GPU's on a GPU."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_models import (
    DOCUMENTS,
    NAMES,
    NEEDED,
    SOURCE,
    SOURCE_DOCUMENTS,
    TOKENS,
    TokenVectors,
    build,
    label,
    with_document,
)
from torch import Tensor

from attending import gpu_backends_on_the_cpu
from zoo.blocks.backends import varlen
from zoo.blocks.backends.backend import backends
from zoo.blocks.position import positions
from zoo.blocks.rows.documents import Documents
from zoo.models.attention_backend import attentions, layer_obstacle, layers_of
from zoo.models.model import Model

REAL = DOCUMENTS > 0
OF_DEVICES = [name for name in backends.names() if backends[name].device is not None]
SEEN = [name for name in positions.names() if positions[name].rotates or positions[name].biases]  # by a backend
CHOICES: list[tuple[str, dict[str, Any]]] = [
    *(
        (slot, choice)
        for slot, choice in NAMES
        if slot == "attention" or (slot == "position" and choice["name"] in SEEN)
    ),
    ("attention", {"name": "grouped", **NEEDED, "window": 3}),
    ("attention", {"name": "grouped", **NEEDED, "sinks": 3}),
]
BIASES = [name for name in positions.names() if positions[name].biases]
REFUSED = {  # by backend and choice, what it says
    (backend, choice): said
    for backend in ("blocked", "varlen")
    for choice, said in {
        **{name: f"does not support position '{name}', which adds to the scores" for name in BIASES},
        "grouped, n_kv_heads 2, sinks 3": "does not support sinks",
    }.items()
}
ABLE = [
    (name, slot, choice)
    for name in backends.names()
    for slot, choice in CHOICES
    if (name, label(choice)) not in REFUSED
]
EACH = pytest.mark.parametrize(
    ("backend", "slot", "choice"),
    [case for case in ABLE if case[0] in OF_DEVICES],
    ids=lambda value: label(value) or str(value),
)
DTYPES = [torch.float32, torch.bfloat16]
RUNNING = [case for case in ABLE if backends[case[0]].device in (None, "cuda")]
ALL = [(name, dtype, *case) for name, *case in RUNNING for dtype in DTYPES[int(backends[name].narrow) :]]
NO_GPU = pytest.mark.skip(reason="no CUDA GPU: its kernels cannot run")
ON_GPU = pytest.mark.parametrize(
    ("backend", "dtype", "slot", "choice"),
    ALL if torch.cuda.is_available() else [pytest.param(*ALL[0], marks=NO_GPU)],
    ids=lambda value: label(value) or str(value),
)


@pytest.fixture
def on_cpu() -> Iterator[None]:
    with gpu_backends_on_the_cpu(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


def attending(name: str, slot: str, choice: dict[str, Any], dtype: torch.dtype = torch.float32) -> Model:
    """The model with a backend, which must know all of it."""
    model = undropped(slot, choice, dtype)
    assert said_of(name, model) is None
    for attention in attentions(model):
        attention.backend = backends[name]()
    return model


def undropped(slot: str, choice: dict[str, Any], dtype: torch.dtype = torch.float32) -> Model:
    return build(slot, {**choice, **({"dropout": 0.0} if slot == "attention" else {})}, dtype)


def said_of(name: str, model: Model) -> str | None:
    """Why a backend cannot train a model; None where it can."""
    backend = backends[name]()
    return next(filter(None, (layer_obstacle(backend, layer) for layer in layers_of(model))), None)


def learn(model: Model, vectors: TokenVectors, tokens: Tensor = TOKENS, source: Tensor = SOURCE) -> list[Tensor]:
    """Logits, and gradients of the loss of all documents with respect to the source's and the tokens' vectors."""
    model.zero_grad()
    given = (t.to(model.device) for t in (tokens, source, DOCUMENTS, SOURCE_DOCUMENTS))
    logits = model(*given).logits
    logits[REAL.to(model.device)].float().square().sum().backward()
    return [t.detach().cpu() for t in (logits, *vectors.gradients())]


def check_nothing_leaks(model: Model) -> None:
    vectors = TokenVectors(model)
    if model.device.type == "cuda":  # a kernel compiled for one length gives way to one for all, which rounds otherwise
        learn(model, vectors)
    before = learn(model, vectors)
    after = learn(model, vectors, with_document(TOKENS, DOCUMENTS, 2), with_document(SOURCE, SOURCE_DOCUMENTS, 2))
    for documents, old, new in zip((DOCUMENTS, SOURCE_DOCUMENTS, DOCUMENTS), before, after, strict=True):
        other = (documents != 2) & (documents > 0)
        assert torch.equal(old[other], new[other])  # bit by bit
        assert not torch.equal(old[documents == 2], new[documents == 2])
        assert new.isfinite().all()


def check_packed_is_alone(model: Model, tolerance: float) -> None:
    packed = model(*(t.to(model.device) for t in (TOKENS, SOURCE, DOCUMENTS, SOURCE_DOCUMENTS))).logits.cpu()
    for row, number in ((0, 2), (1, 1)):
        ours, theirs = DOCUMENTS[row] == number, SOURCE_DOCUMENTS[row] == number
        alone = model(TOKENS[row, ours][None].to(model.device), SOURCE[row, theirs][None].to(model.device)).logits
        difference = (packed[row, ours] - alone[0].cpu()).abs().max()
        assert difference <= tolerance * alone.abs().max().clamp_min(1).cpu()


@pytest.mark.parametrize(("backend", "written"), REFUSED)
def test_a_choice_that_a_backend_does_not_know_is_refused_in_training(backend: str, written: str):
    (model,) = [undropped(slot, choice) for slot, choice in CHOICES if label(choice) == written]
    assert said_of(backend, model) == REFUSED[backend, written]


@EACH
def test_nothing_leaks_and_packed_a_document_says_what_it_says_alone(
    backend: str, slot: str, choice: dict[str, Any], on_cpu: None
):
    model = attending(backend, slot, choice)  # one for both: what computes flex on a CPU is traced anew for each model
    check_nothing_leaks(model)
    check_packed_is_alone(model, 1e-6)


def test_rows_of_a_packer_reach_varlen_as_they_lie_and_leak_nothing(on_cpu: None, monkeypatch: pytest.MonkeyPatch):
    choice = {"name": "grouped", **NEEDED, "window": 3}
    model, formula = (attending(name, "attention", choice, torch.float64) for name in ("varlen", "eager"))
    monkeypatch.setattr(varlen, "search_ends", None)  # which looks for documents that nobody knows
    numbers = torch.tensor([[1] * 3 + [2] * 4 + [0] * 3, [1] * 4 + [2] * 6])
    sources = torch.tensor([[1] * 2 + [2] * 3 + [0] * 3, [1] * 4 + [2] * 4])
    known = Documents.packed([[3, 4], [4, 6]], numbers), Documents.packed([[2, 3], [4, 4]], sources)

    def said(model: Model, tokens: Tensor = TOKENS, source: Tensor = SOURCE, laid: Any = known) -> list[Tensor]:
        vectors = TokenVectors(model)
        logits = model(tokens, source, *laid).logits
        logits[numbers > 0].square().sum().backward()
        return [t.detach().clone() for t in (logits, *vectors.gradients())]

    before = said(model)
    for one, other in zip(before, said(formula, laid=(numbers, sources)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    model.zero_grad()
    after = said(model, with_document(TOKENS, numbers, 2), with_document(SOURCE, sources, 2))
    for documents, old, new in zip((numbers, sources, numbers), before, after, strict=True):
        assert torch.equal(old[documents == 1], new[documents == 1])  # bit by bit
        assert not torch.equal(old[documents == 2], new[documents == 2])


@pytest.mark.parametrize("backend", OF_DEVICES)
def test_a_model_learns_what_eager_learns_and_generates_with_sdpa(backend: str, on_cpu: None):
    choice = {"name": "grouped", **NEEDED, "window": 3}
    model = attending(backend, "attention", choice, torch.float64)
    expected = attending("eager", "attention", choice, torch.float64)
    for one, other in zip(*(learn(m, TokenVectors(m)) for m in (model, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    said = []
    for each in (model, expected):
        memory = each.encode_source(SOURCE, SOURCE_DOCUMENTS.clamp_max(1))
        state = each.decoder.start(2, memory)
        padded = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
        prompt = each.decoder.step(TOKENS[:, :4], padded, state)[:, -1:]
        said.append(torch.cat([prompt, each.decoder.step(TOKENS[:, 4:6], padded[:, 2:], state)], dim=1))
    torch.testing.assert_close(said[0], said[1], rtol=1e-9, atol=1e-9)


@ON_GPU
def test_nothing_leaks_on_a_gpu(backend: str, dtype: torch.dtype, slot: str, choice: dict[str, Any]):
    check_nothing_leaks(attending(backend, slot, choice, dtype).cuda())


@ON_GPU
@torch.no_grad()
def test_packed_is_alone_on_a_gpu(backend: str, dtype: torch.dtype, slot: str, choice: dict[str, Any]):
    check_packed_is_alone(attending(backend, slot, choice, dtype).cuda(), 1e-5 if dtype is torch.float32 else 0.03)


@ON_GPU
def test_a_gpu_learns_what_the_formula_does(backend: str, dtype: torch.dtype, slot: str, choice: dict[str, Any]):
    """The formula in float64, on the CPU, with the same weights; a backend may be off by what its precision is."""
    model, formula = attending(backend, slot, choice, dtype).cuda(), attending("eager", slot, choice, dtype).double()
    tolerance = 1e-4 if dtype is torch.float32 else 0.1
    for one, other in zip(learn(model, TokenVectors(model)), learn(formula, TokenVectors(formula)), strict=True):
        assert (one.double() - other).norm() <= tolerance * other.norm()


SHORT = torch.tensor([[1, 1, 2, 2, 3, 3, 4, 4, 5, 0], [1, 2, 2, 3, 3, 3, 4, 5, 5, 5]])
SHORT_SOURCES = torch.tensor([[1, 2, 2, 3, 4, 5, 0, 0], [1, 1, 2, 3, 4, 4, 5, 5]])
ROWS: dict[str, list[Documents]] = {  # that varlen's own kernel does not compute in training
    "whole": [],
    "of short documents": [
        Documents.packed([[2, 2, 2, 2, 1], [1, 2, 3, 1, 3]], SHORT),
        Documents.packed([[1, 2, 1, 1, 1], [2, 1, 1, 2, 2]], SHORT_SOURCES),
    ],
}
GROUPED = {"name": "grouped", **NEEDED, "d_value": 5}
OTHER_KERNELS = pytest.mark.parametrize(
    "choice", [GROUPED, {"name": "full", "score": "dot"}, {**GROUPED, "window": 3}], ids=label
)


@OTHER_KERNELS
@pytest.mark.parametrize("rows", ROWS)
def test_rows_for_which_other_kernels_are_faster_learn_what_the_formula_does(
    rows: str, choice: dict[str, Any], on_cpu: None, monkeypatch: pytest.MonkeyPatch
):
    if "window" not in choice or rows != "whole":
        monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", None)
    check_rows(attending("varlen", "attention", choice, torch.float64), rows, choice, torch.float64, 1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU: its kernels cannot run")
@OTHER_KERNELS
@pytest.mark.parametrize("rows", ROWS)
def test_other_kernels_of_a_gpu_learn_what_the_formula_does(rows: str, choice: dict[str, Any]):
    check_rows(attending("varlen", "attention", choice, torch.bfloat16).cuda(), rows, choice, torch.bfloat16, 0.1)


def check_rows(model: Model, rows: str, choice: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    """Rows say and learn what the formula does, and nothing of one document reaches another."""
    formula = attending("eager", "attention", choice, dtype).double()
    for one, other in zip(learn_rows(model, rows), learn_rows(formula, rows), strict=True):
        assert (one.double() - other).norm() <= tolerance * other.norm()
    if rows == "whole":
        return
    before = learn_rows(model, rows)
    after = learn_rows(model, rows, with_document(TOKENS, SHORT, 2), with_document(SOURCE, SHORT_SOURCES, 2))
    for documents, old, new in zip((SHORT, SHORT_SOURCES, SHORT), before, after, strict=True):
        assert torch.equal(old[(documents != 2) & (documents > 0)], new[(documents != 2) & (documents > 0)])
        assert new.isfinite().all() and not torch.equal(old[documents == 2], new[documents == 2])


def learn_rows(model: Model, rows: str, tokens: Tensor = TOKENS, source: Tensor = SOURCE) -> list[Tensor]:
    """As `learn`."""
    model.zero_grad()
    vectors, known = TokenVectors(model), [one.to(model.device) for one in ROWS[rows]]
    logits = model(tokens.to(model.device), source.to(model.device), *known).logits
    real = torch.ones_like(tokens, dtype=torch.bool) if rows == "whole" else SHORT > 0
    logits[real.to(model.device)].float().square().sum().backward()
    return [t.detach().cpu() for t in (logits, *vectors.gradients())]
