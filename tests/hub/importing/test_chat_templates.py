"""The chat templates of a stranger's tokenizer are kept by an import, and given again, byte for byte, by an export."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from published_tokenizers import ENDING, backend

from zoo.hub.checkpoint import import_checkpoint, load_checkpoint
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import load_trained
from zoo.runs.saved import open_run

TEMPLATE = (  # ChatML, as many checkpoints have it, with a space and a line end that must stay
    "{% for message in messages %}\r\n{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{{ '<|im_end|>' }} {% endfor %}{# 아이 #}\n"
)
ASKED = [{"role": "user", "content": "naïve a\tb"}, {"role": "assistant", "content": "<b> yes"}]


def stranger(folder: Path) -> Path:
    """A chat model as transformers saves one."""
    marks = ["<|im_start|>", "<|im_end|>"]
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend("gpt2"), eos_token=ENDING, bos_token=ENDING)
    fast.add_special_tokens({"additional_special_tokens": marks})
    fast.save_pretrained(folder)
    sizes = {"vocab_size": len(fast), "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 64}
    torch.manual_seed(0)
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def option(folder: Path, value: Any) -> None:
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": value}))


def there_and_back(folder: Path, tmp_path: Path) -> Path:
    import_checkpoint(folder, tmp_path / "run")
    export_model(load_trained(open_run(tmp_path / "run")), tmp_path / "again", reload=reload)
    return tmp_path / "again"


@pytest.mark.parametrize("where", ["file", "option", "both"])
def test_a_template_comes_back_with_the_same_bytes_and_the_same_ids(where: str, tmp_path: Path):
    folder = stranger(tmp_path / "theirs")
    if where != "file":
        option(folder, TEMPLATE if where == "option" else "another")
    if where != "option":
        (folder / "chat_template.jinja").write_bytes(TEMPLATE.encode())
    again = there_and_back(folder, tmp_path)
    assert (again / "chat_template.jinja").read_bytes() == TEMPLATE.encode()
    theirs, ours = (transformers.AutoTokenizer.from_pretrained(place) for place in (folder, again))
    for text in (ASKED, ASKED[:1]):
        assert (ids := ours.apply_chat_template(text)["input_ids"]) == theirs.apply_chat_template(text)["input_ids"]
        assert ours.convert_tokens_to_ids("<|im_start|>") in ids


def test_templates_with_names_come_back_and_a_name_that_is_a_path_does_not(tmp_path: Path):
    folder = stranger(tmp_path / "theirs")
    listed = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "{{ 1 }}"}]
    option(folder, [*listed, {"name": "../evil", "template": "{{ 2 }}"}])
    again = there_and_back(folder, tmp_path)
    assert json.loads((again / "tokenizer_config.json").read_text())["chat_template"] == listed
    ours = transformers.AutoTokenizer.from_pretrained(again)
    assert ours.get_chat_template(tools=[{}]) == "{{ 1 }}" and ours.get_chat_template() == TEMPLATE


def test_templates_that_transformers_saves_in_a_folder_of_their_own_come_back(tmp_path: Path):
    folder = stranger(tmp_path / "theirs")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.chat_template = {"default": TEMPLATE, "tool_use": "{{ 1 }}", "rag": "{{ '아' }}"}
    theirs.save_pretrained(folder)
    assert len([*(folder / "additional_chat_templates").iterdir()]) == 2
    option(folder, "what stands in files goes before this")
    ours = transformers.AutoTokenizer.from_pretrained(there_and_back(folder, tmp_path))
    assert ours.chat_template == theirs.chat_template


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_templates_that_lie_elsewhere_are_not_read(linked: str, tmp_path: Path):
    folder, elsewhere = stranger(tmp_path / "theirs"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tool_use.jinja").write_text("{{ 1 }}")
    inside = folder / "additional_chat_templates"
    if linked == "folder":
        inside.symlink_to(elsewhere)
    else:
        inside.mkdir()
        (inside / "tool_use.jinja").symlink_to(elsewhere / "tool_use.jinja")
    with pytest.raises(ValueError, match="tool_use.jinja: leads out of the folder; zoo reads nothing outside it"):
        import_checkpoint(folder, tmp_path / "run")


def test_a_folder_without_a_template_is_exported_without_one(tmp_path: Path):
    again = there_and_back(stranger(tmp_path / "theirs"), tmp_path)
    assert not (again / "chat_template.jinja").exists() and not (tmp_path / "run" / "chat_templates.json").exists()
    assert "chat_template" not in json.loads((again / "tokenizer_config.json").read_text())


def test_a_template_that_is_no_text_is_refused(tmp_path: Path):
    folder = stranger(tmp_path / "theirs")
    (folder / "chat_template.jinja").write_bytes(b"a\xff")
    with pytest.raises(ValueError, match=r"chat_template.jinja: not UTF-8 text: byte 2"):
        import_checkpoint(folder, tmp_path / "run")


def test_an_export_of_a_model_of_conversations_is_known_again_as_one(build: Any, export: Any, tmp_path: Path):
    given = build("gpt2-nano", kind="byte_bpe")
    export(replace(given, task=replace(given.task, columns={"messages": "m"})))
    import_checkpoint(tmp_path / "out", tmp_path / "run")
    assert load_checkpoint(tmp_path / "run").task.columns == {"messages": "messages"}
    written = (tmp_path / "out" / "chat_template.jinja").read_text()
    assert written.startswith("{{ '<s>' }}{% for message in messages %}") and "{{ '</s>' }}" in written
    import_checkpoint(stranger(tmp_path / "theirs"), tmp_path / "other")
    assert load_checkpoint(tmp_path / "other").task.columns == {}


def test_a_classifier_trained_from_a_chat_model_reads_texts_as_zoo_predict_does_and_has_no_template(
    build: Any, export: Any
):
    given = build("gpt2-nano", {"heads": ["classification"]}, "byte_bpe")
    given.tokenizer.chat_templates = {"default": TEMPLATE}
    theirs = transformers.AutoTokenizer.from_pretrained(export(given).folder)
    text = "so </s> it is"
    assert theirs(text, add_special_tokens=False)["input_ids"] == given.tokenizer.encode([text])[0].tolist()
    assert theirs.chat_template is None
