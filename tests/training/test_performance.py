"""environment.json says which fast settings a training has: as those who decide say, on its device."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import alone, settings, train_tiny

from zoo.devices import large_products
from zoo.models.create import create_model
from zoo.training import loop, performance
from zoo.training.performance import describe_performance
from zoo.training.supervision import launch

MODEL = create_model("gpt2-nano")
CHANGES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "optimizer", "adamw: fused"),
    ({"optimizer": "sgd"}, "optimizer", "sgd: fused"),
    ({"optimizer": {"name": "adamw", "fused": False}}, "optimizer", "adamw: one by one"),
    ({"optimizer": "muon"}, "optimizer", "muon: matrices stacked by shape, all else fused"),
    (
        {"optimizer": {"name": "muon", "fused": False}},
        "optimizer",
        "muon: matrices stacked by shape, all else one by one",
    ),
    ({"optimizer": "lion"}, "optimizer", "lion: stacked by shape"),
    ({"compile": True}, "compile", "each block"),
    ({"compile": True}, "loss", "in chunks of about 33,554,432 logits, each with its gradient"),
    ({"compile": False}, "compile", "nothing"),
    ({"workers": 0}, "batches", "built ahead by a thread"),
    ({"workers": 1}, "batches", "built ahead by a process"),
    ({"workers": 3}, "batches", "built ahead by 3 processes"),
    ({"precision": "float32"}, "precision", "float32"),
    ({"precision": "bfloat16"}, "precision", "bfloat16"),
    ({}, "strategy", "one process"),
    ({"chunked_loss": False}, "loss", "of all logits at once"),
    ({"keep_memory": False}, "large_blocks", "returned"),
    ({}, "last_layer", "of positions that a head reads"),
    ({"skip_unread": False}, "last_layer", "of all positions"),
    ({}, "dropout", "a byte per decision"),
    ({"compile": True}, "dropout", "a byte per decision, in compiled blocks a float"),
    ({"byte_dropout": False}, "dropout", "torch's"),
    ({"fast_layers": False}, "layers", "torch's"),
]


@pytest.mark.parametrize(("changes", "key", "said"), CHANGES)
def test_each_setting_is_what_runs(changes: dict[str, Any], key: str, said: str):
    assert describe_performance(settings(**changes), alone(), MODEL)[key] == said


@pytest.mark.parametrize(
    ("amx", "threads", "changes", "laid_out"),
    [
        (True, 4, {}, True),
        (True, 5, {}, False),
        (False, 4, {}, False),
        (True, 4, {"precision": "float32"}, False),
        (True, 4, {"compile": True}, False),
    ],
)
def test_gradients_are_said_to_be_laid_out_where_they_are(
    amx: bool, threads: int, changes: dict[str, Any], laid_out: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(large_products, "has_amx", lambda: amx)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    said = "torch's" + ", gradients of large weights laid out for AMX" * laid_out
    given = settings(**{"precision": "bfloat16", **changes})
    assert describe_performance(given, alone(), MODEL)["layers"] == said


def test_of_a_model_without_blocks_no_layer_is_compiled_and_none_left_out():
    cells = describe_performance(settings(compile=True), alone(), create_model("rnn-seq2seq-nano"))
    assert (cells["compile"], cells["last_layer"]) == ("nothing", "of all positions")
    mixed = create_model("gpt2-nano", **{"decoder.mixer": ["attention", "recurrent"]})
    said = describe_performance(settings(compile=True), alone(), mixed)["compile"]
    assert said == "1 of 2 blocks, those without recurrence"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strategy": "ddp"}, "ddp, gradients as views of buckets"),
        ({"strategy": "ddp", "bucket_views": False}, "ddp, gradients copied to buckets"),
        ({"strategy": "fsdp"}, "fsdp, blocks gathered in bfloat16, gradients reduced in float32"),
    ],
)
def test_several_processes_say_how_gradients_come_together(changes: dict[str, Any], said: str):
    two: Any = SimpleNamespace(device=torch.device("cpu"), count=2, local_count=2)
    assert describe_performance(settings(precision="bfloat16", **changes), two, MODEL)["strategy"] == said


def test_the_loss_says_whether_a_kernel_computes_it(monkeypatch: pytest.MonkeyPatch):
    without = describe_performance(settings(), alone(), MODEL)["loss"]
    monkeypatch.setattr(performance, "has_kernel", lambda device: True)
    assert describe_performance(settings(), alone(), MODEL)["loss"] == f"{without}, by one kernel from 1,024 classes on"


def test_a_gpus_batches_are_pinned_unless_that_is_turned_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(performance, "has_async_copies", lambda device: True)
    said = [describe_performance(settings(pin_memory=on, workers=0), alone(), MODEL)["batches"] for on in (True, False)]
    assert said == ["built ahead by a thread, in pinned memory", "built ahead by a thread"]


@pytest.mark.parametrize(("changes", "views"), [({}, True), ({"bucket_views": False}, False)])
def test_gradients_lie_where_ddp_exchanges_them_unless_that_is_turned_off(
    changes: dict[str, Any], views: bool, tmp_path: Path
):
    assert launch.start_processes(settings(**changes), tmp_path).ddp_handler.gradient_as_bucket_view is views


def test_a_training_that_keeps_no_memory_never_asks_the_c_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[bool] = []
    monkeypatch.setattr(launch, "map_large_blocks", lambda: asked.append(True))
    for keep in (False, True):
        launch.start_processes(settings(keep_memory=keep), tmp_path)
        assert asked == [True] * keep


@pytest.mark.parametrize("keep", [False, True])
def test_large_blocks_are_kept_after_the_first_step(keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []
    step = loop.take_step

    def watched(*given: Any) -> None:
        done.append("step")
        step(*given)

    monkeypatch.setattr(loop, "take_step", watched)
    monkeypatch.setattr(loop, "keep_large_blocks", lambda: done.append("kept"))
    train_tiny(tmp_path, settings(keep_memory=keep, steps=3))
    assert done[: 2 + keep] == ["step", *["kept"] * keep, "step"] and ("kept" in done) == keep


def test_a_training_sets_imports_aside_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launch, "freeze_imports", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        launch.start_processes(settings(), tmp_path)


def test_memory_is_kept_only_where_the_c_library_agrees(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(performance, "map_large_blocks", lambda: False)
    assert describe_performance(settings(), alone(), MODEL)["large_blocks"] == "returned"
