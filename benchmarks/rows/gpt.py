"""Rows `gpt` and `gpt-modern`: a training step on Wikipedia. Row `processes`: the same in two processes of one thread.

The peers get the rows that zoo packs, but read each as one stream without borders between articles, as is usual with
them. Only tokens count, not the empty positions of a row.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from rows.data import count_tokens, example_batches, pad_rows, prepare_run, training_examples, wikipedia_task
from rows.peer import untrained_peer
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.textbook_gpt import TextbookGPT
from rows.training import train_with_zoo, training_loop
from zoo.config import parse_set
from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.targets.declare.registry import targets
from zoo.models.settings import ModelSettings, load_settings

TASK, TOKENIZER_MODEL, TOKENIZER_RUN = "wikipedia-lm", "gpt2-nano", "gpt-tokenizer"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    prepare_run(args, TOKENIZER_RUN, TOKENIZER_MODEL, wikipedia_task(args, TASK))


def model_settings(args: SideArgs) -> list[str]:
    """Changes of the model: dropout as the sizes say, and a fixed vocabulary, of which the tokenizer uses a part."""
    sizes = args.sizes
    return [f"dropout={sizes['dropout']}", f"vocab_size={sizes['vocabulary']}", *sizes.get("shape", [])]


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    sets = [*model_settings(args), f"training.batch={args.sizes['rows']}"]
    sets.append(f"task.tokenizer.from={(args.cache / TOKENIZER_RUN).absolute()}")
    train_with_zoo(reporter, args, args.sizes["model"], wikipedia_task(args, TASK), sets)


def packed_batches(args: SideArgs, fill: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield rows of tokens, the same rows with `fill` at empty positions, and the number of tokens."""
    run, task = args.cache / TOKENIZER_RUN, wikipedia_task(args, TASK)
    examples = training_examples(args, run, args.sizes["model"], task, model_settings(args), pack=True)
    for rows in example_batches(examples, args.sizes["rows"]):
        arrays = [np.concatenate([example.tokens for example in row]) for row in rows]
        yield pad_rows(arrays, 0, args.device), pad_rows(arrays, fill, args.device), count_tokens(rows)


def hf(reporter: TurnReporter, args: SideArgs) -> None:
    roles = load_checkpoint(args.cache / TOKENIZER_RUN).tokenizer.roles
    # not shifted: transformers shifts labels itself
    rows = (({"input_ids": t, "labels": labels}, n) for t, labels, n in packed_batches(args, -100))
    training_loop(reporter, untrained_peer(peer_settings(args), wikipedia_task(args, TASK), roles), rows, args)


def textbook(reporter: TurnReporter, args: SideArgs) -> None:
    settings, sizes = peer_settings(args), args.sizes
    if obstacle := targets["gpt2"].obstacle(settings):
        raise ValueError(f"the textbook GPT is a GPT-2, which '{sizes['model']}' is not: {obstacle}")
    assert settings.decoder is not None
    stack = settings.decoder.settings
    shape = stack.n_layers, stack.n_heads, stack.d_model
    model = TextbookGPT(sizes["vocabulary"], sizes["length"], *shape, dropout=sizes["dropout"])
    rows = (({"idx": t, "targets": shift_left(labels)}, n) for t, labels, n in packed_batches(args, -1))
    training_loop(reporter, model, rows, args, lambda outputs: outputs[1])


def shift_left(labels: Tensor) -> Tensor:
    """Shift the labels left by one position; the last becomes -1."""
    targets = labels.roll(-1, 1)
    targets[:, -1] = -1
    return targets


def peer_settings(args: SideArgs) -> ModelSettings:
    """The settings of zoo's run, with a position for each token of a row, which peers read as one stream."""
    sets = [*model_settings(args), f"max_length={args.sizes['length']}"]
    return load_settings(args.sizes["model"], [parse_set(text) for text in sets])
