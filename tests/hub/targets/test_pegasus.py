"""Pre-norm encoder-decoders with sinusoids are transformers' Pegasus."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from zoo.hub.checkpoint import import_checkpoint
from zoo.hub.targets.choose import obstacles
from zoo.models.settings import load_settings

PRE_NORM = {"encoder.block": "pre_norm", "decoder.block": "pre_norm"}
ODD = {"d_model": 21, "encoder.n_heads": 3, "decoder.n_heads": 7, "encoder.n_layers": 1, "decoder.max_length": 50}
CHOICES: list[dict[str, Any]] = [
    {},
    {**ODD, "heads.language.bias": True, "embeddings.scale": False},
    {"encoder.d_ff": 13, "encoder.feed_forward.activation": "gelu", "decoder.feed_forward.activation": "gelu"},
    {"encoder.feed_forward.activation": "gelu_tanh", "decoder.feed_forward.activation": "gelu_tanh"},
]


@pytest.mark.parametrize("sets", CHOICES)
def test_pre_norm_models_are_exported_and_checked(build: Any, export: Any, sets: dict[str, Any]):
    report = export(build("transformer-nano", PRE_NORM | sets))
    assert (report.target, report.class_name) == ("pegasus", "PegasusForConditionalGeneration")
    assert report.check.differences["float32"] < 1e-4 and report.check.differences["float64"] < 1e-12
    assert report.check.generated == 2


@torch.no_grad()
def test_sources_and_targets_of_different_length_agree(build: Any, export: Any):
    given = build("transformer-nano", PRE_NORM | ODD)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(export(given).folder).double().eval()
    source, tokens = torch.randint(5, 150, (3, 37)), torch.randint(5, 150, (3, 8))
    there = torch.arange(37) < torch.tensor([[37], [5], [1]])
    ours = given.model.double().eval()(tokens, source, source_documents=there.long()).logits
    theirs = model(source, attention_mask=there, decoder_input_ids=tokens).logits
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("sets", [PRE_NORM, {}], ids=["pegasus", "marian"])
def test_the_table_of_sinusoids_is_what_their_class_computes(build: Any, export: Any, sets: dict[str, Any]):
    report = export(build("transformer-nano", sets | ODD))
    written = load_file(report.folder / "model.safetensors")["model.decoder.embed_positions.weight"]
    config = transformers.AutoConfig.from_pretrained(report.folder)
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config).model.decoder.embed_positions.weight
    assert written.shape == (50, 21)
    torch.testing.assert_close(written, theirs.detach(), atol=1e-7, rtol=0)


@pytest.mark.parametrize("sets", [PRE_NORM, {}], ids=["pegasus", "marian"])
@pytest.mark.parametrize(("shift", "refused"), [(1e-3, False), (1e-2, True)])
def test_another_table_is_refused(
    build: Any, export: Any, tmp_path: Path, sets: dict[str, Any], shift: float, refused: bool
):
    folder = export(build("transformer-nano", sets)).folder
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"][3, 1] += shift
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "hashes.json").unlink()  # the table was changed on purpose
    with pytest.raises(ValueError, match=r"embed_positions\.weight is not the table") if refused else nullcontext():
        import_checkpoint(folder, tmp_path / "run")


def test_a_table_of_another_length_is_refused(build: Any, export: Any, tmp_path: Path):
    folder = export(build("transformer-nano", PRE_NORM)).folder
    tensors = load_file(folder / "model.safetensors")
    name = "model.decoder.embed_positions.weight"
    save_file({**tensors, name: tensors[name][:-1].clone()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "hashes.json").unlink()  # the table was changed on purpose
    with pytest.raises(ValueError, match=r"embed_positions\.weight is not the table"):
        import_checkpoint(folder, tmp_path / "run")


IN_THE_WAY = [
    ({"embeddings.shared": False}, "embeddings.shared is false; transformers' Pegasus has true"),
    ({"heads.language.tied": False}, "heads.language.tied is false; transformers' Pegasus has true"),
    ({"decoder.final_norm": False}, "decoder.final_norm is false; transformers' Pegasus has null or true"),
    ({"decoder.block": "post_norm"}, "decoder.block is post_norm; transformers' Pegasus has pre_norm"),
    ({"encoder.position": "relative"}, "encoder.position is relative; transformers' Pegasus has sinusoidal"),
]


@pytest.mark.parametrize(("sets", "words"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: dict[str, Any], words: str):
    pairs = [(tuple(path.split(".")), value) for path, value in (PRE_NORM | sets).items()]
    assert obstacles(load_settings("transformer-nano", pairs))["pegasus"] == words
