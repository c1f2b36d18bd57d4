"""Rows `greedy` and `beams`: new tokens of a model with random weights, in bfloat16, and by transformers on our export.

Neither side may end a text: random weights would do so anywhere. So every text of a call is as long as was asked.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from rows.contents import start, wikipedia
from rows.given import BF16, Given
from rows.turns import Turn
from zoo import export
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.devices.choose import choose_placement
from zoo.examples.form import inputs
from zoo.hub.checkpoint import load_checkpoint
from zoo.inference.typed import source_inputs
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings

GPT, GPT_EXPORT = "gpt-random", "gpt-export"
TRANSLATOR, TRANSLATOR_EXPORT = "translator-random", "translator-export"


def prepare_greedy(turn: Turn, given: Given) -> None:
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    run = start(given, GPT, given.sizes["model"], wikipedia(given, "wikipedia-lm"), sets)
    given.once(GPT_EXPORT, lambda folder: export(run, folder))


def prepare_beams(turn: Turn, given: Given) -> None:
    run = start(given, TRANSLATOR, given.sizes["model"], "multi30k-en-de")
    given.once(TRANSLATOR_EXPORT, lambda folder: export(run, folder))


def prompts(given: Given, vocabulary: int) -> Iterator[list[list[int]]]:
    """Batches of random prompts, the same for every side."""
    generator, shape = torch.Generator().manual_seed(0), (given.sizes["batch"], given.sizes["prompt"])
    while True:
        yield torch.randint(10, vocabulary, shape, generator=generator).tolist()


def greedy_zoo(turn: Turn, given: Given) -> None:
    model = load_checkpoint(given.made / GPT, choose_placement(given.device, "bfloat16")).model
    settings, new = GenerateSettings(max_new_tokens=given.sizes["new"]), given.sizes["new"]
    turn.note(cost=2 * sum(p.numel() for p in model.parameters()) / given.sizes["batch"])
    for batch in prompts(given, model.settings.vocab_size):
        found = generate(model, batch, settings, None)
        assert all(len(text.tokens) == new for text in found)
        turn.done(new * len(batch))


def greedy_hf(turn: Turn, given: Given) -> None:
    model = AutoModelForCausalLM.from_pretrained(given.made / GPT_EXPORT, dtype=BF16).to(given.device).eval()
    new = given.sizes["new"]
    for batch in prompts(given, model.config.vocab_size):
        ids = torch.tensor(batch, device=given.device)
        asked = {"min_new_tokens": new, "max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **asked)
        assert found.shape[1] == ids.shape[1] + new
        turn.done(new * len(batch))


def sentences(given: Given) -> Iterator[list[tuple[list[str], int]]]:
    """What one turn translates: so many test sentences in batches of similar length, and how long to make each batch.

    That is the reference's length in tokens, the mean of its batch; turn after turn walks through the test split.
    """
    task, tokenizer = load_task("multi30k-en-de"), load_checkpoint(given.made / TRANSLATOR).tokenizer
    rows = load_rows(task, inputs(), given.data, ["test"])["test"].data
    lengths = [len(ids) + 1 for ids in tokenizer.encode(list(rows["target"]))]
    pairs, at, size = list(zip(rows["source"], lengths, strict=True)), 0, given.sizes["batch"]
    while True:
        chosen = sorted(
            (pairs[(at + i) % len(pairs)] for i in range(given.sizes["sentences"])), key=lambda p: len(p[0])
        )
        groups = [chosen[i : i + size] for i in range(0, len(chosen), size)]
        yield [([text for text, _ in g], max(1, round(sum(length for _, length in g) / len(g)))) for g in groups]
        at += given.sizes["sentences"]


def translate(turn: Turn, given: Given, work: Callable[[Sequence[str], int], Any]) -> None:
    for batches in sentences(given):
        for texts, new in batches:
            work(texts, new)
        turn.done(given.sizes["sentences"])


def beams_zoo(turn: Turn, given: Given) -> None:
    loaded = load_checkpoint(given.made / TRANSLATOR, choose_placement(given.device, "bfloat16"))
    begin = [loaded.tokenizer.roles.id("start")]

    def work(texts: Sequence[str], new: int) -> None:
        source = source_inputs(loaded, loaded.tokenizer.encode(texts))
        found = generate(loaded.model, [begin] * len(texts), GenerateSettings(new, beams=5), None, *source)
        assert all(len(text.tokens) == new for text in found)

    translate(turn, given, work)


def beams_hf(turn: Turn, given: Given) -> None:
    tokenizer = load_checkpoint(given.made / TRANSLATOR).tokenizer
    model = AutoModelForSeq2SeqLM.from_pretrained(given.made / TRANSLATOR_EXPORT, dtype=BF16).to(given.device).eval()

    def work(texts: Sequence[str], new: int) -> None:
        ids = [*tokenizer.encode(list(texts))]
        longest = max(map(len, ids))
        rows = torch.tensor([[*row] + [0] * (longest - len(row)) for row in ids], device=given.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids], device=given.device)
        model.generate(rows, attention_mask=mask, num_beams=5, do_sample=False, min_new_tokens=new, max_new_tokens=new)

    translate(turn, given, work)
