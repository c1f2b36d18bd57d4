"""Row `translation`: a training step of the 2017 Transformer on Multi30k; counts tokens of both languages.

Per update, zoo packs about as many pairs as the peer pads.
"""

from collections.abc import Iterator

import numpy as np
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from rows.contents import batches, examples_of, labels_of, padded, rows_for, start, tokens_of
from rows.given import Given
from rows.training import loop, zoo_training
from rows.turns import Turn
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.settings import load_settings

TASK, SMALL, TOKENIZER = "multi30k-en-de", "transformer-nano", "translation-tokenizer"


def prepare(turn: Turn, given: Given) -> None:
    start(given, TOKENIZER, SMALL, TASK)


def zoo(turn: Turn, given: Given) -> None:
    model, run = given.sizes["model"], given.made / TOKENIZER
    rows = rows_for(examples_of(given, run, model, TASK, [], pack=True), given.sizes["pairs"])
    zoo_training(turn, given, model, TASK, [f"training.batch={rows}", f"task.tokenizer.from={run.absolute()}"])


def hf(turn: Turn, given: Given) -> None:
    tokenizer, settings = load_checkpoint(given.made / TOKENIZER).tokenizer, load_settings(given.sizes["model"])
    assert settings.encoder is not None
    stack = settings.encoder.settings
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in zip(
            ("layers", "attention_heads", "ffn_dim"), (stack.n_layers, stack.n_heads, stack.d_ff), strict=True
        )
    }
    special = {"pad_token_id": tokenizer.roles.pad, "eos_token_id": tokenizer.roles.end}
    config = MarianConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=stack.d_model,
        max_position_embeddings=settings.max_length,
        scale_embedding=True,
        activation_function="relu",
        decoder_start_token_id=tokenizer.roles.start,
        **sides,
        **special,
    )
    loop(turn, MarianMTModel(config), pairs(given), given)


def pairs(given: Given) -> Iterator[tuple[dict[str, Tensor], int]]:
    """The peer's batches: one pair per row, each language padded to its longest."""
    examples = examples_of(given, given.made / TOKENIZER, given.sizes["model"], TASK, [], pack=False)
    pad = examples.roles.id("pad")
    for rows in batches(examples, given.sizes["pairs"]):
        found = [example for row in rows for example in row]
        sources = [example.source for example in found if example.source is not None]
        inputs = {"input_ids": padded(sources, pad, given.device)}
        inputs["attention_mask"] = padded([np.ones_like(source) for source in sources], 0, given.device)
        inputs["decoder_input_ids"] = padded([e.tokens for e in found], pad, given.device)
        yield (
            {**inputs, "labels": padded([labels_of(e, "language") for e in found], -100, given.device)},
            tokens_of(rows),
        )
