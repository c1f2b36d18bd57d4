"""Rows `greedy` and `beams`: generation by zoo, and by transformers on zoo's export.

Row `greedy` has random weights, which would stop at random: both sides must generate the full number of tokens. Rows
`beams` have a briefly trained model, whose translations end by themselves.
"""

import json
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import torch
from sacrebleu import corpus_bleu
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from rows.contents import start, wikipedia
from rows.given import Given
from rows.turns import Turn
from zoo import export, pipeline
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.devices.choose import choose_placement
from zoo.examples.form import inputs
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.runs.layout import CONFIG, TRAINING

GPT, GPT_EXPORT = "gpt-random", "gpt-export"
TASK, TRANSLATOR, TRANSLATOR_EXPORT = "multi30k-en-de", "translator-trained", "translator-export"
RECIPE = ("training.optimizer=muon", "training.schedule=cosine", "training.warmup_steps=0.1")
RECIPE += ("training.learning_rate=0.0015", "training.evaluate_every=0")
Translate = Callable[[list[str]], list[str]]


def prepare_greedy(turn: Turn, given: Given) -> None:
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    run = start(given, GPT, given.sizes["model"], wikipedia(given, "wikipedia-lm"), sets)
    export_once(given, run, GPT_EXPORT)


def prepare_beams(turn: Turn, given: Given) -> None:
    run = start(
        given, TRANSLATOR, given.sizes["model"], TASK, recipe=[*RECIPE, f"training.steps={given.sizes['steps']}"]
    )
    export_once(given, run, TRANSLATOR_EXPORT)


def export_once(given: Given, run: Path, name: str) -> None:
    """Export a run where it has not been, or where its model or its training is another one now."""
    of = [(run / file).read_text("utf-8") for file in (CONFIG, TRAINING)]
    given.once(name, lambda folder: export(run, folder), of)


def prompts(given: Given, vocabulary: int) -> Iterator[list[list[int]]]:
    """Yield batches of random prompts, the same for every side."""
    generator, shape = torch.Generator().manual_seed(0), (given.sizes["batch"], given.sizes["prompt"])
    while True:
        yield torch.randint(10, vocabulary, shape, generator=generator).tolist()


def greedy_zoo(turn: Turn, given: Given) -> None:
    model = load_checkpoint(given.made / GPT, choose_placement(given.device, given.precision)).model
    settings, new = GenerateSettings(max_new_tokens=given.sizes["new"]), given.sizes["new"]
    turn.note(cost=sum(p.numel() * p.element_size() for p in model.parameters()) / given.sizes["batch"])
    for batch in prompts(given, model.settings.vocab_size):
        found = generate(model, batch, settings, None)
        assert all(len(text.tokens) == new for text in found)
        turn.done(new * len(batch))


def greedy_hf(turn: Turn, given: Given) -> None:
    model = AutoModelForCausalLM.from_pretrained(given.made / GPT_EXPORT, dtype=given.dtype).to(given.device).eval()
    new = given.sizes["new"]
    for batch in prompts(given, model.config.vocab_size):
        ids = torch.tensor(batch, device=given.device)
        asked = {"min_new_tokens": new, "max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **asked)
        assert found.shape[1] == ids.shape[1] + new
        turn.done(new * len(batch))


def sentences(given: Given) -> tuple[list[str], list[str]]:
    """Multi30k's test sentences and their references, in the order of the file."""
    rows = list(load_rows(load_task(TASK), inputs(), given.data, ["test"])["test"])
    return [row["source"] for row in rows], [row["target"] for row in rows]


def translate(turn: Turn, given: Given, work: Translate) -> None:
    """Translate the next test sentences in each turn, cycling through the split."""
    texts, at = cycle(sentences(given)[0]), given.sizes["sentences"]
    while True:
        work(list(islice(texts, at)))
        turn.done(at)


def zoo_translates(given: Given, precision: str) -> Translate:
    """zoo's pipeline, which sorts its inputs by length."""
    run, batch = given.made / TRANSLATOR, given.sizes["batch"]
    asked = pipeline(run, device=given.device, precision=precision, batch=batch)
    return lambda texts: [answer["output"] for answer in asked(texts)]


def hf_translates(given: Given, dtype: torch.dtype) -> Translate:
    """transformers' `generate` with the export's settings, on batches in the order of the file."""
    folder, size = given.made / TRANSLATOR_EXPORT, given.sizes["batch"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).to(given.device).eval()

    def work(texts: list[str]) -> list[str]:
        said = []
        for at in range(0, len(texts), size):
            inputs = tokenizer(texts[at : at + size], padding=True, return_tensors="pt").to(given.device)
            # without token_type_ids, which a translator does not take
            found = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"])
            said += tokenizer.batch_decode(found, skip_special_tokens=True)
        return said

    return work


def beams_zoo(turn: Turn, given: Given) -> None:
    translate(turn, given, zoo_translates(given, given.precision))


def beams_hf(turn: Turn, given: Given) -> None:
    translate(turn, given, hf_translates(given, given.dtype))


def judge_beams(turn: Turn, given: Given) -> None:
    """Compare the sides' translations: the number of equal ones in float32, and BLEU in both precisions."""
    texts, references = (rows[: given.sizes["judged"]] for rows in sentences(given))
    exact, narrow = (zoo_translates(given, precision)(texts) for precision in ("float32", given.precision))
    theirs, theirs_narrow = (hf_translates(given, dtype)(texts) for dtype in (torch.float32, given.dtype))
    said = {"float32": exact, given.precision: narrow, f"hf {given.precision}": theirs_narrow}
    bleu = {name: round(corpus_bleu(lines, [references]).score, 2) for name, lines in said.items()}
    same = sum(mine == other for mine, other in zip(exact, theirs, strict=True))
    print(json.dumps({"the same in float32": f"{same} of {len(texts)}", "BLEU": bleu}))
