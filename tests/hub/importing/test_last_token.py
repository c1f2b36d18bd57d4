"""Decoders that classify a text by its last token: which one that is where the tokenizer ends each text with one."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from published_tokenizers import ENDING, publish
from strangers import change, saved
from tokenizers import Tokenizer as Backend
from tokenizers import models, processors
from untold import untold_run

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.importing.importing import import_folder
from zoo.inference.predict import predict
from zoo.models.generation.settings import GenerateSettings


def given(folder: Path) -> Tokenizer:
    """The folder's tokenizer."""
    tokenizer = load_checkpoint(folder).optional_tokenizer
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


@pytest.mark.parametrize("padding", ["the end", "another"])
def test_a_text_is_read_where_transformers_reads_it(padding: str, tmp_path: Path):
    folder = saved(tmp_path / "hf", "GPT2ForSequenceClassification", vocab_size=400, pad_token_id=0)
    publish(folder, "gpt2", only_vocabulary=True)
    made = Backend.from_str(given(folder).backend.to_str())
    end = made.token_to_id(ENDING)
    made.post_processor = processors.TemplateProcessing(single=f"$A {ENDING}", special_tokens=[(ENDING, end)])
    made.save(str(folder / "tokenizer.json"))
    change(folder, pad_token_id=end if padding == "the end" else made.token_to_id("!"))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    loaded = load_checkpoint(folder)
    texts = ["add it", "one more", "a"]
    with torch.no_grad():
        wanted = [theirs(torch.tensor([made.encode(text).ids])).logits[0].softmax(-1).tolist() for text in texts]
    found = [list(answer.scores.values()) for answer in predict(loaded, texts, None, GenerateSettings())]
    assert found == [pytest.approx(scores, abs=1e-5) for scores in wanted]
    export_model(untold_run(loaded), tmp_path / "out", reload=reload)


@pytest.mark.parametrize("name", ["GPT2ForSequenceClassification", "GPT2LMHeadModel"])
@pytest.mark.parametrize("named", [True, False])
def test_a_word_that_pads_is_replaced_so_that_an_export_reads_texts_that_end_with_it(
    name: str, named: bool, tmp_path: Path
):
    folder = saved(tmp_path / "hf", name, vocab_size=400, n_positions=64)
    publish(folder, "gpt2", only_vocabulary=True, **({"pad_token": "?"} if named else {}))
    change(folder, pad_token_id=given(folder).vocabulary["?"])
    loaded = load_checkpoint(folder)
    assert given(folder).role_tokens["pad"] == ENDING
    export_model(untold_run(loaded), tmp_path / "out", reload=reload)
    out = json.loads((tmp_path / "out" / "config.json").read_text())
    assert out["pad_token_id"] == given(folder).vocabulary[ENDING]
    if "classification" not in loaded.model.heads:
        return
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("is it?", return_tensors="pt")
    with torch.no_grad():
        wanted = theirs(**tokens).logits[0].softmax(-1).tolist()
    found = predict(loaded, ["is it?"], None, GenerateSettings())[0].scores
    assert list(found.values()) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("padding", "kept"), [(ENDING, False), ("!", True)])
def test_a_token_that_pads_texts_does_not_end_those_of_a_classifier_made_of_a_tagger(
    padding: str, kept: bool, tmp_path: Path
):
    folder = saved(tmp_path / "hf", "GPT2ForTokenClassification", vocab_size=400)
    publish(folder, "gpt2", only_vocabulary=True, pad_token=padding)
    made = Backend.from_str(given(folder).backend.to_str())
    ends = [(ENDING, made.token_to_id(ENDING))]
    made.post_processor = processors.TemplateProcessing(single=f"$A {ENDING}", special_tokens=ends)
    made.save(str(folder / "tokenizer.json"))
    assert (given(folder).role_tokens.get("extract") == ENDING) == kept


@pytest.mark.parametrize(
    ("name", "padding", "told"),
    [
        ("GPT2ForSequenceClassification", 0, ("<unk>",)),
        ("GPT2ForSequenceClassification", 1, ("a",)),
        ("GPT2ForSequenceClassification", 2, ()),
        ("GPT2ForSequenceClassification", -1, ()),
        ("GPT2LMHeadModel", 0, ()),
    ],
)
def test_words_that_are_padding_to_transformers_are_told(
    name: str, padding: int, told: tuple[str, ...], tmp_path: Path
):
    folder = saved(tmp_path / "hf", name, pad_token_id=padding)
    Backend(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>")).save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "pad_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    report = import_folder(folder, tmp_path / "run")
    assert report.padding_in_texts == told
    assert any(f"skips it at the end of a text: {''.join(told)}" in remark for remark in report.remarks()) == bool(told)
