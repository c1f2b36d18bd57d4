"""Claims about what training compiles: when, which blocks, and what happens where torch's compiler fails."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import settings

from zoo.blocks.block import Block
from zoo.devices.compiling import Missing
from zoo.models.create import create_model
from zoo.training.devices import compiling
from zoo.training.devices.compiling import compile_blocks, describe_compiling, should_compile

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MODEL, RECURRENT, CNN = map(create_model, ("gpt2-nano", "rnn-seq2seq-nano", "cnn-attention-nano"))
NOTHING = "no block compiled (recurrent layers and stages of a CNN never are, and this model has no others)"
CHOICES: list[tuple[dict[str, Any], bool, str]] = [
    ({"compile": True, "steps": 1}, True, "blocks compiled in the first steps"),
    ({"compile": False, "steps": 1000}, False, "blocks not compiled (training.compile is false; it pays in long runs)"),
    ({"steps": 1000}, True, "blocks compiled in the first steps"),
    (
        {"steps": 999},
        False,
        "blocks not compiled (it pays from 1,000 steps on; training.compile=true does it in any run)",
    ),
    (
        {"steps": None, "epochs": 1.0},
        False,  # until the steps are counted
        "",
    ),
]


@pytest.mark.parametrize(("changes", "on", "said"), CHOICES)
def test_a_gpu_compiles_in_long_runs_and_says_so(
    changes: dict[str, Any], on: bool, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiling, "missing_for", lambda device: None)
    chosen = replace(settings(), **changes)
    assert should_compile(chosen, GPU) == on
    assert describe_compiling(chosen, MODEL, GPU) == said
    for without in (RECURRENT, CNN):
        assert describe_compiling(chosen, without, GPU) == (NOTHING if changes.get("compile") else "")


@pytest.mark.parametrize("changes", [{"steps": 1000}, {"steps": None, "epochs": 1.0}], ids=str)
def test_a_gpu_that_lacks_what_the_compiler_needs_compiles_when_it_is_told_to(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiling, "missing_for", lambda device: Missing("the package triton", "install it"))
    chosen = replace(settings(), **changes)
    assert not should_compile(chosen, GPU)
    said = "blocks not compiled (training.compile needs the package triton; install it)"
    assert describe_compiling(chosen, MODEL, GPU) == said
    assert should_compile(settings(compile=True), GPU)  # it is refused elsewhere, before data is read


def test_a_cpu_compiles_when_it_is_told_to():
    assert not should_compile(settings(steps=5000), CPU) and should_compile(settings(compile=True), CPU)
    assert describe_compiling(settings(steps=5000), MODEL, CPU) == ""
    assert describe_compiling(settings(compile=True), RECURRENT, CPU) == NOTHING


def test_every_block_is_compiled_in_its_place(monkeypatch: pytest.MonkeyPatch):
    """Not the model: names stay. Shapes are checked in tests, which torch's compiler cannot read, so none compiles."""
    model, compiled = create_model("gpt-nano"), []
    names = list(model.state_dict())
    monkeypatch.setattr(compiling, "compile_module", compiled.append)
    compile_blocks(model)
    assert compiled == [module for module in model.modules() if isinstance(module, Block)]
    assert len(compiled) > 1 and list(model.state_dict()) == names


def test_blocks_that_would_be_compiled_anew_for_every_batch_are_not(monkeypatch: pytest.MonkeyPatch):
    model, compiled = create_model("gpt2-nano", **{"decoder.mixer": ["attention", "recurrent"]}), []
    monkeypatch.setattr(compiling, "compile_module", compiled.append)
    compile_blocks(model)
    assert compiled == [next(module for module in model.modules() if isinstance(module, Block))]


def test_blocks_of_a_kind_share_a_graph_and_validation_costs_none():
    """A Transformer of two layers a side has blocks of two kinds; torch compiles 8 graphs, then no more."""
    program, path = Path(__file__).with_name("compiled_blocks.py"), os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = ["the first step: 2", "other documents: 0", "validations: 0", "a step after them: 0"]
    said += ["blocks that are compiled: 4", "room: 72"]
    # a block whose feed-forward leaves out what no head reads has a graph of its own
    said += ["with dropout, and places that heads read: 2", "breaks of a graph: 0"]
    said += ["with activations computed again: 2"]
    said += ["graphs where gradients are exchanged in buckets: 1"]
    failed = "compiling failed, so the rest runs uncompiled, slower: no kernels for you"
    said += 3 * [f"the same gradients: True; {failed}"]
    assert done.stdout.splitlines() == said
