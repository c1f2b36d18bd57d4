"""Row `translation`: a training step of the 2017 Transformer on Multi30k; counts tokens of both languages.

Per update, zoo packs about as many pairs as the peer pads.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rows.data import (
    count_tokens,
    example_batches,
    pad_rows,
    prepare_run,
    rows_per_batch,
    training_examples,
    transformers_labels,
)
from rows.peer import untrained_peer
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.training import train_with_zoo, training_loop
from zoo.config import parse_set
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.settings import load_settings

TASK, TOKENIZER_MODEL, TOKENIZER_RUN = "multi30k-en-de", "transformer-nano", "translation-tokenizer"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    prepare_run(args, TOKENIZER_RUN, TOKENIZER_MODEL, TASK)


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    model, run = args.sizes["model"], args.cache / TOKENIZER_RUN
    rows = rows_per_batch(training_examples(args, run, model, TASK, [], pack=True), args.sizes["pairs"])
    train_with_zoo(reporter, args, model, TASK, [f"training.batch={rows}", f"task.tokenizer.from={run.absolute()}"])


def hf(reporter: TurnReporter, args: SideArgs) -> None:
    tokenizer = load_checkpoint(args.cache / TOKENIZER_RUN).tokenizer
    settings = load_settings(args.sizes["model"], [parse_set(f"vocab_size={tokenizer.vocab_size}")])
    training_loop(reporter, untrained_peer(settings, TASK, tokenizer.roles), padded_batches(args), args)


def padded_batches(args: SideArgs) -> Iterator[tuple[dict[str, Tensor], int]]:
    """The peer's batches: one pair per row, each language padded to its longest."""
    examples = training_examples(args, args.cache / TOKENIZER_RUN, args.sizes["model"], TASK, [], pack=False)
    pad = examples.roles.id("pad")
    for rows in example_batches(examples, args.sizes["pairs"]):
        batch = [example for row in rows for example in row]
        sources = [example.source for example in batch if example.source is not None]
        inputs = {"input_ids": pad_rows(sources, pad, args.device)}
        inputs["attention_mask"] = pad_rows([np.ones_like(source) for source in sources], 0, args.device)
        inputs["decoder_input_ids"] = pad_rows([e.tokens for e in batch], pad, args.device)
        yield (
            {**inputs, "labels": pad_rows([transformers_labels(e, "language") for e in batch], -100, args.device)},
            count_tokens(rows),
        )
