"""AutoTokenizer gives our ids, template included."""

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest
from transformers import AutoTokenizer

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.samples import TEXTS, fill_template
from zoo.hub.exporting.tokenizer_files import jinja_string, tokenizer_files
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import NativeClass

KINDS = ("wordpiece", "bpe", "byte_bpe", "characters", "unigram")
CLASSES = [(target.name, native) for target in targets.values() for native in target.classes]


def load(tokenizer: Tokenizer, name: str, native: NativeClass, folder: Path) -> Any:
    """The tokenizer that AutoTokenizer finds in a folder of this target."""
    target = targets[name]
    files = tokenizer_files(tokenizer, name == "bert", native, 37)
    files["config.json"] = json.dumps({"model_type": target.model_type}).encode()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "native"), CLASSES, ids=[native.name for _, native in CLASSES])
def test_texts_and_pairs_have_our_ids(
    trained: dict[str, Tokenizer], tmp_path: Path, kind: str, name: str, native: NativeClass
):
    tokenizer = trained[kind]
    theirs = load(tokenizer, name, native, tmp_path)
    for text in TEXTS:
        ours = fill_template(tokenizer.roles, native.text, [tokenizer.encode([text])[0].tolist()], 1000)
        assert theirs(text)["input_ids"] == ours.tokens
    if native.pair:
        ids = [ids.tolist() for ids in tokenizer.encode(TEXTS[:2])]
        ours, found = fill_template(tokenizer.roles, native.pair, ids, 1000), theirs(*TEXTS[:2])
        assert found["input_ids"] == ours.tokens
        assert found.get("token_type_ids") == (ours.segments if name == "bert" else None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "native"), CLASSES, ids=[native.name for _, native in CLASSES])
def test_special_tokens_that_a_text_spells_are_text_except_where_masks_are_filled(
    trained: dict[str, Tokenizer], tmp_path: Path, kind: str, name: str, native: NativeClass
):
    tokenizer = trained[kind]
    theirs = load(tokenizer, name, native, tmp_path)
    text = f"a {' small '.join(tokenizer.role_tokens.values())} boy"
    ours = tokenizer.encode_with_roles(text) if native.pipeline == "fill-mask" else tokenizer.encode([text])[0]
    assert theirs(text, add_special_tokens=False)["input_ids"] == ours.tolist()


@pytest.mark.parametrize(
    ("name", "heads"), [("bert-nano", ["classification", "masked_lm"]), ("electra-nano", ["replaced_token"])]
)
def test_an_objective_whose_head_is_left_out_makes_no_text_special(
    build: Any, export: Any, name: str, heads: list[str]
):
    given = build(name, {"heads": heads})
    assert "masked_lm" in given.mixture.members
    theirs = AutoTokenizer.from_pretrained(export(given).folder)
    text = f"a {' small '.join(given.tokenizer.role_tokens.values())} boy"
    assert theirs(text, add_special_tokens=False)["input_ids"] == given.tokenizer.encode([text])[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_and_a_mask_inside_a_text_agree(trained: dict[str, Tokenizer], tmp_path: Path, kind: str):
    tokenizer = trained[kind]
    theirs = load(tokenizer, "bert", targets["bert"].classes[1], tmp_path)
    text = f"a small {theirs.mask_token} in a red shirt"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode_with_roles(text).tolist()
    for said in ("kicks a ball, twice (they say)", "kicks a ball , twice . They say ."):
        ids = tokenizer.encode([said])[0]
        assert theirs.decode(ids.tolist()) == tokenizer.decode(ids)


def test_special_tokens_have_their_names(trained: dict[str, Tokenizer], tmp_path: Path):
    theirs = load(trained["wordpiece"], "bert", targets["bert"].classes[0], tmp_path)
    assert (theirs.cls_token, theirs.sep_token, theirs.mask_token, theirs.pad_token) == (
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[PAD]",
    )
    assert (theirs.bos_token, theirs.eos_token, theirs.unk_token) == ("[CLS]", "[END]", "[UNK]")
    assert theirs.model_max_length == 37 and theirs.padding_side == "right"


def test_truncation_keeps_the_template(trained: dict[str, Tokenizer], tmp_path: Path):
    native = next(each for each in targets["gpt2"].classes if each.name == "GPT2ForSequenceClassification")
    theirs = load(trained["bpe"], "gpt2", native, tmp_path)
    ids = theirs(TEXTS[1], truncation=True)["input_ids"]
    roles = trained["bpe"].roles
    assert len(ids) == 37 and (ids[0], ids[-1]) == (roles.start, roles.extract)


def test_padding_a_batch_gives_what_the_model_reads(trained: dict[str, Tokenizer], tmp_path: Path):
    theirs = load(trained["bpe"], "marian", targets["marian"].classes[0], tmp_path)
    batch = theirs([TEXTS[0], TEXTS[4]], padding=True)
    assert set(batch) == {"input_ids", "attention_mask"}
    assert batch["input_ids"][1][-1] == trained["bpe"].roles.pad and batch["attention_mask"][1][-1] == 0


@pytest.mark.parametrize("text", ["</s>", "it's", "a\\n'b'", "\\", "\n", "\r\n", "{{ x }}", "끝 🙂"])
def test_a_text_in_a_template_renders_as_it_is(text: str):
    assert jinja2.Template(f"{{{{ {jinja_string(text)} }}}}", keep_trailing_newline=True).render() == text
