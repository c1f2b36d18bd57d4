"""A generator is trained, averaged, stopped and resumed with the encoder that it is beside."""

from pathlib import Path

import pytest
import torch
from every_objective import Case
from test_resume import SIX, Crash, crash_after, untimed
from tiny import alone, equal, lines, settings, tensors

from zoo.batches.feed import Feed
from zoo.blocks.block import Block
from zoo.models.create import create_model
from zoo.runs.run import RunFiles
from zoo.runs.saved import open_run
from zoo.training.devices import compiling
from zoo.training.devices.compiling import compile_blocks
from zoo.training.loop import train
from zoo.training.start import start_run
from zoo.training.validation import Observers

FOUR = SIX | {"steps": 4, "save_every": 2, "batch": 4, "learning_rate": 1e-3}
CASE = Case({"replaced_token": {}}, "electra-nano", torch.float32)


def train_electra(folder: Path, seed: int = 0, resume: bool = False, observers: Observers | None = None) -> None:
    """Four steps with dropout, in micro-batches, with an average of the weights."""
    examples = CASE.examples()
    sizes = {"vocab_size": examples.roles.vocab_size, "heads": examples.mixture.heads, "dropout": 0.1}
    model, training = create_model(CASE.model, seed=seed, **sizes), settings(**FOUR)
    with start_run(alone(), folder, RunFiles({}), resume) as run:
        train(model, Feed(examples), examples.mixture, training, run, alone(), observers or Observers())


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    train_electra(folder)
    return folder


def test_a_resumed_run_guesses_and_detects_to_the_same_bits(straight: Path, tmp_path: Path):
    with pytest.raises(Crash):
        train_electra(tmp_path / "resumed", observers=crash_after(3))
    train_electra(tmp_path / "resumed", seed=1, resume=True)
    assert equal(tensors(straight), tensors(tmp_path / "resumed"))
    assert untimed(lines(straight)) == untimed(lines(tmp_path / "resumed"))
    assert open_run(straight).checkpoint.state == open_run(tmp_path / "resumed").checkpoint.state


def test_the_average_holds_the_generator_too(straight: Path):
    found, examples = tensors(straight), CASE.examples()
    weights = {name.removeprefix("weights/") for name in found if name.startswith("weights/")}
    averages = {name.removeprefix("ema/") for name in found if name.startswith("ema/")}
    sizes = {"vocab_size": examples.roles.vocab_size, "heads": examples.mixture.heads}
    begun = create_model(CASE.model, seed=0, **sizes).state_dict()
    own = [name for name in weights if name.startswith("generator.") and name in begun]
    assert weights == averages and len(own) > 10
    for name in own:
        assert not torch.equal(found[f"ema/{name}"], found[f"weights/{name}"]), name
        assert not torch.equal(found[f"ema/{name}"], begun[name]), name


def test_the_blocks_of_both_encoders_are_compiled(monkeypatch: pytest.MonkeyPatch):
    model, compiled = create_model("electra-nano", heads=CASE.examples().mixture.heads), list[torch.nn.Module]()
    monkeypatch.setattr(compiling, "compile_module", compiled.append)
    compile_blocks(model)
    parts = {name.split(".")[0] for name, module in model.named_modules() if module in compiled}
    assert parts == {"encoder", "generator"} and all(isinstance(block, Block) for block in compiled)
