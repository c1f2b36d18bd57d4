"""A stranger's tokenizer gives the ids that AutoTokenizer gives, and its special tokens find their roles."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from published_tokenizers import ENDING, LINES, backend, publish, said_of_options
from tokenizers import Tokenizer as Backend
from tokenizers import processors

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.tokenizer_files import tokenizer_files, with_post_processor
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.importing.tokenizer_differences import tokenizer_differences
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.recipes import read_merges
from zoo.hub.targets.declare.registry import targets


def read(folder: Path, kind: str, number: int = 0, **config: Any) -> Tokenizer:
    found = read_tokenizer(CheckpointFolder(folder), config, targets[kind], targets[kind].classes[number])
    assert isinstance(found, Tokenizer), found
    return found


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bert", {}),
        ("bert", {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}),
        ("bert", {"strip_accents": False, "tokenize_chinese_chars": False}),
        ("gpt2", {}),
        ("gpt2", {"add_prefix_space": True, "tokenizer_class": "GPT2TokenizerFast"}),
        ("openai-gpt", {}),
    ],
)
def test_published_vocabularies_give_the_ids_of_their_class(tmp_path: Path, kind: str, options: dict[str, Any]):
    folder = publish(tmp_path, kind, **options)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    wanted = theirs(LINES, add_special_tokens=False)["input_ids"]
    assert [ids.tolist() for ids in read(folder, kind).encode(LINES)] == wanted
    assert len(LINES) > 1000 and len({i for ids in wanted for i in ids}) > 150


def test_a_tokenizer_file_is_taken_as_it_is(tmp_path: Path):
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend("gpt2"), eos_token=ENDING, bos_token=ENDING)
    fast.save_pretrained(tmp_path)
    ours = read(tmp_path, "gpt2")
    assert [ids.tolist() for ids in ours.encode(LINES)] == fast(LINES)["input_ids"]
    assert ours.role_tokens == {"pad": ENDING, "unk": ENDING, "start": ENDING, "end": ENDING}


def test_bert_tokens_play_the_roles_of_its_template(tmp_path: Path):
    found = read(publish(tmp_path, "bert"), "bert").role_tokens
    assert found == {"pad": "[PAD]", "unk": "[UNK]", "start": "[CLS]", "separator": "[SEP]", "mask": "[MASK]"}


def test_the_folder_may_name_other_tokens_and_the_config_gives_the_rest_by_id(tmp_path: Path):
    folder = publish(tmp_path, "gpt2", eos_token={"content": "!"}, pad_token="not in the vocabulary")
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": '"', "eos_token": "#"}))
    found = read(folder, "gpt2", sep_token_id=5).role_tokens
    five = read(folder, "gpt2").backend.id_to_token(5)
    assert (found["start"], found["end"], found["separator"]) == ('"', "#", five)


def test_a_prompt_begins_as_the_tokenizers_own_template_says(tmp_path: Path):
    ours = read(publish(tmp_path, "gpt2"), "gpt2")
    plain = ours.encode(["a dog"])[0].tolist()
    assert ours.encode_prompt("a dog") == plain and ours.encode_prompt("") == [ours.roles.start]
    made = Backend.from_str(ours.backend.to_str())
    made.post_processor = processors.TemplateProcessing(
        single=f"{ENDING} $A !", special_tokens=[(ENDING, ours.roles.id("start")), ("!", made.token_to_id("!"))]
    )
    (tmp_path / "tokenizer.json").write_text(made.to_str(), "utf-8")
    assert read(tmp_path, "gpt2").encode_prompt("a dog") == [ours.roles.start, *plain]


def test_a_decoder_classifies_texts_as_its_tokenizer_writes_them(tmp_path: Path):
    ours = read(publish(tmp_path, "gpt2"), "gpt2", number=1)
    assert ours.role_tokens == {"pad": ENDING, "unk": ENDING, "end": ENDING}
    made = Backend.from_str(ours.backend.to_str())
    made.post_processor = processors.TemplateProcessing(single=f"{ENDING} $A", special_tokens=[(ENDING, 0)])
    (tmp_path / "tokenizer.json").write_text(made.to_str(), "utf-8")
    assert read(tmp_path, "gpt2", number=1).role_tokens["start"] == ENDING
    made.enable_padding(length=9, pad_id=1, pad_token="!")
    (tmp_path / "tokenizer.json").write_text(made.to_str(), "utf-8")
    assert "extract" not in read(tmp_path, "gpt2", number=1).role_tokens


def test_a_folder_without_a_tokenizer_or_with_an_unknown_recipe_says_so(tmp_path: Path):
    bert = targets["bert"], targets["bert"].classes[0]
    assert read_tokenizer(CheckpointFolder(tmp_path), {}, *bert) == "no tokenizer.json and no vocab.txt"
    publish(tmp_path, "bert", tokenizer_class="BertJapaneseTokenizer")
    assert "'BertJapaneseTokenizer') whose recipe zoo does not know" in str(
        read_tokenizer(CheckpointFolder(tmp_path), {}, *bert)
    )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("vocab.json", '{"a": -1}', "ids must be whole numbers"),
        ("vocab.json", "[]", "vocab.json: expected a JSON object"),
        ("merges.txt", "a b c\n", "merges.txt: each line must hold two pieces"),
        ("tokenizer_config.json", '{"add_prefix_space": "yes"}', "add_prefix_space must be true or false, got 'yes'"),
    ],
)
def test_damaged_vocabulary_files_are_refused(tmp_path: Path, name: str, content: str, words: str):
    (publish(tmp_path, "gpt2") / name).write_text(content)
    with pytest.raises(ValueError, match=words):
        read(tmp_path, "gpt2")


def test_a_list_of_added_tokens_that_is_damaged_is_passed_over(tmp_path: Path):
    folder = publish(
        tmp_path, "gpt2", added_tokens_decoder={"0": "<a>", "1": None, "2": {"content": 7, "special": True}}
    )
    assert "<a>" not in read(folder, "gpt2").vocabulary


def test_a_token_id_that_no_vocabulary_has_is_refused_at_once(tmp_path: Path):
    spec = json.loads(backend("gpt2").to_str())
    spec["model"]["vocab"]["far"] = 2**32 - 2
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), "utf-8")
    with pytest.raises(ValueError, match="token id 4294967294 is out of range; allowed: below 16777216"):
        read(tmp_path, "gpt2")


def test_a_far_id_in_vocabulary_files_is_refused_too(tmp_path: Path):
    folder = publish(tmp_path, "gpt2")
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, "far": 2**32 - 2}), "utf-8")
    with pytest.raises(ValueError, match="token id 4294967294 is out of range"):
        read(folder, "gpt2")


def test_a_strangers_dropout_is_switched_off_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    spec = json.loads(backend("gpt2").to_str())
    spec["model"]["dropout"] = 0.5
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), "utf-8")
    tokenizer = read(tmp_path, "gpt2")
    assert "dropout 0.5 is switched off" in caplog.text
    assert len({tuple(ids.tolist()) for ids in tokenizer.encode([LINES[-3]] * 9)}) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "#version: 0.2"])
def test_the_first_line_of_merges_may_be_a_comment_and_no_merge_is_lost(first: str, end: str):
    text = end.join([*filter(None, [first]), "a b", "ab c", ""])
    assert read_merges({"merges.txt": text.encode()}) == [("a", "b"), ("ab", "c")]


def test_a_text_begins_as_the_switch_of_published_files_says(tmp_path: Path):
    folder = publish(tmp_path, "gpt2", add_bos_token=True, bos_token=ENDING)
    wanted = transformers.AutoTokenizer.from_pretrained(folder)("a dog")["input_ids"]
    assert read(folder, "gpt2").encode_prompt("a dog") == wanted and wanted[0] == read(folder, "gpt2").roles.start
    with pytest.raises(ValueError, match="add_bos_token is true, but bos_token is not a token: '<none>'"):
        read(publish(tmp_path, "gpt2", add_bos_token=True, bos_token="<none>"), "gpt2")


def test_a_model_ends_its_texts_with_what_it_generates_with(tmp_path: Path):
    folder = publish(tmp_path, "gpt2", eos_token=ENDING, bos_token=ENDING)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    ours = read(folder, "gpt2", eos_token_id=9)
    assert (ours.roles.end, ours.roles.start) == (7, ours.vocabulary[ENDING])
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, ours.vocabulary[ENDING], 8]}))
    assert read(folder, "gpt2").roles.end == ours.vocabulary[ENDING]  # one of several: chat models end turns with it
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 9, "eos_token_id": 7}))
    assert read(folder, "gpt2").roles.start == ours.vocabulary[ENDING]
    backend("gpt2").save(str(tmp_path / "tokenizer.json"))
    assert read(folder, "t5").roles.start == 9  # beside an encoder, where nothing else is said
    classifier = read(folder, "gpt2", 1, eos_token_id=9)  # which generates nothing
    assert classifier.roles.end in (None, ours.vocabulary[ENDING])


def test_what_a_tokenizer_writes_around_texts_is_special_though_nothing_names_it(tmp_path: Path):
    made = backend("gpt2")
    start = made.token_to_id("!")
    made.post_processor = processors.TemplateProcessing(single="! $A", pair="! $A $B", special_tokens=[("!", start)])
    made.save(str(tmp_path / "tokenizer.json"))
    ours = read(tmp_path, "llama", bos_token_id=start, eos_token_id=made.token_to_id("?"))
    assert ours.special_tokens >= {"!"} and "?" not in ours.special_tokens
    assert ours.decode(ours.encode_prompt("he? dog")) == "he? dog"


@pytest.mark.parametrize("word", ["!", "he", "Ċ"])
@pytest.mark.parametrize("name", ["eos_token_id", "pad_token_id"])
def test_an_id_of_a_models_files_leaves_its_token_an_ordinary_one(tmp_path: Path, word: str, name: str):
    text = "he dog!\n! he"
    made = backend("gpt2")
    folder = tmp_path / "theirs"
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token=ENDING)
    theirs.save_pretrained(folder)
    ours = read(folder, "gpt2", **{name: made.token_to_id(word)})
    role = {"eos_token_id": "end", "pad_token_id": "pad"}[name]
    assert ours.role_tokens[role] == (word if role == "end" else ENDING)  # texts may end with the word
    wanted = theirs(text)["input_ids"]
    assert made.token_to_id(word) in wanted
    assert ours.encode([text])[0].tolist() == wanted
    assert ours.decode(wanted) == theirs.decode(wanted, skip_special_tokens=True) == text
    for file, content in tokenizer_files(ours, False, targets["gpt2"].classes[0], 64).items():
        (tmp_path / file).write_bytes(content)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (again(text)["input_ids"], again.decode(wanted, skip_special_tokens=True)) == (wanted, text)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("[CLS] $A [SEP] $B:1 [SEP]:1", ()),
        ("[CLS] $A [SEP] $B [SEP]", ("'[CLS] a [SEP] b [SEP]' (here '[CLS]:0 a:0 [SEP]:0 b:1 [SEP]:1')",)),
        (
            "[CLS] $A [SEP] [SEP] $B:1 [SEP]:1",
            ("'[CLS]:0 a:0 [SEP]:0 [SEP]:0 b:1 [SEP]:1' (here '[CLS]:0 a:0 [SEP]:0 b:1 [SEP]:1')",),
        ),
    ],
)
def test_a_template_of_another_kind_is_said(tmp_path: Path, pair: str, said: tuple[str, ...]):
    made = backend("bert")
    named = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=named)
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    names["tokenizer_class"] = "PreTrainedTokenizerFast"
    typed = {**names, "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(typed))
    (tmp_path / "tokenizer.json").write_text(made.to_str(), "utf-8")
    tokenizer = read(tmp_path, "bert")
    assert tokenizer_differences(CheckpointFolder(tmp_path), tokenizer, True, targets["bert"])[:2] == (said, ())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**names, "tokenizer_class": None}))  # its own class
    assert not any(tokenizer_differences(CheckpointFolder(tmp_path), read(tmp_path, "bert"), True, targets["bert"]))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("bert", {}, ()),
        ("bert", {"do_lower_case": False}, ("'Ab É 漢 字' (here 'ab e 漢 字')",)),
        ("bert", {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}, ()),
        ("bert", {"do_lower_case": False, "tokenizer_class": None}, ("'Ab É 漢 字' (here 'ab e 漢 字')",)),
        (
            "electra",
            {"do_lower_case": False, "tokenizer_class": "BertTokenizerFast"},
            ("'Ab É 漢 字' (here 'ab e 漢 字')",),
        ),
        ("gpt2", {"tokenizer_class": "GPT2Tokenizer"}, ()),
        ("gpt2", {"add_bos_token": True, "add_eos_token": True, "eos_token": "<none>"}, ()),
        ("gpt2", {"add_prefix_space": True}, ("'ĠAb ĠÃī Ġæ¼¢åŃĹ' (here 'Ab ĠÃī Ġæ¼¢åŃĹ')",)),
    ],
)
def test_switches_that_contradict_the_tokenizers_file_are_said(
    tmp_path: Path, kind: str, options: dict[str, Any], said: tuple[str, ...]
):
    backend({"electra": "bert"}.get(kind, kind)).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    assert said_of_options(CheckpointFolder(tmp_path), targets[kind]) == said


def test_gpt2s_own_class_keeps_the_template_of_the_file(tmp_path: Path):
    made = backend("gpt2")
    ending = made.token_to_id(ENDING)
    template = {"single": f"{ENDING} {ENDING} $A", "pair": f"{ENDING} $A $B", "special_tokens": [(ENDING, ending)]}
    made.post_processor = processors.TemplateProcessing(**template)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    classifier = dataclasses.replace(targets["gpt2"], classes=(targets["gpt2"].classes[1],))
    (first, *_), *_ = tokenizer_differences(CheckpointFolder(tmp_path), read(tmp_path, "gpt2", 1), False, classifier)
    assert first.startswith(f"'{ENDING} {ENDING} a' (here ")


def test_what_stands_behind_a_text_that_is_continued_is_told(tmp_path: Path):
    """A decoder goes on from the text, and not from what a tokenizer puts behind it."""
    made = backend("gpt2")
    special = [(ENDING, made.token_to_id(ENDING))]
    for single, told in ((f"{ENDING} $A", ()), (f"$A {ENDING}", (f"'a {ENDING}' (here 'a')",))):
        made.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        made.save(str(tmp_path / "tokenizer.json"))
        tokenizer = read(tmp_path, "gpt2")
        assert tokenizer_differences(CheckpointFolder(tmp_path), tokenizer, False, targets["gpt2"])[:2] == (told, ())


@pytest.mark.parametrize("single", ["$A", f"{ENDING} $A", f"{ENDING} {ENDING} $A", f"$A {ENDING}", None])
def test_an_export_begins_texts_as_the_imported_tokenizer_does(single: str | None, tmp_path: Path):
    """Not as texts begin that zoo trains on: who reads the export would get another answer."""
    made = backend("gpt2")
    if single is not None:
        special = [(ENDING, made.token_to_id(ENDING))]
        made.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer, native = read(tmp_path, "gpt2"), targets["gpt2"].classes[0]
    exported = with_post_processor(tokenizer, False, native)
    for text in ("a b", "ab ab"):
        assert exported.encode(text).ids == tokenizer.encode_prompt(text)
    assert exported.encode("a").ids[:-1] == [made.token_to_id(ENDING)] * (single or "").partition("$A")[0].count(ENDING)
