"""transformers' ELECTRA: a discriminator leaves its generator behind, and published folders are read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from untold import untold

import zoo
import zoo.hub.modeling.shell
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.reloading import KeepFloat64
from zoo.hub.targets.choose import choose_target, obstacles
from zoo.models.settings import load_settings

pytestmark = pytest.mark.usefixtures("quick")
PAIR = ["replaced_token", "masked_lm"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sleep", "red"]
SIZES = {
    "vocab_size": len(WORDS), "embedding_size": 6, "hidden_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 12, "max_position_embeddings": 16,
}  # fmt: skip


def test_a_discriminator_is_exported_and_its_generator_is_left_out(build: Any, export: Any):
    report = export(build("electra-nano", {"heads": PAIR}, "wordpiece"))
    assert (report.class_name, report.auto) == ("ElectraForPreTraining", "AutoModelForPreTraining")
    assert report.left_out == ("masked_lm",) and report.check.differences["float64"] < 1e-11
    names = load_file(report.folder / "model.safetensors")
    assert not any(name.startswith("generator") for name in names)


def test_its_encoder_is_electra_model(build: Any, export: Any):
    trained = build("electra-nano", {"heads": PAIR}, "wordpiece")
    report = export(trained)
    theirs, faults = transformers.AutoModel.from_pretrained(report.folder, output_loading_info=True)
    assert type(theirs).__name__ == "ElectraModel" and not faults["missing_keys"] and not faults["mismatched_keys"]
    tokens = torch.randint(7, 100, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), KeepFloat64():
        wanted = theirs.double().eval()(tokens).last_hidden_state
        states = trained.model.double().eval()(tokens).states
    torch.testing.assert_close(states, wanted, atol=1e-11, rtol=0)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("classification", "ElectraForSequenceClassification"),
        ("tagging", "ElectraForTokenClassification"),
        ("span", "ElectraForQuestionAnswering"),
        ("choice", "ElectraForMultipleChoice"),
        ("masked_lm", "ElectraForMaskedLM"),
    ],
)
def test_what_is_fine_tuned_from_it_is_electras_class(build: Any, export: Any, head: str, name: str):
    report = export(build("electra-nano", {"heads": [head]}, "wordpiece"))
    assert report.class_name == name and report.check.differences["float64"] < 1e-11


def test_vectors_as_wide_as_the_model_need_no_map(build: Any, export: Any):
    report = export(build("electra-nano", {"heads": PAIR, "embeddings.width": None}, "wordpiece"))
    config = json.loads((report.folder / "config.json").read_text())
    assert config["embedding_size"] == config["hidden_size"]
    assert not any("embeddings_project" in name for name in load_file(report.folder / "model.safetensors"))


def test_a_bert_that_was_trained_so_is_an_electra():
    settings = load_settings("bert-nano", [(("heads",), PAIR)])
    assert choose_target(settings).name == "electra"


def test_tanh_before_the_classes_is_berts():
    sets = [(("heads",), ["classification"]), (("pooler", "activation"), "tanh")]
    wrong = obstacles(load_settings("electra-nano", sets))["electra"]
    assert wrong == "pooler.activation is tanh; transformers' ELECTRA has gelu"


def published(folder: Path, name: str) -> Any:
    """A folder as the published ones are: older keys, old names of norms, buffers, and a vocabulary."""
    torch.manual_seed(0)
    model = getattr(transformers, name)(transformers.ElectraConfig(**SIZES)).eval()
    tensors = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): t for n, t in model.state_dict().items()}
    tensors["electra.embeddings.position_ids"] = torch.arange(16)[None]
    model.save_pretrained(folder)
    from_file = json.loads((folder / "config.json").read_text())
    more = {"position_embedding_type": "absolute", "summary_type": "first", "summary_use_proj": True}
    (folder / "config.json").write_text(json.dumps({**from_file, **more, "summary_activation": "gelu"}))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": 16}))
    return model


@pytest.mark.parametrize(
    ("name", "head"),
    [("ElectraForPreTraining", "replaced_token"), ("ElectraForMaskedLM", "masked_lm")],
)
def test_a_published_folder_gives_its_logits(tmp_path: Path, name: str, head: str):
    theirs = published(tmp_path, name)
    loaded = load_checkpoint(tmp_path)
    assert loaded.model.generator is None and list(loaded.model.heads) == [head]
    assert loaded.model.settings.embeddings.width == 6
    tokens = torch.tensor([[2, 5, 9, 6, 7, 3]])
    with torch.no_grad(), KeepFloat64():
        wanted = theirs.double()(tokens).logits
        found = loaded.model.double().eval()(tokens).heads[head]
    torch.testing.assert_close(found.view_as(wanted), wanted, atol=1e-10, rtol=0)
    assert loaded.tokenizer.encode(["The cats sleep"])[0].tolist() == [5, 6, 7, 8]


def test_a_published_discriminator_says_what_looks_replaced(tmp_path: Path):
    published(tmp_path, "ElectraForPreTraining")
    found = zoo.pipeline(tmp_path)("the red [MASK]")
    assert all(one["output"] is not None for one in found)


def test_a_model_of_another_block_goes_to_zoos_own_class(export: Any, build: Any):
    trained = build("bert-modern-nano", {"heads": PAIR}, "wordpiece")
    report = export(trained, "zoo")
    assert report.class_name == "ZooForTokenClassification" and report.check.differences["float64"] < 1e-11


def test_a_published_generator_is_no_discriminator(tmp_path: Path):
    published(tmp_path, "ElectraForMaskedLM")
    trained = untold(load_checkpoint(tmp_path).model, None)
    assert choose_target(trained.settings).native_class(trained.settings) is not None
