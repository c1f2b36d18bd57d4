"""Row `bert`: a training step of BERT, masked LM and next sentence, on Wikipedia articles of natural length.

zoo packs examples into rows; the peer pads each to the longest of its batch, as its data collator does. Both read about
the same number of examples per update, and mask the same share of tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, BertForPreTraining

from rows.contents import batches, examples_of, labels_of, padded, rows_for, start, tokens_of, wikipedia
from rows.given import Given
from rows.training import loop, zoo_training
from rows.turns import Turn
from zoo.models.settings import ModelSettings, load_settings

TASK, SMALL, TOKENIZER = "wikipedia-mlm", "bert-nano", "bert-tokenizer"


def prepare(turn: Turn, given: Given) -> None:
    start(given, TOKENIZER, SMALL, wikipedia(given, TASK))


def model_sets(given: Given) -> list[str]:
    return [f"vocab_size={given.sizes['vocabulary']}", f"attention.dropout={given.sizes['attention_dropout']}"]


def zoo(turn: Turn, given: Given) -> None:
    by_backend(turn, given, "auto")


def sdpa(turn: Turn, given: Given) -> None:
    by_backend(turn, given, "sdpa")


def flex(turn: Turn, given: Given) -> None:
    by_backend(turn, given, "flex")


def varlen(turn: Turn, given: Given) -> None:
    by_backend(turn, given, "varlen")


def by_backend(turn: Turn, given: Given, backend: str) -> None:
    """`zoo pretrain` with one attention backend, in a folder of its own."""
    given = replace(given, folder=given.folder / f"backend-{backend}")
    given.folder.mkdir(exist_ok=True)
    model, task, run = given.sizes["model"], wikipedia(given, TASK), given.made / TOKENIZER
    sets = [*model_sets(given), f"training.attention_backend={backend}"]
    rows = rows_for(examples_of(given, run, model, task, sets, pack=True), given.sizes["examples"])
    zoo_training(turn, given, model, task, [*sets, f"training.batch={rows}", f"task.tokenizer.from={run.absolute()}"])


def hf(turn: Turn, given: Given) -> None:
    about = sizes_of(load_settings(given.sizes["model"]))
    config = BertConfig(max_position_embeddings=given.sizes["length"], vocab_size=given.sizes["vocabulary"], **about)
    config.attention_probs_dropout_prob = given.sizes["attention_dropout"]
    loop(turn, BertForPreTraining(config), pairs(given), given)


def pairs(given: Given) -> Iterator[tuple[dict[str, Tensor], int]]:
    """The peer's batches: one example per row, padded to the longest of the batch."""
    run, task = given.made / TOKENIZER, wikipedia(given, TASK)
    examples = examples_of(given, run, given.sizes["model"], task, model_sets(given), pack=False)
    for rows in batches(examples, given.sizes["examples"]):
        found = [example for row in rows for example in row]
        laid = {"input_ids": [e.tokens for e in found], "attention_mask": [np.ones_like(e.tokens) for e in found]}
        laid["token_type_ids"] = [np.zeros_like(e.tokens) if e.segments is None else e.segments for e in found]
        inputs = {name: padded(some, 0, given.device) for name, some in laid.items()}
        inputs["labels"] = padded([labels_of(e, "masked_lm") for e in found], -100, given.device)
        follows = np.concatenate([e.targets["next_sentence"] for e in found])
        yield {**inputs, "next_sentence_label": torch.from_numpy(follows).to(given.device)}, tokens_of(rows)


def sizes_of(settings: ModelSettings) -> dict[str, int]:
    """The sizes of zoo's model as transformers' settings."""
    assert settings.encoder is not None
    stack = settings.encoder.settings
    named = {"hidden_size": stack.d_model, "num_hidden_layers": stack.n_layers}
    return {**named, "num_attention_heads": stack.n_heads, "intermediate_size": stack.d_ff}
