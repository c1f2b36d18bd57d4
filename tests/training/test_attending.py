"""What a training refuses of a backend of attention, before data is read, and how it uses one."""

from pathlib import Path
from typing import Any

import pytest
import torch

from resolved import resolve_training
from zoo.blocks.backends.eager import Eager
from zoo.blocks.backends.sdpa import Sdpa
from zoo.blocks.backends.varlen import Varlen
from zoo.cli.main import main
from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.training.devices.attention_backend import attentions, check_backend, use_backend
from zoo.training.settings import Training

GPU = torch.device("cuda")
KEY = "training.attention_backend"


@pytest.fixture(autouse=True)
def ampere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that has all kernels, as far as refusals ask for it."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))


def settings(backend: str, **others: Any) -> Training:
    return resolve_training([{"attention_backend": backend, **others}])


def model(name: str = "bert-nano", **options: Any) -> Model:
    return create_model(name, **{"dropout": 0.0, **options})


@pytest.mark.parametrize("backend", ["flex", "varlen"])
def test_a_backend_of_gpus_is_refused_on_a_cpu_before_data_is_read(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ["pretrain", "bert-nano", "pydocs-mlm", "-o", str(tmp_path / "run"), "--data", str(tmp_path)]
    with pytest.raises(SystemExit) as stopped:
        main([*asked, "--set", f"{KEY}={backend}"])
    assert stopped.value.code == 2
    assert f"{KEY}: {backend} trains on cuda only, and this run is on cpu; use sdpa or eager" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        (
            "flex",
            {"name": "bert-nano", "dropout": 0.1},
            "it drops no attention weights, and attention.dropout is 0.1",
        ),
        ("varlen", {"name": "gpt2-nano", "position": "alibi"}, "which position 'alibi' does; choose flex, or use sdpa"),
        ("varlen", {"name": "gpt2-nano", "attention.sinks": 1}, "varlen: it knows no sinks; choose flex, or use sdpa"),
        ("flex", {"name": "gpt2-nano", "attention.score": "additive"}, "flex: it knows scores that are inner products"),
        (
            "eager",
            {"name": "rnn-attention-nano"},
            "no attention over whole rows; leave the setting out",
        ),
    ],
)
def test_a_model_that_a_backend_does_not_know_is_refused_by_its_choice(backend: str, options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        check_backend(model(**options), settings(backend, precision="bfloat16"), GPU)


def test_varlen_is_refused_in_float32():
    words = "varlen computes in bfloat16 or float16, and training.precision is float32; set one of the two"
    with pytest.raises(ValueError, match=words):
        check_backend(model(), settings("varlen", precision="float32"), GPU)


def test_varlen_is_refused_on_a_gpu_that_is_too_old(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    check_backend(model(), settings("flex", precision="float16"), GPU)
    with pytest.raises(ValueError, match=r"needs a GPU of compute capability 8.0 or newer, and this is 7.5"):
        check_backend(model(), settings("varlen", precision="float16"), GPU)


@pytest.mark.parametrize("backend", ["sdpa", "eager", "flex", "varlen"])
@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "transformer-nano", "cnn-attention-nano"])
def test_the_usual_models_train_with_every_backend(name: str, backend: str):
    check_backend(model(name), settings(backend, precision="float16"), GPU)


def test_a_backend_is_used_by_all_attention_over_whole_rows():
    found = model("transformer-nano")
    for backend, kind in (("varlen", Varlen), ("eager", Eager), ("sdpa", Sdpa)):
        use_backend(found, settings(backend))
        assert {type(attention.backend) for attention in attentions(found)} == {kind}


def test_an_unknown_backend_is_refused_by_name():
    with pytest.raises(
        ValueError, match=rf"{KEY}: unknown backend 'flexx' \(did you mean 'flex'\?\); allowed: eager, flex, sdpa"
    ):
        settings("flexx")
