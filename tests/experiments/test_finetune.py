"""Claims about what a model takes over from a checkpoint."""

import pytest
import torch

from zoo.experiments.finetune import copy_weights, describe_classes
from zoo.experiments.resolve import MAY_SET, refuse_architecture
from zoo.models.create import create_model
from zoo.models.heads.classes import reorder_classes

TABLE = "encoder.stack.positions.0.table.weight"


def test_positions_that_a_checkpoint_lacks_repeat_those_it_has():
    small, large = create_model("bert-nano", max_length=7), create_model("bert-nano", max_length=17)
    copy_weights(large, small.state_dict())
    known, found = small.state_dict()[TABLE], large.state_dict()[TABLE]
    assert torch.equal(found, torch.cat([known, known, known[:3]]))


def test_tokens_that_a_checkpoint_lacks_stay_as_they_begin():
    small, large = create_model("bert-nano", vocab_size=20), create_model("bert-nano", vocab_size=23)
    before = large.state_dict()["encoder.stack.embeddings.tokens.weight"].clone()
    copy_weights(large, small.state_dict())
    found = large.state_dict()["encoder.stack.embeddings.tokens.weight"]
    assert torch.equal(found[:20], small.state_dict()["encoder.stack.embeddings.tokens.weight"])
    assert torch.equal(found[20:], before[20:])


def test_weights_of_another_shape_are_refused():
    model, larger = create_model("gpt2-nano", vocab_size=300), create_model("gpt2-nano", vocab_size=301)
    with pytest.raises(ValueError, match=r"tokens.weight: the checkpoint has \(301, 32\), the model \(300, 32\)"):
        copy_weights(model, larger.state_dict())


@pytest.mark.parametrize("name", ["transformer-nano", "gpt-modern-nano", "t5-nano"])
def test_positions_without_a_table_go_on_by_their_formula(name: str):
    small, large = create_model(name, max_length=7).eval(), create_model(name, max_length=17).eval()
    copy_weights(large, small.state_dict())
    tokens = torch.arange(1, 8)[None]
    source = None if small.encoder is None else tokens
    assert torch.equal(large(tokens, source).logits, small(tokens, source).logits)
    assert large(torch.ones(1, 17, dtype=torch.long), source).logits.isfinite().all()


@pytest.mark.parametrize(
    "path",
    [
        ("max_length",),
        ("encoder", "max_length"),
        ("dropout",),
        ("decoder", "position", "scaling", "factor"),
        ("position", "scaling"),
    ],
)
def test_finetuning_may_have_more_positions(path: tuple[str, ...]):
    refuse_architecture((path, 3), "finetune")
    assert "max_length (upward)" in MAY_SET


@pytest.mark.parametrize("head", ["classification", "tagging", "similarity"])
def test_classes_that_a_task_numbers_in_another_order_keep_their_weights(head: str):
    name = "gpt2-nano" if head == "similarity" else "bert-nano"
    tensors = create_model(name, heads=[{"name": head, "labels": 3}]).state_dict()
    tensors |= {key: torch.randn_like(tensor) for key, tensor in tensors.items() if key.endswith("output.bias")}
    own, wanted = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), ("entailment", "neutral", "contradiction")
    ordered = reorder_classes(wanted, own, tensors, [head])
    assert ordered is not None and ordered.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert torch.equal(ordered[key], tensor[[2, 1, 0]] if key.startswith("heads.") else tensor)


def test_classes_that_differ_in_case_alone_are_told_apart_where_both_write_them_so():
    tensors = create_model("bert-nano", heads=[{"name": "classification", "labels": 3}]).state_dict()
    ordered = reorder_classes(["b", "a", "A"], ["A", "a", "b"], tensors, ["classification"])
    assert ordered is not None
    weight = "heads.classification.output.weight"
    assert torch.equal(ordered[weight], tensors[weight][[2, 1, 0]])


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (["a", "b", "c"], ["a", "b", "c"]),
        (["a", "b", "c"], ["c", "b", "d"]),
        (["a", "b", "c"], ["c", "b"]),
        (["A", "a", "b"], ["B", "a", "A"]),
        (["a", "b"], ["b", "a"]),  # the head has three
        ([], ["a", "b", "c"]),
    ],
)
def test_other_classes_are_taken_as_they_come(own: list[str], wanted: list[str]):
    tensors = create_model("bert-nano", heads=[{"name": "classification", "labels": 3}]).state_dict()
    assert reorder_classes(wanted, own, tensors, ["classification"]) is None


def test_the_log_says_which_classes_go_on_from_the_rows_of_others():
    """They keep their numbers, and so `b` begins with what the checkpoint learned of `a`."""
    said = describe_classes(["a", "b", "x"], ["b", "c", "x"], False)
    assert said.endswith("weights for other classes: a -> b, b -> c")
    assert describe_classes(["a", "b"], ["b", "a"], True).startswith(
        "the heads keep the checkpoint's classes, reordered"
    )
    assert describe_classes(["a"], ["a", "b"], False) == "the heads have 2 classes, but the checkpoint's 1"
    assert describe_classes(["a"], ["a"], False) == "the heads have the checkpoint's classes"


@pytest.mark.parametrize("width", [1.0, 0.5])
@pytest.mark.parametrize("to_electra", [True, False])
def test_the_head_of_a_generator_is_not_put_on_another_stack(
    to_electra: bool, width: float, caplog: pytest.LogCaptureFixture
):
    both = [{"name": "replaced_token", "generator_width": width}, "masked_lm"]
    models = [create_model("bert-nano", heads=heads, seed=n) for n, heads in enumerate((["masked_lm"], both))]
    given, model = models if to_electra else models[::-1]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with caplog.at_level("INFO", "zoo"):
        copy_weights(model, given.state_dict())
    after = model.state_dict()
    of_head = [name for name in after if name.startswith("heads.masked_lm.")]
    assert of_head and all(torch.equal(after[name], before[name]) for name in of_head)
    assert torch.equal(after[TABLE], given.state_dict()[TABLE])
    assert "heads.masked_lm" in caplog.text.partition("newly initialized")[2]


def test_a_generator_goes_on_with_its_head():
    heads = [{"name": "replaced_token", "generator_width": 0.5}, "masked_lm"]
    given, model = (create_model("bert-nano", heads=heads, seed=seed) for seed in (0, 1))
    copy_weights(model, given.state_dict())
    assert all(torch.equal(tensor, given.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_a_head_of_masked_words_goes_on_where_nobody_has_a_generator():
    given, model = (create_model("bert-nano", heads=["masked_lm"], seed=seed) for seed in (0, 1))
    copy_weights(model, given.state_dict())
    assert all(torch.equal(tensor, given.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_the_discriminators_other_heads_go_on_without_the_generator():
    both = [{"name": "replaced_token", "generator_width": 0.5}, "masked_lm", {"name": "classification", "labels": 2}]
    given = create_model("bert-nano", heads=both, seed=0)
    model = create_model("bert-nano", heads=["masked_lm", {"name": "classification", "labels": 2}], seed=1)
    copy_weights(model, given.state_dict())
    name = "heads.classification.output.weight"
    assert torch.equal(model.state_dict()[name], given.state_dict()[name])
