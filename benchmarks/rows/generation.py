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

from rows.data import prepare_run, wikipedia_task
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from zoo import export, pipeline
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.devices.choose import choose_placement
from zoo.examples.form import inputs
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.runs.layout import CONFIG, TRAINING

GPT_RUN, GPT_EXPORT = "gpt-random", "gpt-export"
TASK, TRANSLATOR_RUN, TRANSLATOR_EXPORT = "multi30k-en-de", "translator-trained", "translator-export"
RECIPE = ("training.optimizer=muon", "training.schedule=cosine", "training.warmup_steps=0.1")
RECIPE += ("training.learning_rate=0.0015", "training.evaluate_every=0")
Translator = Callable[[list[str]], list[str]]


def prepare_greedy(reporter: TurnReporter, args: SideArgs) -> None:
    prompt, new, length = (args.sizes[name] for name in ("prompt", "new", "length"))
    if prompt + new - 1 > length:  # the last token is never read
        raise ValueError(f"prompt={prompt} and new={new} need length={prompt + new - 1} or more, got {length}")
    sets = [f"vocab_size={args.sizes['vocabulary']}"]
    run = prepare_run(args, GPT_RUN, args.sizes["model"], wikipedia_task(args, "wikipedia-lm"), sets)
    export_once(args, run, GPT_EXPORT)


def prepare_beams(reporter: TurnReporter, args: SideArgs) -> None:
    recipe = [*RECIPE, f"training.steps={args.sizes['steps']}"]
    run = prepare_run(args, TRANSLATOR_RUN, args.sizes["model"], TASK, recipe=recipe)
    export_once(args, run, TRANSLATOR_EXPORT)


def export_once(args: SideArgs, run: Path, name: str) -> None:
    """Export a run if that has not been done, or its model or training settings have changed since."""
    settings = [(run / file).read_text("utf-8") for file in (CONFIG, TRAINING)]
    args.make_once(name, lambda folder: export(run, folder), settings)


def random_prompts(args: SideArgs, vocab_size: int) -> Iterator[list[list[int]]]:
    """Yield batches of random prompts, the same for every side."""
    generator, shape = torch.Generator().manual_seed(0), (args.sizes["batch"], args.sizes["prompt"])
    while True:
        yield torch.randint(10, vocab_size, shape, generator=generator).tolist()


def greedy_zoo(reporter: TurnReporter, args: SideArgs) -> None:
    model = load_checkpoint(args.cache / GPT_RUN, choose_placement(args.device, args.precision)).model
    settings, new_tokens = GenerateSettings(max_new_tokens=args.sizes["new"]), args.sizes["new"]
    reporter.record(cost=sum(p.numel() * p.element_size() for p in model.parameters()) / args.sizes["batch"])
    for batch in random_prompts(args, model.settings.vocab_size):
        generated = generate(model, batch, settings, None)
        assert all(len(text.tokens) == new_tokens for text in generated)
        reporter.report(new_tokens * len(batch))


def greedy_hf(reporter: TurnReporter, args: SideArgs) -> None:
    model = AutoModelForCausalLM.from_pretrained(args.cache / GPT_EXPORT, dtype=args.dtype).to(args.device).eval()
    new_tokens = args.sizes["new"]
    for batch in random_prompts(args, model.config.vocab_size):
        ids = torch.tensor(batch, device=args.device)
        settings = {"min_new_tokens": new_tokens, "max_new_tokens": new_tokens, "do_sample": False, "pad_token_id": 0}
        generated = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        assert generated.shape[1] == ids.shape[1] + new_tokens
        reporter.report(new_tokens * len(batch))


def multi30k_test_pairs(args: SideArgs) -> tuple[list[str], list[str]]:
    """Multi30k's test sentences and their references, in the order of the file."""
    rows = list(load_rows(load_task(TASK), inputs(), args.data, ["test"])["test"])
    return [row["source"] for row in rows], [row["target"] for row in rows]


def translate_turns(reporter: TurnReporter, args: SideArgs, translator: Translator) -> None:
    """Translate the next test sentences in each turn, cycling through the split."""
    texts, count = cycle(multi30k_test_pairs(args)[0]), args.sizes["sentences"]
    while True:
        translator(list(islice(texts, count)))
        reporter.report(count)


def zoo_translator(args: SideArgs, precision: str) -> Translator:
    """zoo's pipeline, which sorts its inputs by length."""
    run, batch = args.cache / TRANSLATOR_RUN, args.sizes["batch"]
    translate = pipeline(run, device=args.device, precision=precision, batch=batch)
    return lambda texts: [answer["output"] for answer in translate(texts)]


def transformers_translator(args: SideArgs, dtype: torch.dtype) -> Translator:
    """transformers' `generate` with the export's settings, on batches in the order of the file."""
    folder, size = args.cache / TRANSLATOR_EXPORT, args.sizes["batch"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).to(args.device).eval()

    def translate(texts: list[str]) -> list[str]:
        translations = []
        for at in range(0, len(texts), size):
            inputs = tokenizer(texts[at : at + size], padding=True, return_tensors="pt").to(args.device)
            # without token_type_ids, which a translator does not take
            generated = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"])
            translations += tokenizer.batch_decode(generated, skip_special_tokens=True)
        return translations

    return translate


def beams_zoo(reporter: TurnReporter, args: SideArgs) -> None:
    translate_turns(reporter, args, zoo_translator(args, args.precision))


def beams_hf(reporter: TurnReporter, args: SideArgs) -> None:
    translate_turns(reporter, args, transformers_translator(args, args.dtype))


def compare_translations(reporter: TurnReporter, args: SideArgs) -> None:
    """Print how many translations of the sides are equal in float32, and BLEU in float32 and the sides' precision."""
    texts, references = (rows[: args.sizes["judged"]] for rows in multi30k_test_pairs(args))
    zoo_float32, zoo_own = (zoo_translator(args, precision)(texts) for precision in ("float32", args.precision))
    hf_float32, hf_own = (transformers_translator(args, dtype)(texts) for dtype in (torch.float32, args.dtype))
    translations = {"float32": zoo_float32, args.precision: zoo_own, f"hf {args.precision}": hf_own}
    bleu = {name: round(corpus_bleu(lines, [references]).score, 2) for name, lines in translations.items()}
    same = sum(ours == theirs for ours, theirs in zip(zoo_float32, hf_float32, strict=True))
    print(json.dumps({"the same in float32": f"{same} of {len(texts)}", "BLEU": bleu}))
