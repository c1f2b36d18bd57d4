"""Row `gpt`: a training step of GPT-2 on Wikipedia. Row `processes`: two processes of one thread, or one of two.

The peers get the rows that zoo packs, but read each as one stream without borders between articles, as is usual with
them. Only tokens count, not the empty positions of a row.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from rows.data import count_tokens, example_batches, pad_rows, prepare_run, training_examples, wikipedia_task
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.textbook_gpt import TextbookGPT
from rows.training import train_with_zoo, training_loop
from zoo.config import parse_set
from zoo.models.settings import load_settings

TASK, TOKENIZER_MODEL = "wikipedia-lm", "gpt2-nano"


def prepare(reporter: TurnReporter, args: SideArgs) -> None:
    prepare_run(args, "gpt-tokenizer", TOKENIZER_MODEL, wikipedia_task(args, TASK))


def model_settings(args: SideArgs) -> list[str]:
    """Changes of the model: dropout as the sizes say, and a fixed vocabulary, of which the tokenizer uses a part."""
    sizes = args.sizes
    return [f"dropout={sizes['dropout']}", f"vocab_size={sizes['vocabulary']}", *sizes.get("shape", [])]


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    sets = [*model_settings(args), f"training.batch={args.sizes['rows']}"]
    sets.append(f"task.tokenizer.from={(args.cache / 'gpt-tokenizer').absolute()}")
    train_with_zoo(reporter, args, args.sizes["model"], wikipedia_task(args, TASK), sets)


def packed_batches(args: SideArgs, fill: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield rows of tokens, the same rows with `fill` at empty positions, and the number of tokens."""
    run, task = args.cache / "gpt-tokenizer", wikipedia_task(args, TASK)
    examples = training_examples(args, run, args.sizes["model"], task, model_settings(args), pack=True)
    for rows in example_batches(examples, args.sizes["rows"]):
        arrays = [np.concatenate([example.tokens for example in row]) for row in rows]
        yield pad_rows(arrays, 0, args.device), pad_rows(arrays, fill, args.device), count_tokens(rows)


def hf(reporter: TurnReporter, args: SideArgs) -> None:
    sizes, stack = args.sizes, transformers_sizes(args)
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), sizes["dropout"])
    config = GPT2Config(vocab_size=sizes["vocabulary"], n_positions=sizes["length"], **stack, **dropouts)
    # not shifted: transformers shifts labels itself
    rows = (({"input_ids": t, "labels": labels}, n) for t, labels, n in packed_batches(args, -100))
    training_loop(reporter, GPT2LMHeadModel(config), rows, args)


def textbook(reporter: TurnReporter, args: SideArgs) -> None:
    sizes, stack = args.sizes, transformers_sizes(args)
    shape = stack["n_layer"], stack["n_head"], stack["n_embd"]
    model = TextbookGPT(sizes["vocabulary"], sizes["length"], *shape, dropout=sizes["dropout"])
    rows = (({"idx": t, "targets": shift_left(labels)}, n) for t, labels, n in packed_batches(args, -1))
    training_loop(reporter, model, rows, args, lambda outputs: outputs[1])


def shift_left(labels: Tensor) -> Tensor:
    """Shift the labels left by one position; the last becomes -1."""
    targets = labels.roll(-1, 1)
    targets[:, -1] = -1
    return targets


def transformers_sizes(args: SideArgs) -> dict[str, int]:
    """The sizes of zoo's model as transformers' settings."""
    settings = load_settings(args.sizes["model"], [parse_set(text) for text in args.sizes.get("shape", [])])
    assert settings.decoder is not None
    stack = settings.decoder.settings
    return {"n_layer": stack.n_layers, "n_head": stack.n_heads, "n_embd": stack.d_model, "n_inner": stack.d_ff}
