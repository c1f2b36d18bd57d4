"""Pictures through the command line: a captioner and a classifier that tell three colors apart, and clear refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Said, call
from datasets import Dataset
from PIL import Image

from zoo.strict_yaml import read_yaml

Zoo = Callable[..., Said]
COLORS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (30, 60, 200)}
TRAINING = "{batch: 12, warmup_steps: 5, learning_rate: 1e-2, schedule: constant, evaluate_every: 0, precision: float32"
TASKS = {
    "name": f"""# name.yaml: which color
objective: classification
source: {{files: {{train: train.parquet, validation: validation.parquet}}}}
columns: {{image: picture, label: color}}
augment: {{flip: true, shift: 0.1}}
metrics: [accuracy]
training: {TRAINING}, steps: 25}}
""",
    "tell": f"""# tell.yaml: say which color
objective: captioning
source: {{files: {{train: train.parquet, validation: validation.parquet}}}}
columns: {{image: picture, text: captions}}
tokenizer: {{name: bpe, vocab_size: 60}}
length: 16
metrics: [bleu-4, bleu-1]
generate: {{beams: 2, max_new_tokens: 12}}
training: {TRAINING}, steps: 60}}
""",
    "other": """# other.yaml: another two classes of the same pictures
base: name.yaml
columns: {image: picture, label: warm}
training: {steps: 2}
""",
}


def paint(name: str, seed: int) -> Image.Image:
    """A picture of a color with some noise."""
    noise = np.random.default_rng(seed).integers(-30, 31, size=(20, 24, 3))
    return Image.fromarray((np.array(COLORS[name]) + noise).clip(0, 255).astype(np.uint8))


def write_pictures(folder: Path) -> None:
    """Tables of pictures with the name of their color and two captions each."""
    for split, count in {"train": 36, "validation": 6}.items():
        names = [list(COLORS)[number % 3] for number in range(count)]
        stored = []
        for number, name in enumerate(names):
            path = folder / f"{split}-{number}.png"
            paint(name, number).save(path)
            stored.append({"bytes": path.read_bytes(), "path": path.name})
        captions = [[f"the wall is all {name}", f"a {name} wall is here"] for name in names]
        warm = ["yes" if name == "red" else "no" for name in names]
        columns = {"picture": stored, "color": names, "captions": captions, "warm": warm}
        Dataset.from_dict(columns).to_parquet(folder / f"{split}.parquet")
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data, and two runs: `cnn` names colors, `captioner` says them."""
    made = tmp_path_factory.mktemp("pictures")
    write_pictures(made)
    for run, model, task in (("cnn", "cnn-attention-nano", "name"), ("captioner", "captioner-rnn-nano", "tell")):
        assert call("pretrain", model, made / f"{task}.yaml", "-o", made / run, "--data", made) == 0
    return made


def test_a_classifier_names_pictures_that_it_has_not_seen(zoo: Zoo, folder: Path):
    files = [folder / f"validation-{number}.png" for number in range(3)]
    said = zoo("predict", folder / "cnn", *files, "--json")
    assert [found["output"] for found in said.json] == ["red", "green", "blue"]
    assert sum(said.json[0]["scores"].values()) == pytest.approx(1.0)
    assert said.json[0]["input"] == str(files[0])


def test_its_evaluation_has_the_accuracy(zoo: Zoo, folder: Path):
    found = zoo("evaluate", folder / "cnn", "--data", folder, "--json").json
    assert (found["examples"], found["classification/accuracy"]) == (6, 1.0)


def test_it_needs_no_tokenizer_and_can_be_trained_on_other_classes(zoo: Zoo, folder: Path, tmp_path: Path):
    assert not (folder / "cnn" / "tokenizer.json").exists()
    said = zoo("finetune", folder / "cnn", folder / "other.yaml", "-o", tmp_path / "run", "--data", folder)
    assert said.status == 0, said.err
    assert "newly initialized (missing from the checkpoint): heads.classification\n" in said.log
    assert read_yaml(tmp_path / "run" / "task.yaml")["labels"] == ["no", "yes"]
    assert zoo("check", tmp_path / "run").status == 0


def test_a_captioner_says_what_pictures_show_that_it_has_not_seen(zoo: Zoo, folder: Path):
    files = [folder / f"validation-{number}.png" for number in range(3)]
    outputs = [found["output"] for found in zoo("predict", folder / "captioner", *files, "--json").json]
    assert all(name in output for name, output in zip(COLORS, outputs, strict=True)), outputs


def test_its_evaluation_has_bleu_against_all_captions(zoo: Zoo, folder: Path):
    found = zoo("evaluate", folder / "captioner", "--data", folder, "--json").json
    assert found["examples"] == 6 and found["captioning/bleu-1"] >= found["captioning/bleu-4"] > 60


def test_a_picture_of_another_mode_and_size_is_read(zoo: Zoo, folder: Path, tmp_path: Path):
    paint("blue", 5).resize((50, 31)).convert("RGBA").save(tmp_path / "blue.webp", lossless=True)
    assert zoo("predict", folder / "cnn", tmp_path / "blue.webp").out.splitlines()[0] == "blue"


def test_what_cannot_be_read_is_refused_in_one_message(zoo: Zoo, folder: Path, tmp_path: Path):
    (tmp_path / "words.jpg").write_text("hello")
    for word, message in {
        tmp_path / "none.jpg": "none.jpg: no such file; expected an image",
        tmp_path: "not a file; expected an image",
        "": "IMAGE: it is empty; give a path",
        tmp_path / "words.jpg": "words.jpg: not an image; allowed: JPEG",
    }.items():
        said = zoo("predict", folder / "captioner", word)
        assert said.status == 2 and message in said.err and "Traceback" not in said.err
    said = zoo("predict", folder / "captioner", folder / "validation-0.png", "--pair", "x")
    assert said.status == 2 and "trained for captioning, which reads one image; leave it out" in said.err
    said = zoo("predict", folder / "cnn", folder / "validation-0.png", "--pair", "x")
    assert said.status == 2 and "--pair: this checkpoint classifies single images; leave it out" in said.err


@pytest.mark.parametrize("run", ["captioner", "cnn"])
def test_no_class_of_transformers_reads_these_pictures_but_zoos_own_do(
    zoo: Zoo, folder: Path, tmp_path: Path, run: str
):
    said = zoo("export", folder / run, tmp_path / "export")
    assert said.status == 2 and "no transformers class matches this model" in said.err
    assert "`zoo export … --to zoo` writes it" in said.err and not (tmp_path / "export").exists()


def test_what_was_exported_and_checked_with_zoo_in_a_process_of_its_own_names_pictures_as_before(
    zoo: Zoo, folder: Path, tmp_path: Path
):
    paint("blue", 5).save(tmp_path / "blue.png")
    before = zoo("predict", folder / "cnn", tmp_path / "blue.png", "--json").json
    said = zoo("export", folder / "cnn", tmp_path / "export", "--to", "zoo")
    assert said.status == 0 and "the pixels of 6 images are the same" in said.out
    after = zoo("predict", tmp_path / "export", tmp_path / "blue.png", "--json").json
    assert after[0]["output"] == "blue" and after[0]["scores"] == pytest.approx(before[0]["scores"], abs=1e-6)


WRONG: list[tuple[str, str, list[str], str]] = [
    ("bert-nano", "name", [], "classification trains on images, which this model does not read; cnn-attention does"),
    ("gpt2-nano", "tell", [], "captioning trains on images, which this model does not read; captioner-rnn does"),
    ("cnn-attention-nano", "tell", [], "captioning cannot train this model"),
    ("captioner-rnn-nano", "name", [], "has no input for the model's encoder; captioning has"),
    ("captioner-rnn-nano", "tell", ["task.tokenizer=null"], "task.tokenizer: missing"),
    ("cnn-attention-nano", "name", ["task.augment.shift=2"], "augment.shift: 2.0 must be at least 0 and below 1"),
    ("cnn-attention-nano", "name", ["task.augment.turn=true"], "unknown key 'turn'; allowed: flip, shift"),
    ("cnn-attention-nano", "name", ["task.columns.image=color"], "two inputs cannot read the same column"),
]


@pytest.mark.parametrize(("model", "task", "sets", "message"), WRONG, ids=[message[:30] for *_, message in WRONG])
def test_what_does_not_go_together_is_refused(
    zoo: Zoo, folder: Path, tmp_path: Path, model: str, task: str, sets: list[str], message: str
):
    pairs: list[Any] = [word for text in sets for word in ("--set", text)]
    said = zoo("pretrain", model, folder / f"{task}.yaml", "-o", tmp_path / "run", "--data", folder, *pairs)
    assert said.status == 2 and message in said.err
    assert not (tmp_path / "run").exists()
