"""What the commands do, from a run to its predictions: their results, their JSON, and where each line goes."""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Said

from drawing import Drawing
from registered import SLOTS
from zoo.blocks.norm import norms
from zoo.hub.api import load
from zoo.metrics.likelihood import Perplexity
from zoo.runs.saved import open_run
from zoo.strict_yaml import read_yaml

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def train(zoo: Zoo, data: Path, folder: Path, *sets: str, task: str = "classify", model: str = "bert-nano") -> Said:
    pairs = [word for text in sets for word in ("--set", text)]
    said = zoo("pretrain", model, data / f"{task}.yaml", "-o", folder, "--data", data, *pairs)
    assert said.status == 0, said.err
    return said


def test_results_go_to_standard_output_and_the_log_to_standard_error(zoo: Zoo, data: Path, tmp_path: Path):
    said = train(zoo, data, tmp_path / "run")
    assert said.out == f"{tmp_path / 'run'} (3 steps)\n"
    assert "best: step" in said.err
    attention = "sdpa (auto; varlen runs on cuda only, and this is cpu; sdpa computes attention dropout by the formula "
    attention += "on a cpu, and attention.dropout is 0.1)"
    started = next(line for line in said.log.splitlines() if "started: " in line)
    assert started.endswith(f", attention: {attention}")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["attention"] == attention and f"on cpu, {environment['precision']}" in started
    assert environment["large_blocks"] in ("kept", "given back")
    assert environment["optimizer"] == "adamw: fused" and environment["compile"] == "nothing"


def test_set_beats_the_task_and_the_task_beats_the_model(zoo: Zoo, data: Path, tmp_path: Path):
    model = tmp_path / "own.yaml"
    model.write_text("# own.yaml\nbase: bert-nano\ntraining: {learning_rate: 0.5, clip: 0.25, seed: 5}\n")
    train(zoo, data, tmp_path / "run", "training.seed=7", model=str(model))
    training = read_yaml(tmp_path / "run" / "training.yaml")
    assert (training["clip"], training["learning_rate"], training["seed"]) == (0.25, 1e-3, 7)


def test_finetuning_inherits_no_training_setting(zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf):
    train(zoo, data, tmp_path / "first", "training.clip=0.5", task="mlm")
    words = ("finetune", tmp_path / "first", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "--set", "dropout=0")
    assert said.status == 0, said.err
    assert "left out (the task does not train it): heads.masked_lm" in said.log
    assert "newly initialized (missing from the checkpoint): heads.classification, pooler" in said.log
    assert read_yaml(tmp_path / "run" / "training.yaml")["clip"] == 1.0
    assert load(tmp_path / "run").settings.dropout == 0
    kept = [open_run(folder).tokenizer["tokenizer.json"] for folder in (tmp_path / "first", tmp_path / "run")]
    assert kept[0] == kept[1]


def test_finetuning_keeps_classes_that_the_task_numbers_in_another_order(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf
):
    words = ("finetune", run_of("classify"), data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "task.labels=[pos, neg]", "training.steps=1", "training.learning_rate=1e-12")
    assert "the heads keep the checkpoint's classes, reordered" in said.log
    before, after = (load(folder).state_dict()["heads.classification.output.weight"] for folder in (words[1], words[4]))
    assert read_yaml(words[1] / "task.yaml")["labels"] == ["neg", "pos"]
    torch.testing.assert_close(after, before[[1, 0]], rtol=0, atol=1e-9)


def test_the_tokenizer_and_the_task_size_the_model_unless_set_says_otherwise(zoo: Zoo, data: Path, tmp_path: Path):
    train(zoo, data, tmp_path / "run")
    config = read_yaml(tmp_path / "run" / "config.yaml")
    assert config["max_length"] == 24 and config["vocab_size"] < 120
    train(zoo, data, tmp_path / "set", "vocab_size=130", "max_length=30", "task.tokenizer.vocab_size=90")
    config = read_yaml(tmp_path / "set" / "config.yaml")
    assert (config["vocab_size"], config["max_length"]) == (130, 30)


def test_a_max_length_below_the_examples_shortens_them(zoo: Zoo, data: Path, tmp_path: Path):
    said = train(zoo, data, tmp_path / "run", "max_length=6")
    assert "rows are too long for an example" in said.log


def test_a_checkpoint_with_fewer_positions_than_the_task_has_tokens_says_so(
    zoo: Zoo, run_of: RunOf, data: Path, tmp_path: Path
):
    words = ("finetune", run_of("mlm"), data / "classify.yaml", "--data", data, "--set", "training.steps=1")
    places = read_yaml(run_of("mlm") / "config.yaml")["max_length"]
    said = zoo(*words, "-o", tmp_path / "short", f"task.length={places + 8}")
    assert f"examples have at most {places} tokens, as many as the checkpoint has positions" in said.log
    said = zoo(*words, "-o", tmp_path / "long", f"task.length={places + 8}", f"max_length={places + 8}")
    assert said.status == 0 and "has positions" not in said.log


def test_heads_of_the_task_can_be_set(zoo: Zoo, data: Path, tmp_path: Path):
    train(zoo, data, tmp_path / "run", "heads.classification.dropout=0.25")
    (head,) = load(tmp_path / "run").settings.heads
    assert head.name == "classification" and head.option("dropout") == 0.25


def test_gpt1_trains_its_classifier_and_its_language_model_together(zoo: Zoo, data: Path, tmp_path: Path):
    both = "task.objective={classification: {}, causal_lm: {weight: 0.5}}"
    train(zoo, data, tmp_path / "run", both, model="gpt-nano")
    for line in lines(tmp_path / "run"):
        assert line["loss"] == pytest.approx(line["loss/classification"] + 0.5 * line["loss/causal_lm"])
    assert zoo("predict", tmp_path / "run", "the cat", "--json").json[0]["output"] in ("neg", "pos")
    found = zoo("evaluate", tmp_path / "run", data / "lm.yaml", "--data", data, "--json").json
    assert "causal_lm/perplexity" in found


def test_objectives_named_by_set_replace_those_of_the_task(zoo: Zoo, data: Path, tmp_path: Path):
    train(
        zoo,
        data,
        tmp_path / "run",
        "task.objective={masked_lm: {whole_word: true}}",
        "task.metrics=[masked_lm/accuracy]",
    )
    assert read_yaml(tmp_path / "run" / "task.yaml")["objective"] == {"masked_lm": {"whole_word": True}}
    assert [head.name for head in load(tmp_path / "run").settings.heads] == ["masked_lm"]


def test_a_tokenizer_taken_from_a_run_is_the_same(zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf):
    train(zoo, data, tmp_path / "run", f"task.tokenizer.from={run_of('mlm')}")
    assert open_run(tmp_path / "run").tokenizer == open_run(run_of("mlm")).tokenizer


def test_vectors_report_the_share_of_words_found_and_stay_frozen(zoo: Zoo, data: Path, tmp_path: Path):
    path = tmp_path / "some.vec"
    path.write_text(f"2 32\ncat {' '.join(['0.5'] * 32)}\nnever-seen {' '.join(['1'] * 32)}\n")
    said = train(zoo, data, tmp_path / "run", f"embeddings.vectors={path}", "embeddings.frozen=true")
    assert "embeddings: 1 of" in said.log
    table = load(tmp_path / "run").stream.embeddings.tokens.weight
    assert (table == 0.5).all(1).sum() == 1


def test_a_run_goes_on_without_the_vectors_that_it_started_from(zoo: Zoo, data: Path, tmp_path: Path):
    path = tmp_path / "some.vec"
    path.write_text(f"cat {' '.join(['0.5'] * 32)}\n")
    wanted = ["pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data]
    wanted += ["--set", f"embeddings.vectors={path}", "--set"]
    assert zoo(*wanted, "training.steps=1").status == 0
    path.unlink()
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / "1").rename(checkpoints / ".partial-replaced-1")  # killed while its only checkpoint was replaced
    said = zoo(*wanted, "training.steps=2", "--resume")
    assert said.status == 0 and "resumed after step 1" in said.log


def test_a_finished_run_is_complete_when_it_is_resumed(zoo: Zoo, data: Path, run_of: RunOf):
    before = (run_of("classify") / "metrics.jsonl").read_bytes()
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", run_of("classify"), "--data", data, "--resume")
    assert said.status == 0 and "already complete: 3 of 3 steps" in said.log
    assert (run_of("classify") / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "sets",
    [
        ["training.ema=0.9"],
        ["training.average=2", "training.save_every=1"],
        ["training.checkpointing=true"],
        ["training.patience=1", "training.evaluate_every=1", "training.learning_rate=1e-9", "training.steps=9"],
        ["training.trackers=[tensorboard]", "training.log_every=1"],
        ["training.precision=bfloat16", "training.micro_batch=2"],
    ],
    ids=lambda sets: sets[0].partition("=")[0],
)
def test_a_setting_of_training_works_from_the_command_line(zoo: Zoo, data: Path, tmp_path: Path, sets: list[str]):
    train(zoo, data, tmp_path / "run", *sets)
    found = zoo("evaluate", tmp_path / "run", "--data", data, "--json").json
    best = open_run(tmp_path / "run").checkpoint.state["best"]
    logged = next(line for line in lines(tmp_path / "run") if line["step"] == best["step"])
    assert found["loss"] == pytest.approx(logged["validation/loss"], abs=2e-2 if "precision" in sets[0] else 1e-5)
    if "patience" in sets[0]:
        assert len(lines(tmp_path / "run")) < 9
    if "trackers" in sets[0]:
        assert list((tmp_path / "run").rglob("events.out.tfevents.*"))


def test_what_a_variant_draws_itself_follows_the_seed(
    zoo: Zoo, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(norms.variants, "drawing", Drawing)  # type: ignore[arg-type]
    found = []
    for number, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(number)
        train(zoo, data, folder, "encoder.norm=drawing", "training.steps=1", f"training.seed={seed}")
        found.append(open_run(folder).weights)
    gains = [name for name in found[0] if name.endswith("gain")]
    first, again, other = ([weights[name] for name in gains] for weights in found)
    assert gains and all(map(torch.equal, first, again)) and not any(map(torch.equal, first, other))


def test_evaluate_json_names_split_examples_losses_and_metrics(zoo: Zoo, data: Path, run_of: RunOf):
    found = zoo("evaluate", run_of("classify"), "--split", "test", "--data", data, "--json").json
    assert list(found) == ["split", "examples", "loss", "loss/classification", "classification/accuracy"]
    assert (found["split"], found["examples"]) == ("test", 60)
    found = zoo("evaluate", run_of("lm"), "--data", data, "--json").json
    assert list(found) == ["split", "examples", "loss", "loss/causal_lm", "causal_lm/perplexity"]
    found = zoo("evaluate", run_of("numbers"), "--data", data, "--set", "generate.beams=2", "--json").json
    assert list(found)[-1] == "translation/chrf"


def test_a_perplexity_beyond_all_numbers_is_null_in_json_as_in_the_log(
    zoo: Zoo, data: Path, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Perplexity, "measure", lambda self, loss, count: math.inf)
    said = zoo("evaluate", run_of("lm"), "--data", data, "--json")
    assert said.status == 0 and said.json["causal_lm/perplexity"] is None
    assert re.search(r"perplexity +inf", zoo("evaluate", run_of("lm"), "--data", data).out)


def test_evaluate_on_another_task_measures_that_one(zoo: Zoo, data: Path, run_of: RunOf):
    (data / "again.yaml").write_text("base: classify.yaml\nsource: {files: {train: rows.tsv, validation: rows.tsv}}\n")
    found = zoo("evaluate", run_of("classify"), data / "again.yaml", "--data", data, "--json").json
    assert found["examples"] == 60


def test_evaluate_gives_what_training_logged(zoo: Zoo, data: Path, run_of: RunOf):
    found = zoo("evaluate", run_of("lm") / "checkpoints" / "3", "--data", data, "--json").json
    assert found["causal_lm/perplexity"] == pytest.approx(lines(run_of("lm"))[-1]["validation/causal_lm/perplexity"])


def test_evaluate_says_that_the_data_is_not_that_of_the_run(zoo: Zoo, data: Path, tmp_path: Path, run_of: RunOf):
    other = shutil.copytree(data, tmp_path / "other")
    for name in ("rows.tsv", "text.txt"):
        (other / name).write_text("".join((data / name).read_text().splitlines(keepends=True)[:-1]))
    for run in ("classify", "lm"):
        assert "recorded other data" not in zoo("evaluate", run_of(run), "--data", data).log
        said = zoo("evaluate", run_of(run), "--data", other)
        assert said.status == 0 and f"validation: the run recorded other data than {other}" in said.log
    inside = shutil.copytree(data, tmp_path / "in" / "rows.tsv", ignore=shutil.ignore_patterns("numbers*", "text*"))
    said = zoo("evaluate", run_of("classify"), "--data", inside.parent)
    assert "recorded other data" not in said.log and said.log.count("that no format reads") == 2  # train, test
    (other / "again.yaml").write_text("base: classify.yaml\n")
    assert "recorded other data" not in zoo("evaluate", run_of("classify"), other / "again.yaml", "--data", other).log


def test_predict_json_is_a_list_of_input_output_scores(zoo: Zoo, run_of: RunOf):
    (found,) = zoo("predict", run_of("classify"), "the cat", "--json").json
    assert list(found) == ["input", "output", "scores"] and found["input"] == "the cat"
    assert sum(found["scores"].values()) == pytest.approx(1, abs=1e-5)
    (found,) = zoo("predict", run_of("pairs"), "the cat", "--pair", "a dog", "--json").json
    assert found["input"] == ["the cat", "a dog"] and found["output"] in ("neg", "pos")
    (found,) = zoo("predict", run_of("mlm"), "the [MASK] runs [MASK]", "--json").json
    assert [len(scores) for scores in found["scores"]] == [5, 5] and "MASK" not in found["output"]
    (found,) = zoo("predict", run_of("numbers"), "1 2", "--set", "generate.beams=3", "--json").json
    assert isinstance(found["output"], str) and found["scores"] < 0


def test_predict_writes_a_text_on_and_the_seed_repeats_it(zoo: Zoo, run_of: RunOf):
    sampled = ("--set", "generate={max_new_tokens: 5, top_k: 9}", "--json")
    once, again = (zoo("predict", run_of("lm"), "the cat", *sampled).json for _ in range(2))
    assert once == again and once[0]["output"].startswith("the cat")


def test_show_json_has_its_keys_and_set_replaces_dropout_everywhere(zoo: Zoo):
    found = zoo("show", "gpt2-nano", "--json").json
    sizes = ["parameters", "parameters_of_generator", "flops_per_token", "memory"]
    assert list(found) == [*sizes, "targets", "obstacles", "settings"]
    assert found["targets"] == ["gpt2"]
    shown = zoo("show", "bert-nano", "--set", "dropout=0").out
    assert not re.search(r"dropout: +0\.1", shown) and re.search(r"model.dropout: +0\.0 +--set", shown)


def test_list_names_models_tasks_and_blocks(zoo: Zoo):
    found = zoo("list", "--json").json
    assert "bert-base" in found["models"] and "pydocs-mlm" in found["tasks"]
    assert list(zoo("list", "tasks", "--json").json) == ["tasks"]
    blocks = zoo("list", "blocks", "--json").json
    assert (blocks["norm"]["rmsnorm"]["eps"], blocks["norm"]["layernorm"]["eps"]) == (1e-6, 1e-5)
    assert blocks["optimizer"]["adamw"]["betas"] == [0.9, 0.999] and blocks["encoder"]["grid"]["stages"] == "required"
    shown = zoo("list", "blocks").out
    assert "bert-base" in zoo("list", "models").out and "rotary      base: 10000.0, scaling: null" in shown
    assert set(blocks) == set(SLOTS) <= {line.strip() for line in shown.splitlines()}


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_settings_of_generate_are_refused_where_nothing_writes(
    zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch, command: str
):
    monkeypatch.setattr("sys.stdin", None)
    said = zoo(command, run_of("classify"), "--set", "generate.beams=3")
    assert said.status == 2
    assert "generate.…: classification generates no text, so this has no effect; leave it out" in said.err
