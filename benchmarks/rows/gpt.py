"""Row `gpt`: a training step of GPT-2 on Wikipedia. Row `processes`: two processes of one thread, or one of two.

The peers get the rows that zoo packs, but read each as one stream without borders between articles, as is usual with
them. Only tokens count, not the empty positions of a row.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from rows.contents import batches, examples_of, padded, start, tokens_of, wikipedia
from rows.given import Given
from rows.textbook_gpt import TextbookGPT
from rows.training import loop, zoo_training
from rows.turns import Turn
from zoo.config import parse_set
from zoo.models.settings import load_settings

TASK, SMALL = "wikipedia-lm", "gpt2-nano"


def prepare(turn: Turn, given: Given) -> None:
    start(given, "gpt-tokenizer", SMALL, wikipedia(given, TASK))


def model_sets(given: Given) -> list[str]:
    """Changes of the model: dropout as the sizes say, and a fixed vocabulary, of which the tokenizer uses a part."""
    sizes = given.sizes
    return [f"dropout={sizes['dropout']}", f"vocab_size={sizes['vocabulary']}", *sizes.get("shape", [])]


def zoo(turn: Turn, given: Given) -> None:
    sets = [*model_sets(given), f"training.batch={given.sizes['rows']}"]
    sets.append(f"task.tokenizer.from={(given.made / 'gpt-tokenizer').absolute()}")
    zoo_training(turn, given, given.sizes["model"], wikipedia(given, TASK), sets)


def token_rows(given: Given, fill: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield rows of tokens, the same rows with `fill` at empty positions, and the number of tokens."""
    named = given.made / "gpt-tokenizer", given.sizes["model"], wikipedia(given, TASK)
    for rows in batches(examples_of(given, *named, model_sets(given), pack=True), given.sizes["rows"]):
        laid = [np.concatenate([example.tokens for example in row]) for row in rows]
        yield padded(laid, 0, given.device), padded(laid, fill, given.device), tokens_of(rows)


def hf(turn: Turn, given: Given) -> None:
    sizes, stack = given.sizes, stack_of(given)
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), sizes["dropout"])
    config = GPT2Config(vocab_size=sizes["vocabulary"], n_positions=sizes["length"], **stack, **dropouts)
    # not shifted: transformers shifts labels itself
    rows = (({"input_ids": t, "labels": labels}, n) for t, labels, n in token_rows(given, -100))
    loop(turn, GPT2LMHeadModel(config), rows, given)


def textbook(turn: Turn, given: Given) -> None:
    sizes, stack = given.sizes, stack_of(given)
    shape = stack["n_layer"], stack["n_head"], stack["n_embd"]
    model = TextbookGPT(sizes["vocabulary"], sizes["length"], *shape, dropout=sizes["dropout"])
    rows = (({"idx": t, "targets": shifted(labels)}, n) for t, labels, n in token_rows(given, -1))
    loop(turn, model, rows, given, lambda said: said[1])


def shifted(labels: Tensor) -> Tensor:
    """Shift the labels left by one position; the last becomes -1."""
    targets = labels.roll(-1, 1)
    targets[:, -1] = -1
    return targets


def stack_of(given: Given) -> dict[str, int]:
    """The sizes of zoo's model as transformers' settings."""
    settings = load_settings(given.sizes["model"], [parse_set(text) for text in given.sizes.get("shape", [])])
    assert settings.decoder is not None
    stack = settings.decoder.settings
    return {"n_layer": stack.n_layers, "n_head": stack.n_heads, "n_embd": stack.d_model, "n_inner": stack.d_ff}
