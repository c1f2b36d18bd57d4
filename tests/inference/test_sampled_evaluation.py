"""Claims about an evaluation of a part of the examples: the same part every time, its bytes are its own."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.store.split import Split
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs
from zoo.inference.evaluate_split import evaluate_split, read_examples
from zoo.inference.evaluation import Evaluation
from zoo.inference.loaded import Loaded
from zoo.models.create import create_model
from zoo.models.generation.settings import GenerateSettings
from zoo.objectives.mixture import Mixture

TREE = {"objective": "causal_lm", "source": {"files": {"train": "text.txt", "validation": "text.txt"}}, "length": 8}
LINES = ["é a b c d e a b c d é é a", "b c", "d", "", "a é c d e a b c", "e d é", "a b c d e"]
Opened = tuple[Loaded, Examples, Split]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    task = read_task(TREE, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), LINES)
    model = create_model("gpt2-nano", vocab_size=tokenizer.vocab_size, max_length=8).initialize(0)
    rows = load_rows(task, inputs(), tmp_path, ["validation"])
    mixture = Mixture.parse(task.objective)
    examples, split = read_examples(rows, task, mixture, model, tokenizer)["validation"]
    return Loaded(model.eval(), tokenizer, task, mixture), examples, split


def names(examples: Examples) -> list[tuple[int, int, int]]:
    return [name for row in examples.rows_in_order() for name in row.names]


@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_sample_is_fixed_and_in_the_order_of_the_data(opened: Opened, most: int):
    _, examples, _ = opened
    one, other = examples.sample(most), examples.sample(most)
    drawn = [(0, plan.document, plan.number) for plan in one.plan(0, one.documents)]
    assert sorted(names(one)) == sorted(names(other)) == drawn and len(drawn) == one.count == most
    assert drawn != [(0, p.document, p.number) for p in examples.plan(0, range(examples.lengths.documents))][:most]
    assert set(drawn) <= set(names(examples))


def test_a_sample_of_all_is_all(opened: Opened):
    _, examples, _ = opened
    assert examples.sample(examples.count) is examples and examples.count == len(names(examples)) > len(LINES)


@torch.no_grad()
def test_bits_per_byte_of_a_sample_are_its_nats_over_its_own_bytes(opened: Opened):
    loaded, examples, split = opened
    found = Evaluation(examples.sample(3), split).run(loaded, ["bits_per_byte", "perplexity"])
    nats = scored = read = 0.0
    for plan in (chosen := examples.sample(3)).plan(0, chosen.documents):
        ids = split.read(plan.pieces[0])
        tokens = torch.tensor([[loaded.tokenizer.roles.id("start"), *ids.tolist()]])
        targets = torch.tensor([*ids.tolist(), *[loaded.tokenizer.roles.id("end")] * plan.final])
        logits = loaded.model(tokens[:, : len(targets)]).logits[0]
        nats += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
        scored, read = scored + len(targets), read + len(loaded.tokenizer.decode(ids).encode())
    assert found["examples"] == 3 and found["loss"] == pytest.approx(nats / scored, rel=1e-5)
    assert found["causal_lm/bits_per_byte"] == pytest.approx(nats / math.log(2) / read, rel=1e-5)


def test_a_metric_of_texts_needs_something_to_write(opened: Opened, tmp_path: Path):
    loaded, _, _ = opened
    asked = replace(loaded, task=replace(loaded.task, metrics=["sequence_accuracy"]))
    said = "task.metrics: causal_lm/sequence_accuracy compares generated texts; it needs a column"
    with pytest.raises(ValueError, match=said):
        evaluate_split(asked, "validation", tmp_path, GenerateSettings())


def test_progress_counts_examples_up_to_all_of_them(opened: Opened):
    loaded, examples, split = opened
    seen: list[tuple[str, int, int]] = []
    Evaluation(examples, split, batch=2, progress=lambda *what: seen.append(what)).run(loaded, [])
    assert seen[0] == ("examples", 0, examples.count) and seen[-1] == ("examples", examples.count, examples.count)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen) and len(seen) > 3
