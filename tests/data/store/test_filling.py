"""A store filled by processes of their own, which import little."""

from pathlib import Path

import pytest

from zoo.data.ids import StoredFields
from zoo.data.sources.find import load_rows
from zoo.data.store.filling import Filling, FillRequest, plan
from zoo.data.store.store import StoreRecipe
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs


def filling(folder: Path) -> Filling:
    files = {"train": "part-*.txt", "validation": "other.txt"}
    tree = {"objective": "causal_lm", "source": {"files": files, "filter": {"longest": 100}}, "length": 16}
    task, stored = read_task(tree, "task"), StoredFields(("text",), predicted=("text",), sentences=True)
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "byte_bpe", "vocab_size": 270}, ""), ["text 한국 0123"])
    written = {name: content.decode() for name, content in tokenizer.files().items()}
    request = FillRequest(task.plain(), list(inputs()), str(folder), stored, written)
    return Filling(plan(load_rows(task, inputs(), folder), StoreRecipe(stored, tokenizer)), request)


def test_processes_make_the_shards_that_this_one_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for name in ("part-0", "part-1", "other"):
        (tmp_path / f"{name}.txt").write_text(f"text 한국 {name}\nsecond\n", "utf-8")
    (tmp_path / "part-1.txt").write_text(f"text 한국\nsecond\n{'long' * 50}\n", "utf-8")
    asked = filling(tmp_path)
    assert len(asked.missing) == 3
    asked.fill_together(1)
    assert not asked.missing and asked.count() == ({"train": 4, "validation": 2}, 1)


def test_a_split_held_out_of_train_is_evaluated_from_the_shards_of_training(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("".join(f"text {number}\n" for number in range(50)))
    task = read_task({"objective": "causal_lm", "source": {"files": {"train": "all.txt"}}}, "task")
    recipe = StoreRecipe(StoredFields(("text",)), None)

    def folders(*splits: str) -> set[str]:
        return {shard.folder.name for shard in plan(load_rows(task, inputs(), tmp_path, list(splits) or None), recipe)}

    assert folders("validation") == folders()
    assert folders("train") != folders(), "whoever evaluates train asks for its rows, too"
