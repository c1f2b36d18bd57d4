"""Claims about `micro_batch: auto`: the largest that fits, the same gradient, and the same again after a stop."""

import weakref
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch._dynamo
from tiny import GOAL, TinyFeed, TinyModel, alone, lines, losses, settings, train_tiny

from zoo.runs.saved import open_run
from zoo.training import micro_batch as micro_batch_module
from zoo.training.learner import Learner
from zoo.training.micro_batch import fit_micro_batch
from zoo.training.supervision.processes import Processes
from zoo.training.validation import Observers, Validation


class Hungry(TinyModel):
    """Has memory for so many rows in one forward."""

    def __init__(self, rows: int, error: Exception | None = None) -> None:
        super().__init__()
        self.rows, self.most = rows, 0
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has less")

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor) -> Any:
        if len(tokens) > self.rows:
            raise self.error
        self.most = max(self.most, len(tokens))
        return super().forward(tokens, documents)


@pytest.mark.parametrize(("rows", "found"), [(99, 13), (12, 7), (5, 4), (1, 1)])
def test_the_share_of_a_process_is_halved_until_it_fits(tmp_path: Path, rows: int, found: int):
    model = Hungry(rows)
    _, state = train_tiny(tmp_path, settings(steps=1, batch=13, micro_batch="auto"), model)
    assert (model.most, state.micro_batch) == (found, found)


def test_each_process_begins_with_its_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(micro_batch_module, "fits", lambda *_: True)
    one_of_two = Mock(count=2, gather=lambda rows: [rows, rows])
    learner = Mock(settings=settings(batch=13, micro_batch="auto"), processes=one_of_two)
    assert fit_micro_batch(learner, TinyFeed(), GOAL, None) == 7


@pytest.mark.parametrize(("rows", "times"), [(99, 0), (5, 2)])
def test_graphs_of_sizes_that_did_not_fit_are_forgotten(
    tmp_path: Path, rows: int, times: int, monkeypatch: pytest.MonkeyPatch
):
    """With them torch would take each other size as one of any size, and make slower kernels of it."""
    forgotten: list[None] = []
    monkeypatch.setattr(torch._dynamo, "reset", lambda: forgotten.append(None))
    train_tiny(tmp_path, settings(steps=1, batch=13, micro_batch="auto"), Hungry(rows))
    assert len(forgotten) == times


def test_what_auto_finds_changes_no_loss(tmp_path: Path):
    for name, rows in {"much": 99, "little": 3}.items():
        train_tiny(tmp_path / name, settings(micro_batch="auto", steps=6), Hungry(rows))
    train_tiny(tmp_path / "named", settings(steps=6))
    assert losses(tmp_path / "much") == losses(tmp_path / "named")
    assert losses(tmp_path / "little") == pytest.approx(losses(tmp_path / "named"), abs=1e-5)


def test_all_processes_train_with_what_fits_in_each_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Processes, "gather", lambda self, rows: [rows, 2])
    model = Hungry(99)
    _, state = train_tiny(tmp_path, settings(steps=1, micro_batch="auto"), model)
    assert state.micro_batch == 2


def test_a_resumed_run_keeps_what_auto_found(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=2, micro_batch="auto"), Hungry(3))
    assert open_run(tmp_path).checkpoint.state["micro_batch"] == 3
    model = Hungry(99)
    train_tiny(tmp_path, settings(steps=4, micro_batch="auto"), model, resume=True)
    assert model.most == 3 and len(lines(tmp_path)) == 4


def test_a_resumed_run_tries_what_it_found_before_in_the_memory_that_there_is_now(tmp_path: Path):
    train_tiny(tmp_path, settings(steps=2, micro_batch="auto"), Hungry(99))
    assert open_run(tmp_path).checkpoint.state["micro_batch"] == 5
    model = Hungry(3)
    train_tiny(tmp_path, settings(steps=4, micro_batch="auto"), model, resume=True)
    assert model.most == 3 and open_run(tmp_path).checkpoint.state["micro_batch"] == 3


def test_what_was_found_beside_fewer_processes_is_no_more_than_the_share_of_one():
    learner = Learner(Hungry(99), settings(micro_batch="auto"), alone())
    assert fit_micro_batch(learner, TinyFeed(), GOAL, 99) == 5


class Watching(TinyModel):
    """Sees in which dtype it multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor) -> Any:
        self.dtypes.append(torch.mm(self.hidden.weight, self.hidden.weight.T).dtype)
        return super().forward(tokens, documents)


def test_a_pass_is_tried_in_the_precision_of_training_and_beside_two_moments_of_each_trained_weight(
    monkeypatch: pytest.MonkeyPatch,
):
    model, made, empty_like = Watching(), list[torch.Tensor](), torch.empty_like
    learner = Learner(model, settings(micro_batch="auto", precision="bfloat16", freeze=["embedding"]), alone())
    monkeypatch.setattr(torch, "empty_like", lambda like: made.append(like) or empty_like(like))
    fit_micro_batch(learner, TinyFeed(), GOAL, None)
    assert model.dtypes == [torch.bfloat16] * 2
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    assert [sum(like is weight for like in made) for weight in weights] == [2] * 3
    assert not any(like is model.embedding.weight for like in made)


class Crowded(TinyModel):
    """Has memory for a forward only where the output of no other is left, and gradients for a few rows less."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[weakref.ref[torch.Tensor]] = []

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor) -> Any:
        left = sum(output() is not None for output in self.outputs)
        rows = 2 if self.hidden.weight.grad is not None else 4
        if left or len(tokens) > rows:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {left} outputs are left over")
        said = super().forward(tokens, documents)
        self.outputs.append(weakref.ref(said.scores["language"].states))
        return said


def test_auto_finds_what_fits_beside_the_gradients_of_the_micro_batch_before(tmp_path: Path):
    _, state = train_tiny(tmp_path, settings(steps=2, batch=8, micro_batch="auto"), Crowded())
    assert state.micro_batch == 2


def test_the_output_of_a_micro_batch_is_gone_before_the_next_and_before_validation(tmp_path: Path):
    model, left = Crowded(), []

    def measure(judged: Any, between: Any) -> dict[str, float]:
        left.append(sum(output() is not None for output in model.outputs))
        return {"loss": 1.0}

    training = settings(steps=2, batch=8, micro_batch=2, evaluate_every=1)
    train_tiny(tmp_path, training, model, observers=Observers(Validation(measure, "loss")))
    assert left == [0, 0]


@pytest.mark.parametrize(
    "error",
    [
        None,
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        MemoryError(),  # Python's own has no text
    ],
)
def test_out_of_memory_names_the_setting_to_lower(tmp_path: Path, error: Exception | None):
    words = r"out of memory: lower training.micro_batch \(now 4\), which changes no gradient.*(CUDA|DefaultCPU|Memo)"
    with pytest.raises(RuntimeError, match=words) as refused:
        train_tiny(tmp_path, settings(micro_batch=4), Hungry(3, error))
    assert "\n" not in str(refused.value)


def test_other_errors_stay_what_they_are(tmp_path: Path):
    for micro_batch in (4, "auto"):
        with pytest.raises(RuntimeError, match="^a bug$"):
            train_tiny(tmp_path / str(micro_batch), settings(micro_batch=micro_batch), Hungry(0, RuntimeError("a bug")))


def test_auto_that_never_fits_says_so_in_the_first_step(tmp_path: Path):
    with pytest.raises(RuntimeError, match=r"out of memory: lower training.micro_batch \(now 1\).*strategy=fsdp"):
        train_tiny(tmp_path, settings(micro_batch="auto"), Hungry(0))


def test_another_word_than_auto_is_refused():
    with pytest.raises(ValueError, match="training.micro_batch: expected a whole number or 'auto' or null, got 'all'"):
        settings(micro_batch="all")
