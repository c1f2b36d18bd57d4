"""Which backends of attention a training chooses, what it refuses before data is read, and how it uses them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from resolved import resolve_training
from zoo.blocks.backends.backend import backends
from zoo.blocks.backends.blocked import Blocked
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.sdpa import Sdpa
from zoo.blocks.backends.varlen import Varlen
from zoo.cli.main import main
from zoo.models.attention_backend import Hardware, attentions, fastest, layers_of
from zoo.models.cost import on_meta
from zoo.models.create import create_model, load_settings
from zoo.models.model import Model
from zoo.training.devices.attention_backend import choose_backends, use_backends
from zoo.training.settings import Training

GPU = Hardware("cuda", (8, 0), torch.bfloat16)
OLD_GPU = Hardware("cuda", (7, 5), torch.float16)
BARE_GPU = Hardware("cuda", (8, 0), torch.bfloat16, "the package triton")
WIDE_GPU = Hardware("cuda", (9, 0), None)
CPU, WIDE_CPU = Hardware("cpu", (0, 0), torch.bfloat16), Hardware("cpu", (0, 0), None)
KEY = "training.attention_backend"


def settings(backend: str, precision: str = "auto") -> Training:
    return resolve_training([{"attention_backend": backend, "precision": precision}])


def model(name: str = "bert-nano", **options: Any) -> Model:
    return create_model(name, **{"dropout": 0.0, **options})


def said(found: Model, on: Hardware, backend: str = "auto") -> str:
    chosen = choose_backends(found, settings(backend), on)
    assert len(chosen.by_layer) == len(list(attentions(found)))
    return chosen.message


FAMILIES = ["gpt2", "gpt-modern", "bert-base", "bert-modern", "transformer-base", "captioner-transformer"]


@pytest.mark.parametrize("name", FAMILIES)
def test_auto_is_varlen_on_a_gpu_for_every_family(name: str):
    found = on_meta(load_settings(name, []))
    assert said(found, GPU) == "varlen (auto)"


@pytest.mark.parametrize("name", [*FAMILIES, "t5-small", "cnn-attention"])
def test_auto_is_sdpa_in_float32_for_every_family(name: str):
    found = on_meta(load_settings(name, [(("dropout",), 0.0)]))
    assert said(found, WIDE_CPU) == "sdpa (auto; varlen runs on cuda only, and this is cpu)"
    why = "varlen computes in bfloat16 or float16, and this run in float32 (training.precision)"
    assert said(found, WIDE_GPU) == f"sdpa (auto; {why})"


@pytest.mark.parametrize("name", FAMILIES)
def test_auto_is_blocked_on_a_cpu_in_bfloat16_for_every_family(name: str):
    found = on_meta(load_settings(name, []))
    assert said(found, CPU) == "blocked (auto; varlen runs on cuda only, and this is cpu)"


def test_what_is_computed_by_the_formula_for_want_of_a_kernel_is_said_once():
    why = "sdpa computes attention dropout by the formula on a cpu, and attention.dropout is 0.1"
    found = model(dropout=0.1)
    assert said(found, WIDE_CPU) == f"sdpa (auto; varlen runs on cuda only, and this is cpu; {why})"
    assert said(found, WIDE_CPU, "sdpa") == f"sdpa ({KEY}; {why})"
    assert said(found, GPU, "sdpa") == f"sdpa ({KEY})"
    assert said(model(**{"attention.score": "additive"}), GPU, "sdpa").endswith("score 'additive' by the formula)")


def test_a_recurrent_decoder_has_no_attention_to_choose_for():
    assert said(model("rnn-attention-nano"), GPU) == "none to choose"


@pytest.mark.parametrize(
    ("options", "on", "words"),
    [
        ({"name": "bert-nano", "dropout": 0.1}, GPU, "varlen (auto)"),
        (
            {"name": "gpt2-nano", "attention.sinks": 1, "dropout": 0.1},
            GPU,
            "sdpa (auto; varlen does not support sinks; flex does not support attention dropout, but "
            "attention.dropout is 0.1)",
        ),
        (
            {"name": "gpt2-nano", "attention.d_key": 200, "dropout": 0.1},
            GPU,
            "sdpa (auto; varlen supports attention dropout in heads up to 192 wide, but d_key is 200, d_value 8, and "
            "attention.dropout 0.1; flex does not support attention dropout, but attention.dropout is 0.1)",
        ),
        ({"name": "gpt2-nano", "attention.d_key": 200}, GPU, "varlen (auto)"),
        ({"name": "gpt2-nano", "attention.d_key": 192, "dropout": 0.1}, GPU, "varlen (auto)"),
        (
            {"name": "gpt2-nano", "position": ["none", "alibi"]},
            GPU,
            "varlen in 1 of 2 layers, flex in 1 of 2 layers (auto; varlen does not support position "
            "'alibi', which adds to the scores)",
        ),
        ({"name": "gpt2-nano", "attention.sinks": 1}, GPU, "flex (auto; varlen does not support sinks)"),
        (
            {"name": "t5-nano"},  # whose cross-attention has no position
            GPU,
            "flex in 4 of 6 layers, varlen in 2 of 6 layers (auto; varlen does not support position "
            "'relative', which adds to the scores)",
        ),
        (
            {"name": "gpt2-nano", "attention.score": "additive"},
            GPU,
            "sdpa (auto; varlen supports only inner products, unlike score 'additive'; flex supports only inner "
            "products, unlike score 'additive'; sdpa computes score 'additive' by the formula)",
        ),
        (
            {"name": "gpt2-nano"},
            OLD_GPU,
            "flex (auto; varlen needs a GPU of compute capability 8.0 or newer, and this is 7.5)",
        ),
        (
            {"name": "gpt2-nano", "attention.sinks": 1},
            BARE_GPU,
            "sdpa (auto; varlen does not support sinks; flex needs the package triton)",
        ),
        (
            {"name": "gpt2-nano", "attention.sinks": 1, "dropout": 0.1},
            BARE_GPU,
            "sdpa (auto; varlen does not support sinks; flex does not support attention dropout, but "
            "attention.dropout is 0.1)",
        ),
        ({"name": "gpt2-nano"}, BARE_GPU, "varlen (auto)"),
        (
            {"name": "gpt2-nano", "attention.sinks": 1},
            BARE_GPU._replace(dtype=None),
            "sdpa (auto; varlen computes in bfloat16 or float16, and this run in float32 (training.precision))",
        ),
    ],
    ids=str,
)
def test_auto_costs_only_those_layers_their_speed_that_a_kernel_does_not_know(options: dict, on: Hardware, words: str):
    assert said(model(**options), on) == words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "bert-nano", "dropout": 0.1}, "varlen (auto)"),
        (
            {"name": "t5-nano"},
            "sdpa in 4 of 6 layers, varlen in 2 of 6 layers (auto; varlen does not support position 'relative'",
        ),
        ({"name": "gpt2-nano", "attention.sinks": 1}, "sdpa (auto; varlen does not support sinks)"),
    ],
)
def test_a_model_that_is_only_used_drops_nothing_and_compiles_no_kernel(options: dict, words: str):
    assert fastest(layers_of(model(**options)), GPU, training=False).message.startswith(words)


@pytest.mark.parametrize("backend", ["flex", "varlen"])
def test_a_backend_of_gpus_is_refused_on_a_cpu_before_data_is_read(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ["pretrain", "bert-nano", "pydocs-mlm", "-o", str(tmp_path / "run"), "--data", str(tmp_path)]
    with pytest.raises(SystemExit) as stopped:
        # in float32: `blocked` is for the precision that some processors lack
        main([*asked, "--set", f"{KEY}={backend}", "--set", "training.precision=float32"])
    assert stopped.value.code == 2
    refusal = f"{KEY}: {backend} runs on cuda only, and this is cpu; use one of auto, eager, sdpa"
    assert refusal in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("backend", "options", "on", "words"),
    [
        (
            "flex",
            {"name": "bert-nano", "dropout": 0.1},
            GPU,
            "flex does not support attention dropout, but attention.dropout is 0.1; use one of auto, eager, sdpa",
        ),
        (
            "varlen",
            {"name": "gpt2-nano", "position": "alibi"},
            GPU,
            "varlen does not support position 'alibi', which adds to the scores; use one of auto, eager, sdpa, flex",
        ),
        (
            "varlen",
            {"name": "gpt2-nano", "attention.sinks": 1},
            GPU,
            "varlen does not support sinks; use one of auto, eager, sdpa, flex",
        ),
        ("flex", {"name": "gpt2-nano", "attention.score": "additive"}, GPU, "flex supports only inner products"),
        ("eager", {"name": "rnn-attention-nano"}, GPU, "no full-sequence attention; leave the setting out"),
        ("blocked", {}, GPU, "blocked runs on cpu only, and this is cuda"),
        ("blocked", {}, WIDE_CPU, "blocked computes in bfloat16 or float16, and this run in float32"),
        ("varlen", {}, WIDE_GPU, "varlen computes in bfloat16 or float16, and this run in float32"),
        ("varlen", {}, OLD_GPU, "varlen needs a GPU of compute capability 8.0 or newer, and this is 7.5"),
    ],
)
def test_a_named_backend_that_cannot_train_a_model_is_refused(backend: str, options: dict, on: Hardware, words: str):
    with pytest.raises(ValueError, match=words):
        said(model(**options), on, backend)


def test_flex_trains_in_float32_where_it_is_named():
    assert said(model(), WIDE_GPU, "flex") == f"flex ({KEY})"


def test_sdpa_may_be_named_for_a_model_without_attention_over_whole_rows():
    assert said(model("rnn-attention-nano"), CPU, "sdpa") == f"sdpa ({KEY})"


@pytest.mark.parametrize("backend", backends.names())
@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "transformer-nano", "cnn-attention-nano"])
def test_the_usual_models_train_with_every_backend(name: str, backend: str):
    said(model(name), CPU if backends[backend].device == "cpu" else GPU, backend)


def test_a_backend_is_used_by_all_attention_over_whole_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    found = model("transformer-nano")
    for backend, device, kind in (
        ("varlen", "cuda", Varlen),
        ("auto", "cuda", Varlen),
        ("eager", "cpu", Eager),
        ("auto", "cpu", Blocked),
        ("sdpa", "cpu", Sdpa),
    ):
        use_backends(found, settings(backend, "bfloat16"), torch.device(device))
        used = [attention.backend for attention in attentions(found)]
        assert {type(one) for one in used} == {kind}
        assert len(set(map(id, used))) == len(used)  # what one layer's kernel has come to is nothing to the others


def test_an_unknown_backend_is_refused_by_name():
    allowed = "allowed: blocked, eager, sdpa, flex, varlen, auto"
    words = rf"{KEY}: unknown backend 'flexx' \(did you mean 'flex'\?\); {allowed}"
    with pytest.raises(ValueError, match=words):
        settings("flexx")
