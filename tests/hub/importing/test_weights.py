"""Claims about a stranger's tensors by name, and about each of them alone."""

from pathlib import Path

import pytest
import torch
import transformers
from strangers import rewrite, saved
from torch import Tensor

import zoo
from zoo.hub.importing import weights
from zoo.hub.importing.weights import choose_class, convert, name_tensors
from zoo.hub.sources.headers import TensorInfo
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.renaming import ROW, Rename
from zoo.hub.targets.declare.target import Target

BERT, GPT2 = targets["bert"], targets["gpt2"]


def read(target: Target, *names: str) -> tuple[dict[str, str], list[str]]:
    """What a file of such tensors is read as: by the names of today, the file's own; and the names left out."""
    stored = {name: TensorInfo(Path(), name, "F32", (2,)) for name in names}
    found, dropped = name_tensors(stored, target, "theirs")
    return {name: tensor.name for name, tensor in found.items()}, dropped


def test_a_tensor_may_lack_the_prefix_beside_others_that_have_it():
    names = "transformer.wte.weight", "h.0.ln_1.weight", "transformer.h.123.ln_1.bias"
    wanted = dict(zip(["transformer.wte.weight", "transformer.h.0.ln_1.weight", names[2]], names, strict=True))
    assert read(GPT2, *names) == (wanted, [])


def test_two_names_of_one_tensor_are_refused():
    norm = "bert.embeddings.LayerNorm"
    said = f"theirs: two tensors map to {norm}.weight; one of them is {norm}.gamma"
    with pytest.raises(ValueError, match=said):
        read(BERT, f"{norm}.weight", f"{norm}.gamma")


def test_what_old_files_hold_beside_weights_is_passed_over_by_its_whole_name():
    assert read(GPT2, "transformer.wte.weight", "transformer.h.0.attn.bias") == (
        {"transformer.wte.weight": "transformer.wte.weight"},
        [],
    )
    with pytest.raises(ValueError, match=r"theirs: .*GPT-2 has no tensor transformer\.h\.0\.cross_attn\.bias"):
        read(GPT2, "transformer.wte.weight", "transformer.h.0.cross_attn.bias")


def test_a_tensor_without_a_place_is_left_out_where_it_can_only_be_a_heads():
    assert read(GPT2, "transformer.wte.weight", "mine.weight")[1] == ["mine.weight"]
    with pytest.raises(ValueError, match=r"theirs: transformers' GPT-2 has no tensor mine\.weight"):
        read(GPT2, "wte.weight", "mine.weight")


def test_a_class_without_tensors_of_its_own_is_the_one_that_is_named():
    assert choose_class(BERT, "BertForMaskedLM", ["bert.pooler.dense.weight"]).name == "BertForMaskedLM"
    assert choose_class(BERT, "BertModel", []).name == BERT.classes[0].name


def test_where_heads_are_missing_every_other_weight_is_the_folders(tmp_path: Path):
    folder = saved(tmp_path, "BertForPreTraining")
    whole = zoo.load(folder).state_dict()
    rewrite(folder, lambda name: None if name.startswith("cls.") else name)
    found = zoo.load(folder).state_dict()
    body = [name for name in whole if not name.startswith("heads.")]
    assert found.keys() == whole.keys() and all(torch.equal(found[name], whole[name]) for name in body)


@pytest.mark.parametrize("bias", [False, True])
def test_a_class_that_is_not_named_is_known_by_its_tensors_with_and_without_optional_biases(bias: bool):
    sizes = {"vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    config = transformers.ModernBertConfig(**sizes, **tokens, intermediate_size=4, norm_bias=bias, classifier_bias=bias)
    for cls in (transformers.ModernBertForMaskedLM, transformers.ModernBertForSequenceClassification):
        assert choose_class(targets["modernbert"], None, cls(config).state_dict().keys()).name == cls.__name__


@pytest.mark.parametrize(
    ("rename", "tensor"),
    [
        (Rename(("a", "b"), "x"), torch.ones(())),
        (Rename(("a", "b"), "x"), torch.ones(1, 2)),
        (Rename(("a",), "x", (ROW,)), torch.ones(())),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(rename: Rename, tensor: Tensor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights, "load_tensor", lambda stored: stored)
    with pytest.raises(ValueError, match="theirs: x cannot have shape "):
        convert([rename], {"x": tensor}, "theirs")  # type: ignore[dict-item]


def test_a_part_of_a_tensor_does_not_keep_the_whole_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights, "load_tensor", lambda stored: stored)
    found = convert([Rename(("a", "b"), "x")], {"x": torch.arange(6.0)}, "theirs")  # type: ignore[dict-item]
    assert found["b"].tolist() == [3, 4, 5] and found["b"].untyped_storage().nbytes() == 3 * 4
