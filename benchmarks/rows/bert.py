"""Row `bert`: a training step of BERT, masked LM and next sentence, on Wikipedia articles of natural length.

zoo packs examples into rows; the peer pads each to the longest of its batch, as its data collator does. Both read about
the same number of examples per update, and mask the same share of tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rows.data import (
    count_tokens,
    example_batches,
    pad_rows,
    prepare_run,
    rows_per_batch,
    training_examples,
    transformers_labels,
    wikipedia_task,
)
from rows.peer import untrained_peer
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.training import train_with_zoo, training_loop
from zoo.config import parse_set
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.settings import load_settings

TASK, TOKENIZER_MODEL, TOKENIZER_RUN = "wikipedia-mlm", "bert-nano", "bert-tokenizer"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    prepare_run(args, TOKENIZER_RUN, TOKENIZER_MODEL, wikipedia_task(args, TASK))


def model_settings(args: SideArgs) -> list[str]:
    return [f"vocab_size={args.sizes['vocabulary']}", f"attention.dropout={args.sizes['attention_dropout']}"]


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    train_with_backend(reporter, args, "auto")


def sdpa(reporter: TurnReporter, args: SideArgs) -> None:
    train_with_backend(reporter, args, "sdpa")


def flex(reporter: TurnReporter, args: SideArgs) -> None:
    train_with_backend(reporter, args, "flex")


def varlen(reporter: TurnReporter, args: SideArgs) -> None:
    train_with_backend(reporter, args, "varlen")


def train_with_backend(reporter: TurnReporter, args: SideArgs, backend: str) -> None:
    """`zoo pretrain` with one attention backend, in a folder of its own."""
    args = replace(args, scratch=args.scratch / f"backend-{backend}")
    args.scratch.mkdir(exist_ok=True)
    model, task, run = args.sizes["model"], wikipedia_task(args, TASK), args.cache / TOKENIZER_RUN
    sets = [*model_settings(args), f"training.attention_backend={backend}"]
    rows = rows_per_batch(training_examples(args, run, model, task, sets, pack=True), args.sizes["examples"])
    train_with_zoo(
        reporter, args, model, task, [*sets, f"training.batch={rows}", f"task.tokenizer.from={run.absolute()}"]
    )


def hf(reporter: TurnReporter, args: SideArgs) -> None:
    sets = [*model_settings(args), f"max_length={args.sizes['length']}"]  # as a run cuts its model to the task's length
    settings = load_settings(args.sizes["model"], [parse_set(text) for text in sets])
    roles = load_checkpoint(args.cache / TOKENIZER_RUN).tokenizer.roles
    peer = untrained_peer(settings, wikipedia_task(args, TASK), roles)
    training_loop(reporter, peer, padded_batches(args), args)


def padded_batches(args: SideArgs) -> Iterator[tuple[dict[str, Tensor], int]]:
    """The peer's batches: one example per row, padded to the longest of the batch."""
    run, task = args.cache / TOKENIZER_RUN, wikipedia_task(args, TASK)
    examples = training_examples(args, run, args.sizes["model"], task, model_settings(args), pack=False)
    for rows in example_batches(examples, args.sizes["examples"]):
        batch = [example for row in rows for example in row]
        arrays = {"input_ids": [e.tokens for e in batch], "attention_mask": [np.ones_like(e.tokens) for e in batch]}
        arrays["token_type_ids"] = [np.zeros_like(e.tokens) if e.segments is None else e.segments for e in batch]
        inputs = {name: pad_rows(array, 0, args.device) for name, array in arrays.items()}
        inputs["labels"] = pad_rows([transformers_labels(e, "masked_lm") for e in batch], -100, args.device)
        is_next = np.concatenate([e.targets["next_sentence"] for e in batch])
        yield {**inputs, "next_sentence_label": torch.from_numpy(is_next).to(args.device)}, count_tokens(rows)
