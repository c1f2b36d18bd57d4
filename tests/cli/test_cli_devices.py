"""Claims about --device, --precision and --batch: what is not there is refused, and no choice changes the answers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import Said

import zoo as library

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("words", ["evaluate", "predict the", "attend the -o a.html", "export x"])
def test_a_device_that_is_not_there_is_a_wrong_request(zoo: Zoo, run_of: RunOf, words: str):
    command, *rest = words.split()
    said = zoo(command, run_of("classify"), *rest, "--device", "cuda:1")
    assert said.status == 2 and "--device: no device 'cuda:1' here; allowed: auto" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--precision", "bfloat"), r"--precision: unknown value 'bfloat' (did you mean 'bfloat16'?); allowed: auto"),
        (("--precision", "float16", "--device", "cpu"), "--precision: float16 needs a GPU; on a CPU use bfloat16"),
        (("--batch", "0"), "--batch must be at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("words_of", [("evaluate",), ("predict", "the")])
def test_a_wrong_precision_or_batch_is_a_wrong_request(
    zoo: Zoo, run_of: RunOf, data: Path, options: tuple[str, ...], words: str, words_of: tuple[str, ...]
):
    folder = ("--data", data) if words_of == ("evaluate",) else ()
    said = zoo(words_of[0], run_of("classify"), *words_of[1:], *options, *folder)
    assert said.status == 2 and words in said.err


def test_the_check_of_an_export_has_one_precision(zoo: Zoo, run_of: RunOf, tmp_path: Path):
    said = zoo("export", run_of("classify"), tmp_path / "out", "--precision", "bfloat16")
    assert said.status == 2 and "--precision: bfloat16: the check of an export compares numbers in float32" in said.err


def test_evaluation_says_how_many_examples_it_asks_and_its_batch_changes_nothing(zoo: Zoo, run_of: RunOf, data: Path):
    found = [zoo("evaluate", run_of("classify"), "--data", data, "--json", "--batch", n) for n in (2, 50)]
    assert found[0].json == pytest.approx(found[1].json, abs=1e-5)
    assert f"validation: {found[0].json['examples']} examples" in found[0].log


def test_an_evaluation_computes_as_the_runs_validation_did(
    zoo: Zoo, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zoo.devices.precision.has_bfloat16", lambda device: True)
    words = ("pretrain", "gpt2-nano", data / "lm.yaml", "-o", tmp_path / "run", "--data", data)
    trained = zoo(*words, "training.precision=bfloat16", "training.steps=2", "training.evaluation_examples=1000")
    assert trained.status == 0, trained.err
    losses = [zoo("evaluate", tmp_path / "run", "--data", data, "--json", *more).json["loss"] for more in ((), EXACT)]
    shown = library.load(tmp_path / "run")
    assert {p.dtype for p in shown.parameters()} == {torch.float32}
    last = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]
    assert f'"validation/loss": {losses[0]}' in last and losses[0] != losses[1]


EXACT = ("--precision", "float32")


def test_wrong_types_from_python_are_named(run_of: RunOf):
    for wrong, words in (
        ({"device": 3}, "^device: no device '3' here"),
        ({"batch": "x"}, "^batch: expected a whole number, got 'x'"),
        ({"batch": 2.5}, "^batch: expected a whole number, got 2.5"),
    ):
        with pytest.raises(ValueError, match=words):
            library.pipeline(run_of("lm"), **wrong)
    with pytest.raises(ValueError, match="^generate: expected a map, got 3"):
        library.pipeline(run_of("lm"))("the", generate=3)


def test_what_is_no_path_or_target_is_named_by_its_argument(tmp_path: Path):
    wrong = r"^{}: expected a path, as a text or a pathlib.Path, got 3"
    for call in (library.load, library.pipeline, lambda path: library.export(path, tmp_path / "export")):
        with pytest.raises(ValueError, match=wrong.format("path")):
            call(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="^path: it is empty"):
            call("")
    with pytest.raises(ValueError, match=wrong.format("folder")):
        library.export("run", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^target: expected a text or null, got 3"):
        library.export("run", tmp_path / "export", 3)  # type: ignore[arg-type]


def test_a_pipeline_gives_what_predict_prints_as_json(zoo: Zoo, run_of: RunOf):
    texts = ["the red cat", "a dog", "the blue tree runs over the house"]
    answer = library.pipeline(run_of("classify"), precision="float32")
    assert zoo("predict", run_of("classify"), *texts, "--json", "--precision", "float32").json == answer(texts)
    assert [one["input"] for one in answer(texts)] == texts
    in_ones = library.pipeline(run_of("classify"), precision="float32", batch=1)
    assert in_ones.batch == 1 and [one["output"] for one in in_ones(texts)] == [one["output"] for one in answer(texts)]
    with pytest.raises(ValueError, match="^batch must be at least 1, got 0"):
        library.pipeline(run_of("classify"), batch=0)
    assert library.pipeline(run_of("lm"), device=torch.device("cpu")).batch == answer.batch
    narrow = library.pipeline(run_of("lm"), precision="bfloat16").loaded.model
    assert {parameter.dtype for parameter in narrow.parameters()} == {torch.bfloat16}
