"""A table of experiments is walked once: what is complete stays, what was stopped goes on."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from resolved import resolve_training
from zoo import config
from zoo.cli.commands.train import table_rows
from zoo.config import parse_set
from zoo.data.task_list import listed_tasks
from zoo.experiments.fill_in import fix_training
from zoo.experiments.request import Request
from zoo.experiments.table import ExperimentTable, absolute_start, mean_score, over_tasks
from zoo.runs.metrics import sample_size
from zoo.runs.request import RequestRecord
from zoo.runs.run import RunFiles, create_run
from zoo.training.state import State

STEPS = 2
METRICS = {"sst2": {"accuracy": 0.5}, "mrpc": {"accuracy": 0.5, "f1": 0.7}, "tiny": {"perplexity": 3.0}}
METRICS |= {"both": {"perplexity": 3.0, "chrf": 40.0}, "text": {"chrf": 40.0}}

APART: dict[str, dict[str, float]] = {}  # by task, what was measured of its files


class Training:
    """Stands for training: writes a run that ends after its steps, or is stopped after the first.

    Its metrics are better with each step. One that is interrupted ends in its last validation.
    """

    def __init__(
        self, stops: tuple[str, ...] = (), interrupted: tuple[str, ...] = (), sample: int | None = None
    ) -> None:
        self.stops, self.interrupted, self.sample = set(stops), interrupted, sample
        self.done: list[tuple[str, bool]] = []

    def __call__(self, request: Request) -> State:
        self.done.append((request.folder.name, request.resume))
        name, metrics = request.folder.name, METRICS[request.folder.name]
        objective = "causal_lm" if {"perplexity", "chrf"} & metrics.keys() else "classification"
        task = {"objective": objective, "source": {"builtin": "pydocs"}, "metrics": list(metrics)}
        asked = {"steps": STEPS, "evaluation_examples": self.sample}
        settled = fix_training(resolve_training([asked]), rows=9, d_model=4)
        record = RequestRecord(request.start, request.task, request.changes)
        files = RunFiles({}, task, config.dump(settled), request=config.dump(record))
        values = {f"validation/{objective}/{metric}": value for metric, value in metrics.items()}
        values |= {f"validation/{key}": value for key, value in APART.get(name, {}).items()}
        with create_run(request.folder, files, request.resume) as run:
            begun = 0 if run.checkpoint is None else run.checkpoint.step
            for step in range(begun + 1, STEPS + 1):
                line = {"step": step, **{name: value * step / STEPS for name, value in values.items()}}
                run.log(line)
                left = line if name in self.interrupted and step == STEPS else None
                state = {**vars(State(step, line=left)), "usual": vars(State().usual)}
                run.save(step, {"weights": {"w": torch.ones(1)}}, state)
                if name in self.stops:
                    self.stops.remove(name)
                    raise KeyboardInterrupt
        return State(STEPS)


def table(folder: Path, *names: str, sets: tuple[str, ...] = ()) -> ExperimentTable:
    return over_tasks(Request("bert", "list", folder, [parse_set(text) for text in sets]), names)


def test_each_task_has_a_folder_and_a_score(tmp_path: Path):
    found = list(table(tmp_path, "sst2", "mrpc").run_all(Training()))
    assert [(one.name, one.folder.name, one.step, one.score) for one in found] == [
        ("sst2", "sst2", 2, 50.0),
        ("mrpc", "mrpc", 2, pytest.approx(60.0)),
    ]
    assert mean_score(found) == pytest.approx(55.0)


def test_what_is_complete_is_not_done_again(tmp_path: Path):
    list(table(tmp_path, "sst2").run_all(Training()))
    again = Training()
    assert [one.name for one in table(tmp_path, "sst2", "mrpc").run_all(again)] == ["sst2", "mrpc"]
    assert again.done == [("mrpc", False)]


def test_a_folder_that_was_locked_and_no_more_is_where_a_run_begins(tmp_path: Path):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / ".lock").touch()
    work = Training()
    list(table(tmp_path, "sst2").run_all(work))
    assert work.done == [("sst2", False)]


def test_a_process_whose_disk_has_no_run_trains_all_and_says_nothing(tmp_path: Path):
    """Of several processes one writes."""
    asked = []

    def work(request: Request) -> State:
        asked.append(request.folder.name)
        return State(STEPS)

    assert list(table(tmp_path, "sst2", "mrpc").run_all(work, is_main=False)) == [] and asked == ["sst2", "mrpc"]


def test_what_was_stopped_goes_on(tmp_path: Path):
    work = Training(stops=("mrpc",))
    with pytest.raises(KeyboardInterrupt):
        list(table(tmp_path, "sst2", "mrpc").run_all(work))
    assert [one.score for one in table(tmp_path, "sst2", "mrpc").run_all(work)] == [50.0, pytest.approx(60.0)]
    assert work.done == [("sst2", False), ("mrpc", False), ("mrpc", True)]


def test_a_run_that_was_stopped_in_its_last_validation_is_not_complete(tmp_path: Path):
    list(table(tmp_path, "sst2").run_all(Training(interrupted=("sst2",))))
    again = Training()
    list(table(tmp_path, "sst2").run_all(again))
    assert again.done == [("sst2", True)]


def test_a_run_whose_log_was_lost_has_no_score_and_costs_the_others_none(tmp_path: Path):
    list(table(tmp_path, "sst2", "mrpc").run_all(Training()))
    (tmp_path / "sst2" / "metrics.jsonl").unlink()
    again = Training()
    found = list(table(tmp_path, "sst2", "mrpc").run_all(again))
    assert again.done == [] and mean_score(found) is None
    assert [one.score for one in found] == [None, pytest.approx(60.0)]


def test_a_run_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    list(table(tmp_path, "sst2").run_all(Training()))
    (tmp_path / "sst2" / "checkpoints" / "2" / "weights.safetensors").write_bytes(b"")
    again = Training()
    assert [one.score for one in table(tmp_path, "sst2").run_all(again)] == [50.0] and again.done == [("sst2", True)]
    assert caplog.text.count("skipped checkpoint 2: ") == 1


def test_a_score_is_a_share_of_the_best_value_and_none_where_one_metric_has_none(tmp_path: Path):
    found = list(table(tmp_path, "text", "both").run_all(Training()))
    assert [one.score for one in found] == [40.0, None]
    assert found[1].values == {"causal_lm/perplexity": 3.0, "causal_lm/chrf": 40.0}


def test_a_metric_without_a_best_value_gives_no_score(tmp_path: Path):
    found = list(table(tmp_path, "sst2", "tiny").run_all(Training()))
    assert [one.score for one in found] == [50.0, None] and mean_score(found) is None
    assert found[1].values == {"causal_lm/perplexity": 3.0}


def test_files_that_were_measured_one_by_one_stand_below_their_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    halves = {"one/classification/accuracy": 0.4, "other/classification/accuracy": 0.6}
    monkeypatch.setattr("test_table.APART", {"sst2": halves})
    (sst2, mrpc) = table(tmp_path, "sst2", "mrpc").run_all(Training())
    assert [(one.name, one.score, one.values) for one in sst2.files] == [
        ("one", 40.0, {"classification/accuracy": 0.4}),
        ("other", 60.0, {"classification/accuracy": 0.6}),
    ]
    assert mrpc.files == () and mean_score([sst2, mrpc]) == pytest.approx(55.0)


def test_a_line_without_a_count_is_of_as_many_as_were_asked_for() -> None:
    assert sample_size({}, {"evaluation_examples": 5}) == 5 and sample_size({}, {}) is None


@pytest.mark.parametrize(("asked", "measured", "said"), [(7000, 7000, "0.5000 (7,000 examples)"), (7, 6, "0.5000")])
def test_a_table_tells_results_of_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, measured: int, said: str
):
    apart = {"examples": float(measured), "one/classification/accuracy": 0.4}
    monkeypatch.setattr("test_table.APART", {"sst2": apart})
    (found,) = table(tmp_path, "sst2").run_all(Training(sample=asked))
    whole, one = table_rows(found)
    assert whole[2] == f"accuracy {said}" and one[2].endswith(" (of the sample)") == (measured == asked)


def test_a_folder_with_another_experiment_is_refused_before_any_is_begun(tmp_path: Path):
    list(table(tmp_path, "sst2").run_all(Training()))
    other = table(tmp_path, "sst2", "mrpc", sets=("training.steps=7",))
    with pytest.raises(ValueError, match=r"(?s)1 of 2 experiments cannot be run, .* with changes none, not "):
        other.check(lambda request: None)


def test_a_run_from_another_checkpoint_or_on_another_task_is_another_experiment(tmp_path: Path):
    (same,) = (found := table(tmp_path, "sst2")).rows.values()
    list(found.run_all(Training()))
    for what, other in (("checkpoint", replace(same, start="gpt2")), ("task", replace(same, task="mrpc"))):
        with pytest.raises(ValueError, match=f"sst2: holds a run with {what} (.*/bert|sst2), not "):
            ExperimentTable({"sst2": other}).check(lambda request: None)
    ExperimentTable({"sst2": replace(same, start="./gpt2/../bert")}).check(lambda request: None)
    begun: list[str] = []
    ExperimentTable({"hub": replace(same, start="hub:a/b", folder=tmp_path / "hub")}).check(
        lambda request: begun.append(absolute_start(request.start))
    )
    assert begun == ["hub:a/b"]


def test_a_folder_that_holds_a_run_itself_is_refused(tmp_path: Path):
    (tmp_path / "request.yaml").touch()
    with pytest.raises(ValueError, match=r"(?s)1 of 1 .* holds a run itself; name another folder with -o"):
        table(tmp_path, "sst2").check(lambda request: None)


def test_a_folder_that_no_run_can_begin_in_is_refused_before_any_is_begun(tmp_path: Path):
    (tmp_path / "mrpc").mkdir()
    (tmp_path / "mrpc/notes.txt").touch()
    (tmp_path / "tiny").symlink_to(tmp_path / "gone")
    said = r"(?s)2 of 3 .*\nmrpc: .*/mrpc: is not empty and not a run \(notes.txt\).*\ntiny: .*/tiny: is a broken link"
    with pytest.raises(ValueError, match=said):
        table(tmp_path, "sst2", "mrpc", "tiny").check(lambda request: None)


def test_a_run_that_no_command_started_is_refused_and_so_is_a_folder_inside_it(tmp_path: Path):
    list(table(tmp_path, "sst2").run_all(Training()))
    (tmp_path / "sst2/request.yaml").unlink()  # an imported model has none
    with pytest.raises(ValueError, match=r"1 of 2 .*\nsst2: .*/sst2: holds a run without request.yaml"):
        table(tmp_path, "sst2", "mrpc").check(lambda request: None)
    with pytest.raises(ValueError, match="sst2: holds a run itself"):
        table(tmp_path / "sst2", "mrpc").check(lambda request: None)
    shutil.rmtree(tmp_path / "sst2/checkpoints")  # killed before its request was written
    table(tmp_path, "sst2", "mrpc").check(lambda request: None)


def test_what_cannot_be_is_said_of_all_at_once(tmp_path: Path):
    def able(request: Request) -> None:
        raise ValueError(f"no file for {request.task}")

    with pytest.raises(ValueError, match=r"(?s)2 of 2 .*\nsst2: no file for sst2\nmrpc: no file for mrpc"):
        table(tmp_path, "sst2", "mrpc").check(able)


def test_changes_are_those_of_every_experiment(tmp_path: Path):
    rows = table(tmp_path, "sst2", "mrpc", sets=("task.tasks=[sst2]", "dropout=0.0")).rows
    assert [request.changes for request in rows.values()] == [[{"dropout": 0.0}]] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: [sst2, sst2]\n", "'sst2' is listed twice"),
        ("tasks: []\n", "it lists no task"),
        ("tasks: [sst3]\n", r"unknown task 'sst3' \(did you mean 'sst2'\?\)"),
        ("tasks: [glue]\n", "glue is a list of tasks itself"),
        ("tasks: sst2\n", "expected a list, got 'sst2'"),
        ("tasks: [sst2]\nlength: 7\n", "unknown key 'length'"),
    ],
)
def test_a_list_that_cannot_be_is_refused(tmp_path: Path, text: str, words: str):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=words):
        listed_tasks(str(tmp_path / "mine.yaml"))


def test_a_list_may_name_files_beside_it(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("tasks: [one.yaml, sst2]\n")
    (tmp_path / "one.yaml").write_text("base: sst2\n")
    assert listed_tasks(str(tmp_path / "mine.yaml")) == [str(tmp_path / "one.yaml"), "sst2"]


def test_a_task_is_no_list() -> None:
    assert listed_tasks("sst2") is None
