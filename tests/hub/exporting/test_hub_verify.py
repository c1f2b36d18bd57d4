"""The program that reloads an export."""

from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting import child, reloading
from zoo.hub.exporting.comparing import compare_logits
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.samples import SampleRow, sample_texts


def test_a_folder_that_transformers_cannot_load_is_an_error_with_its_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    request = {"imports": "", "auto": "AutoModelForCausalLM", "rows": [{"image": ""}]}
    with pytest.raises((OSError, ValueError), match="config.json"):
        reloading.reload(tmp_path, request)
    (tmp_path / "program.py").write_text("raise OSError('it has no config.json')")
    monkeypatch.setattr(child, "PROGRAM", tmp_path / "program.py")
    with pytest.raises(RuntimeError, match="(?s)transformers cannot load what was written: .*: it has no config.json$"):
        child.reload_in_child(tmp_path, request)


def test_the_program_imports_nothing_of_zoo():
    source = Path(reloading.__file__).read_text()
    assert "from zoo" not in source and "import zoo" not in source


def test_what_is_at_padding_is_not_compared():
    rows = [SampleRow([1, 2], [], []), SampleRow([1], [], [])]
    ours, theirs = torch.zeros(2, 2, 3), torch.zeros(2, 2, 3)
    ours[1, 1], theirs[1, 1] = torch.nan, torch.inf
    assert compare_logits("float32", {"language": ours}, {"right/language": theirs}, rows) == 0
    theirs[1, 0, 2] = torch.nan
    with pytest.raises(RuntimeError, match="first at sequence 1, position 0"):
        compare_logits("float32", {"language": ours}, {"right/language": theirs}, rows)


def test_a_pair_of_texts_with_other_token_types_is_an_error(build: Any, tmp_path: Path):
    def reloaded(folder: Path, request: reloading.Request) -> Any:
        report, logits = reloading.reload(folder, request)
        report["pairs"]["token_type_ids"][0].reverse()
        return report, logits

    given = build("bert-nano", {"heads": {"classification": {"labels": 2}}}, labels=["no", "yes"])
    with pytest.raises(
        RuntimeError, match=r"token_type_ids of \('A small .*', 'Yes\.'\): ours are .*AutoTokenizer gives"
    ):
        export_model(given, tmp_path / "out", reload=reloaded)


def test_some_of_the_texts_that_are_compared_spell_special_tokens(trained: dict[str, Tokenizer]):
    tokens, texts = trained["bpe"].special_tokens, sample_texts(trained["bpe"])
    assert any(token in text for token in tokens for text in texts)
