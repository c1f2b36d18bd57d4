"""What a push shows: a run's checked export, or a Hugging Face folder as it lies and nothing beside the model."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from zoo.devices import precision
from zoo.hub.exporting import samples
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.importing.importing import import_folder
from zoo.hub.publishing import published
from zoo.hub.publishing.published import published_files

MODEL = {"README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
MODEL |= {"tokenizer_config.json", "hashes.json"}


@pytest.fixture(scope="module")
def exported(build: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "N_TEXTS", 30)
        return export_model(build("gpt2-nano"), tmp_path_factory.mktemp("exported") / "out", reload=reload).folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(exported, tmp_path / "out")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in published_files(folder, folder.parent / "aside", "org/name")}


def test_a_folder_is_pushed_as_it_lies(folder: Path):
    (folder / "README.md").write_text("my own words")
    found = files(folder)
    assert found.keys() == MODEL and found["README.md"] == b"my own words"
    assert found["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_a_run_is_pushed_with_the_weights_that_it_was_trained_with(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also where commands compute in bfloat16 unless told otherwise."""
    import_folder(folder, tmp_path / "run")
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(published, "export_model", partial(export_model, reload=reload))
    (tmp_path / "run" / "config.json").write_text("{}")  # it remains a run, whatever else lies in it
    found = {path.name: path for path in published_files(tmp_path / "run", tmp_path / "aside", "org/name")}
    assert found["model.safetensors"].read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_folder_is_pushed_with_its_chat_template(folder: Path):
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert files(folder).keys() == MODEL | {"chat_template.jinja"}


def test_a_folder_is_pushed_with_its_curves_its_preprocessor_and_all_its_shards(folder: Path):
    (folder / "curves.png").write_bytes(b"a picture")
    (folder / "preprocessor_config.json").write_text("{}")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(tensors)}
    for shard in set(places.values()):
        save_file({name: tensors[name] for name in tensors if places[name] == shard}, folder / shard, {"format": "pt"})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    beside = {"curves.png", "preprocessor_config.json", index.name, *places.values()}
    assert files(folder).keys() == MODEL - {"model.safetensors"} | beside


def test_what_is_no_file_of_a_model_stays_at_home_and_is_named(folder: Path, caplog: pytest.LogCaptureFixture):
    for name in (".env", "training_args.bin", "modeling_mine.py"):
        (folder / name).write_text("secret")
    assert files(folder).keys() == MODEL
    assert "not pushed, since these are not files of a model: .env, modeling_mine.py, training_args.bin" in caplog.text


@pytest.mark.parametrize("name", ["README.md", "tokenizer.json", "vocab.txt"])
def test_a_link_is_refused(folder: Path, tmp_path: Path, name: str):
    (tmp_path / "secret").write_text("secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match=f"{name}: is not a regular file of the folder; zoo publishes nothing else"):
        files(folder)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("config.json", "custom_pipelines"),
        ("generation_config.json", "custom_generate"),
        ("tokenizer_config.json", "auto_map"),
        ("preprocessor_config.json", "auto_map"),
    ],
)
def test_a_configuration_that_asks_for_code_is_refused(folder: Path, name: str, key: str):
    config = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    (folder / name).write_text(json.dumps({**config, key: {"AutoModel": "other/repo--code.Model"}}))
    with pytest.raises(
        ValueError, match=f"{name}: {key} asks readers to run other people's code, which zoo does not publish"
    ):
        files(folder)


def test_a_damaged_folder_is_refused(folder: Path):
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="model.safetensors"):
        files(folder)


def test_a_large_file_that_is_no_weights_is_refused(folder: Path):
    with (folder / "README.md").open("wb") as file:
        file.truncate(1 << 27)
    with pytest.raises(ValueError, match=r"README.md: has 134,217,728 bytes; only weights may be that large"):
        files(folder)


def test_what_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="none: no such folder"):
        published_files(tmp_path / "none", tmp_path / "aside", "org/name")
