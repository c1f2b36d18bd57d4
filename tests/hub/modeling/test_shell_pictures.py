"""Models that read pictures, in zoo's own classes: exported, loaded, generated with, trained, saved and imported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from shell_choices import Shelled, load
from untold import untold

from versions import HIDDEN
from zoo.data.columns.pictures import decode
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.importing.importing import import_folder
from zoo.hub.publishing.published import published_files
from zoo.models.create import create_model

CAPTIONERS = ["captioner-rnn-nano", "captioner-transformer-nano"]
LABELS = ["cat", "dog", "bird"]


@pytest.fixture
def classifier(tmp_path: Path) -> ExportReport:
    """A CNN with attention that tells three things apart."""
    model = create_model("cnn-attention-nano", heads={"classification": {"labels": 3}})
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return export_model(untold(model, None, labels=LABELS), tmp_path / "cnn", "zoo", reload)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


@pytest.mark.parametrize("name", CAPTIONERS)
def test_a_captioner_is_loaded_as_it_was_and_writes_with_a_cache_what_it_writes_without(shelled: Shelled, name: str):
    report = shelled(name, {"d_model": 16})
    assert report.class_name == "ZooForImageTextToText" and report.check.pictures == 6 and report.check.left
    assert report.check.differences["float64"] < 1e-12 and report.check.generated == 2
    model = load(report, dtype=torch.float64)
    pixels = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    for way in ({}, {"num_beams": 3, "num_return_sequences": 2}):
        options = {"num_beams": 1, **way, "max_new_tokens": 6, "eos_token_id": None}
        said = [model.generate(pixel_values=pixels, use_cache=cached, **options) for cached in (True, False)]
        assert torch.equal(*said) and said[0].shape[1] == 7
    labels = torch.tensor([[9, 10, 3], [11, 3, -100]])
    inputs = torch.tensor([[2, 9, 10], [2, 11, 3]])
    given = model(pixel_values=pixels, labels=labels)
    torch.testing.assert_close(given.logits, model(pixel_values=pixels, decoder_input_ids=inputs).logits)
    assert given.loss > 0


def test_a_captioner_comes_back_and_is_saved_as_it_is(shelled: Shelled, tmp_path: Path):
    report = shelled("captioner-rnn-nano", {"d_model": 16})
    model = load(report)
    model.save_pretrained(tmp_path / "again")
    first, again = (load_checkpoint(folder) for folder in (report.folder, tmp_path / "again"))
    assert list(first.mixture.members) == list(again.mixture.members) == ["captioning"]
    assert first.optional_tokenizer is not None
    state = again.model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in first.model.state_dict().items())
    states = load(report, "AutoModel")(pixel_values=torch.zeros(1, 3, 16, 16, dtype=torch.uint8),
                                       decoder_input_ids=torch.tensor([[2, 9]]))  # fmt: skip
    assert states.last_hidden_state.shape[:2] == (1, 2)


def test_a_classifier_of_pictures_has_no_tokenizer_and_comes_back(classifier: ExportReport, tmp_path: Path):
    assert classifier.class_name == "ZooForImageClassification" and classifier.check.differences["float64"] < 1e-12
    assert classifier.lines()[2] == "the pixels of 6 images are the same"
    assert "preprocessor_config.json" in classifier.files and "tokenizer.json" not in classifier.files
    config = json.loads((classifier.folder / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", LABELS, strict=True)) and "pad_token_id" not in config
    files = published_files(classifier.folder, tmp_path / "aside", "org/name")
    assert {path.name for path in files} == set(classifier.files)
    report = import_folder(classifier.folder, tmp_path / "run")
    assert not report.remarks()
    loaded = load_checkpoint(tmp_path / "run")
    assert next(iter(loaded.mixture.members)) == "classification" and loaded.task.labels == LABELS


@HIDDEN
def test_the_pipeline_and_the_processor_see_what_zoo_sees(classifier: ExportReport, picture: Path):
    pixels = torch.from_numpy(decode(picture.read_bytes(), "picture", 16))[None]
    wanted = load_checkpoint(classifier.folder).model(pixels).logits.softmax(-1)[0]
    found = transformers.pipeline("image-classification", model=str(classifier.folder), device="cpu")(str(picture))
    assert {answer["label"]: pytest.approx(answer["score"], abs=1e-5) for answer in found} == dict(
        zip(LABELS, wanted.tolist(), strict=True)
    )
    processor = transformers.AutoImageProcessor.from_pretrained(classifier.folder)
    with Image.open(picture) as image:
        both = processor([image, np.asarray(image)], return_tensors="pt")["pixel_values"]
        stacked = processor(np.stack([np.asarray(image)] * 2), return_tensors="pt")["pixel_values"]
    assert torch.equal(both, pixels.expand(2, -1, -1, -1)) and torch.equal(stacked, both)
    for wrong, what in ((np.zeros((30, 40, 3)), r"float64 \(30, 40, 3\)"), (np.zeros((3, 30, 40), "u1"), "uint8")):
        with pytest.raises(ValueError, match=f"expected a Pillow image or uint8 .*, got {what}"):
            processor(wrong)
    processor.save_pretrained(classifier.folder / "again")
    assert transformers.AutoImageProcessor.from_pretrained(classifier.folder / "again").image_size == 16


def test_a_step_of_training_and_a_new_head(classifier: ExportReport):
    model = load(classifier).train()
    pixels = torch.randint(256, (4, 3, 16, 16), dtype=torch.uint8)
    model(pixels, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    auto = transformers.AutoModelForImageClassification
    other = auto.from_pretrained(classifier.folder, num_labels=5, ignore_mismatched_sizes=True)
    assert other(pixels).logits.shape == (4, 5)
    with pytest.raises(NotImplementedError, match="has no token embeddings: it reads images"):
        model.get_input_embeddings()


def test_lora_trains_a_few_weights_of_a_model_without_token_vectors(classifier: ExportReport):
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(load(classifier), peft.LoraConfig(r=2, target_modules="all-linear"))
    few, all_of_them = adapted.get_nb_trainable_parameters()
    assert 0 < few < all_of_them / 3
    adapted(torch.zeros(2, 3, 16, 16, dtype=torch.uint8), labels=torch.tensor([0, 1])).loss.backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in adapted.parameters() if p.requires_grad)


def test_pixels_that_differ_are_not_left_behind(tmp_path: Path):
    def reloaded(folder: Path, request: dict[str, Any]) -> Any:
        report, tensors = reload(folder, request)
        tensors["pixels"][3, 0, 0, 0] += 1
        return report, tensors

    model = create_model("cnn-attention-nano")
    with pytest.raises(RuntimeError, match="AutoImageProcessor gives other pixels than ours for image 3"):
        export_model(untold(model, None), tmp_path / "out", "zoo", reloaded)
    assert not list(tmp_path.iterdir())
