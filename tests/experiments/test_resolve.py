"""Claims about what a request resolves to, before any data is read: precedence, and where each value came from."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from zoo.config import as_tree, parse_set
from zoo.experiments.experiment import Experiment
from zoo.experiments.layers import Traced, leaves, origin
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request, by_section
from zoo.experiments.resolve import refuse_architecture, resolve_finetuning, resolve_model_alone, resolve_pretraining
from zoo.experiments.tokenizers import check_tokenizer
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import dump_settings, load_settings
from zoo.runs.saved import SavedRun


def resolve(task: str, *texts: str, model: str = "bert-nano", repeated: tuple[str, ...] = ()) -> Experiment:
    sets, first = ([parse_set(text) for text in given] for given in (texts, repeated))
    return resolve_pretraining(Request(model, task, Path("run"), sets, repeated=first))


def places(experiment: Experiment) -> dict[str, str]:
    return {value.key: value.origin for value in experiment.values()}


@pytest.mark.parametrize("task", ["pydocs-topic", "pydocs-mlm"])
def test_a_map_of_objectives_replaces_those_of_the_file_in_its_own_order(task: str):
    both = "task.objective={classification: {}, masked_lm: {weight: 0.5}}"
    found = resolve(task, both, "task.metrics=[]")
    assert list(found.mixture.members) == ["classification", "masked_lm"]
    assert [head.name for head in found.model.heads] == ["classification", "masked_lm"]


def test_one_option_of_an_objective_leaves_the_others():
    found = resolve("pydocs-mlm", "task.objective.masked_lm.weight=2.0").task.objective
    assert list(found) == ["masked_lm", "next_sentence"] and found["masked_lm"]["weight"] == 2.0


@pytest.mark.parametrize("given", ["task.tokenizer.from=a/run", "task.tokenizer={from: a/run}"])
def test_a_tokenizer_from_a_run_replaces_the_one_that_the_file_trains(given: str):
    assert resolve("numbers-words", given, model="transformer-nano").task.tokenizer == {"from": "a/run"}


def test_an_option_of_the_tokenizer_changes_it_alone():
    found = resolve("numbers-words", "task.tokenizer.vocab_size=99", model="transformer-nano").task
    assert found.tokenizer == {"name": "bpe", "vocab_size": 99}


def test_a_tokenizer_is_from_a_run_or_trained_but_not_both():
    both = resolve(
        "numbers-words", "task.tokenizer.from=a/run", "task.tokenizer.vocab_size=99", model="transformer-nano"
    ).task
    with pytest.raises(ValueError, match="task.tokenizer .with 'from'.: unknown key 'vocab_size'; allowed: from"):
        check_tokenizer(both)


def test_a_head_of_the_task_keeps_the_options_of_the_models_file_and_takes_those_of_set():
    found = resolve("pydocs-mlm", "heads.masked_lm.bias=false", "dropout=0")
    masked = found.model.heads[0]
    assert masked.option("norm").plain() == {"name": "layernorm", "eps": 1e-12} and masked.option("bias") is False


def test_each_value_knows_where_it_came_from():
    found = places(resolve("pydocs-mlm", "training.batch=4", "n_layers=1"))
    assert found["model.d_model"] == "configs/bert-nano.yaml"
    assert found["model.encoder.block"] == "base configs/bert-base.yaml"
    assert found["model.encoder.n_layers"] == found["training.batch"] == "--set"
    assert found["model.vocab_size"] == "tokenizer"
    assert found["model.heads.masked_lm.norm.eps"] == "base configs/bert-base.yaml"
    assert found["training.learning_rate"] == found["task.tokenizer.vocab_size"] == "tasks/pydocs-mlm.yaml"
    assert found["training.clip"] == found["generate.top_k"] == "library"


def test_the_rows_of_a_task_are_shown_wherever_they_come_from():
    shown = {value.key: value for value in resolve("pydocs-mlm", "task.length=128").values()}
    assert [shown["task.length"].value, shown["task.length"].origin] == [128, "--set"]
    assert [shown["task.pack"].value, shown["task.pack"].origin] == [True, "library"]


def test_settings_of_generate_need_a_head_that_writes():
    assert places(resolve("pydocs-lm", "generate.beams=2", model="gpt2-nano"))["generate.beams"] == "--set"
    with pytest.raises(
        ValueError, match="generate.…: masked_lm and next_sentence generate no text, so this has no effect"
    ):
        resolve("pydocs-mlm", "generate.beams=2")
    with pytest.raises(
        ValueError, match="generate.…: masked_lm and next_sentence generate no text, so this has no effect"
    ):
        resolve("pydocs-mlm", "task.generate.beams=2")


def test_sizes_that_set_names_are_not_replaced_by_those_of_task_and_tokenizer():
    found = resolve("pydocs-mlm", "vocab_size=5000", "max_length=500", model="bert-tiny")
    assert (found.model.vocab_size, found.model.max_length) == (5000, 500)
    assert places(found)["model.vocab_size"] == "--set"
    shorter = resolve("pydocs-mlm", model="bert-tiny")
    assert shorter.model.max_length == 128 and places(shorter)["model.max_length"] == "tasks/pydocs-mlm.yaml"
    encoder = shorter.model.encoder
    assert encoder is not None and encoder.settings.max_length == 128


def test_the_first_calls_changes_stand_below_those_of_this_one():
    found = resolve("pydocs-mlm", "training.steps=9", repeated=("training.steps=7", "training.seed=3"))
    assert (found.training.steps, found.training.seed) == (9, 3)
    assert places(found)["training.seed"] == "--set of the first command"


def test_epochs_of_a_higher_level_cancel_the_steps_of_a_lower_one():
    found = resolve("pydocs-mlm", "training.epochs=2")
    assert (found.training.steps, found.training.epochs) == (None, 2.0)
    assert places(found)["training.steps"] == "data"
    again = resolve("pydocs-mlm", "training.steps=5", repeated=("training.epochs=2",))
    assert (again.training.steps, again.training.epochs) == (5, None)


def test_a_change_that_the_model_of_a_run_does_not_read_is_refused():
    with pytest.raises(ValueError, match="decoder.n_heads: nothing reads it: the decoder has no attention"):
        resolve("numbers-words", "decoder.n_heads=4", model="rnn-seq2seq-nano")


def test_the_longest_example_tells_where_a_models_length_came_from():
    found = resolve("pydocs-mlm", "task.longest=20")
    assert found.model.max_length == 20 and places(found)["model.max_length"] == "--set"


def test_a_model_alone_is_its_files_and_set():
    settings, origins = resolve_model_alone("gpt2-nano", [(("n_layers",), 3)])
    assert settings.decoder is not None and settings.decoder.settings.n_layers == 3
    assert origin("model.decoder.n_layers", origins) == "--set"
    assert origin("model.decoder.norm.name", origins) == "base configs/gpt.yaml"
    assert origin("model.decoder.norm.eps", {"model.decoder.norm.name": "a file"}) == "a file"  # which wrote the norm


def test_a_record_of_a_request_repeats_its_changes():
    first = Request("m", "t", Path("run"), [(("training", "steps"), 5), (("dropout",), 0)])
    again = Request("m", "t", Path("run"), [(("dropout",), 0), (("training", "seed"), 1)]).repeat(first.changes)
    assert again.repeated == first.sets and again.sets == [(("training", "seed"), 1)]
    assert again.changes == [{"training.steps": 5}, {"dropout": 0}, {"training.seed": 1}]


def test_what_is_said_again_cancels_nothing_that_was_said_after_it():
    lion, decay = (("training", "optimizer"), "lion"), (("training", "weight_decay"), 0.5)
    again = Request("m", "t", Path("run"), [lion]).repeat(Request("m", "t", Path("run"), [lion, decay]).changes)
    assert again.repeated == [lion, decay] and not again.sets
    changed = [{"training.optimizer": "lion"}, {"training.optimizer": "sgd"}]
    assert Request("m", "t", Path("run"), [lion]).repeat(changed).sets == [lion]


def test_what_was_said_in_other_words_counts():
    def after(*calls: tuple[tuple[str, ...], Any]) -> Request:
        said = Request("m", "t", Path("run"), [calls[0]])
        for call in calls[1:]:
            said = Request("m", "t", Path("run"), [call]).repeat(said.changes)
        return said

    five, map_of_seven = (("training", "steps"), 5), (("training",), {"steps": 7})
    assert after(five, map_of_seven, five).changes[-1] == {"training.steps": 5}
    assert after(map_of_seven, (("training", "epochs"), 2)).changes == [{"training.epochs": 2}]
    assert after(five, (("training",), {"epochs": 2}), five).changes == [{"training.steps": 5}]
    adam, sgd = (("training", "optimizer", "name"), "adamw"), (("training", "optimizer"), {"name": "sgd"})
    assert after(adam, sgd, adam).sets == [adam] and not after(adam, adam).sets


def test_a_record_keeps_either_steps_or_epochs():
    steps, epochs = (("training", "steps"), 6), (("training", "epochs"), 0.3)
    first = Request("m", "t", Path("run"), [steps, (("dropout",), 0)])
    second = Request("m", "t", Path("run"), [epochs]).repeat(first.changes)
    assert second.changes == [{"dropout": 0}, {"training.epochs": 0.3}]
    third = Request("m", "t", Path("run"), [steps]).repeat(second.changes)
    assert third.changes == [{"dropout": 0}, {"training.steps": 6}]


def test_a_section_is_taken_with_and_without_its_keys():
    pairs: list[Any] = [(("training", "optimizer", "eps"), 1), (("training",), {"seed": 2}), (("d_model",), 3)]
    found = by_section(pairs)
    assert as_tree(found["training"]) == {"optimizer": {"eps": 1}, "seed": 2}
    assert found["model"] == [(("d_model",), 3)]
    with pytest.raises(ValueError, match="--set training: expected a map, got 'fast'; set one key with training.KEY"):
        by_section([(("training",), "fast")])


def test_a_value_is_of_the_layer_that_names_it_or_changes_it():
    below = Traced({"a": 1, "b": {"c": 2, "d": 3}}, {"a": "x", "b.c": "x", "b.d": "x"})
    above = below.replaced_by({"a": 1, "b": {"c": 5, "e": []}}, "y", ["a"])
    assert above.origins == {"a": "y", "b.c": "y", "b.e": "y"}
    assert leaves({"a": {}, "b": {"c": [1]}}) == {"a": {}, "b.c": [1]}


@pytest.mark.parametrize("path", [("d_model",), ("encoder", "norm"), ("embeddings", "segments")])
def test_finetuning_refuses_another_architecture(path: tuple[str, ...]):
    with pytest.raises(
        ValueError, match="finetune keeps the checkpoint's architecture; it may change dropout, max_length"
    ):
        refuse_architecture((path, 3), "finetune")


@pytest.mark.parametrize("given", ["task.tokenizer.add=[film]", "task.tokenizer={add: [film]}"])
def test_finetuning_may_add_words_to_the_tokenizer(given: str):
    refuse_architecture(parse_set(given), "finetune")


@pytest.mark.parametrize(
    "given", ["task.tokenizer.name=bpe", "task.tokenizer={add: [film], name: bpe}", "task.tokenizer=bpe"]
)
def test_finetuning_refuses_another_tokenizer(given: str):
    with pytest.raises(ValueError, match="keeps the checkpoint's tokenizer; only tokenizer.add adds words to it"):
        refuse_architecture(parse_set(given), "finetune")


@pytest.mark.parametrize(
    "given",
    ["embeddings.frozen=true", "heads.masked_lm.bias=false", "training.steps=3", "generate.beams=2", "task.length=8"],
)
def test_finetuning_may_change_what_is_no_architecture(given: str):
    refuse_architecture(parse_set(given), "finetune")


def test_finetuning_takes_no_positions_away():
    assert masked_words("bert-nano", sets=("max_length=500",)).model.encoder.settings.max_length == 500
    with pytest.raises(
        ValueError, match="--set max_length=7: the checkpoint's encoder has 64 positions; it may change dro"
    ):
        masked_words("bert-nano", sets=("max_length=7",))


def test_a_model_from_scratch_has_no_adapters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.experiments.pretrain.run_session", Mock(side_effect=AssertionError("it goes on")))
    request = Request("bert-nano", "pydocs-mlm", Path("run"), [parse_set("training.lora={}")])
    with pytest.raises(ValueError, match="training.lora: adapts a trained model, but pretrain starts from random weig"):
        pretrain(request, Mock())


def test_an_unknown_metric_does_not_hide_a_model_of_the_wrong_kind():
    with pytest.raises(ValueError, match=r"task\.metrics\[0\]: unknown metric of .*'foo'"):
        resolve("pydocs-lm", "task.metrics=[foo]", model="gpt2-nano")
    with pytest.raises(ValueError, match="causal_lm cannot train this model: .* It needs a decoder"):
        resolve("pydocs-lm", "task.metrics=[foo]", model="bert-nano")


def masked_words(model: str, *texts: str, sets: tuple[str, ...] = ()) -> Experiment:
    """Fine-tuning a classifier on masked words."""
    classifier = load_settings(model, [parse_set(text) for text in ("heads=[classification]", *texts)])
    checkpoint: Any = None  # of which nothing is read
    saved = SavedRun(Path("run"), dump_settings(classifier), {}, {}, {}, checkpoint)
    given = [parse_set(text) for text in ("task.objective=masked_lm", *sets)]
    return resolve_finetuning(saved, Request("run", "pydocs-mlm", Path("tuned"), given))


@pytest.mark.parametrize(
    ("target", "model"), [("bert", "bert-nano"), ("electra", "electra-nano"), ("modernbert", "bert-modern-nano")]
)
def test_a_classifier_that_learns_masked_words_is_still_a_model_of_its_family(target: str, model: str):
    found = masked_words(model, "encoder.norm.eps=1e-7", "embeddings.norm.eps=1e-7")
    assert targets[target].obstacle(found.model) is None


def test_a_new_head_has_the_norm_that_is_set_or_its_own_where_the_encoder_has_another_kind():
    (head,) = masked_words("bert-nano", sets=("heads.masked_lm.norm.eps=1e-3",)).model.heads
    assert head.option("norm").option("eps") == 1e-3
    own = "heads=[{name: masked_lm, norm: {name: layernorm, eps: 0.5}}]"  # which the checkpoint has been trained with
    (head,) = masked_words("bert-nano", own).model.heads
    assert head.option("norm").option("eps") == 0.5
    (head,) = masked_words("bert-nano", "encoder.norm=rmsnorm").model.heads
    assert head.option("norm") == "layernorm"


@pytest.mark.parametrize("frozen", ["embeddings, decoder", "heads", "heads.classification", "'*.classification.*'"])
def test_a_model_alone_may_freeze_all_but_the_heads_that_a_task_brings(frozen: str) -> None:
    resolve_model_alone("gpt2-nano", [parse_set(f"training.freeze=[{frozen}]")])
