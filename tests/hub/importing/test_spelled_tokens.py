"""A token of the tokenizer that a text spells is text, also to a unigram model that has it among its pieces."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.registry import targets

LETTERS = [(letter, -3.0) for letter in "\u2581ab</s>"]


@pytest.mark.parametrize("pieces", [[], [("\u2581</s>", -0.5)]], ids=["always", "within words"])
def test_a_spelled_end_of_text_ends_no_text(pieces: list[tuple[str, float]], tmp_path: Path):
    made = Backend(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), *pieces, *LETTERS], unk_id=0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens(["</s>"])
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "unk_token": "<unk>"}))
    ours = read_tokenizer(CheckpointFolder(tmp_path), {}, targets["t5"], targets["t5"].classes[0])
    assert isinstance(ours, Tokenizer) and ours.roles.end == 1
    for text in ("</s>", "a </s> b", "a</s>b", "</s></s>", "b</s>", "a b", "a<b/s>"):
        ids = ours.encode([text])[0].tolist()
        assert 1 not in ids and ours.decode(ids) == text
        assert "</s>" in text or ids == made.encode(text, add_special_tokens=False).ids
