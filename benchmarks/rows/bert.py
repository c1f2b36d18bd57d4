"""Row `bert`: a training step of BERT, masked words and next sentence, on Wikipedia with the lengths that it has.

zoo packs examples into rows; the peer pads each to the longest of its batch, as its data collator does. Both read about
as many examples for each update, and mask the same share of their tokens.
"""

from collections.abc import Iterator

from torch import Tensor
from transformers import BertConfig, BertForPreTraining

from rows.contents import batches, examples_of, labels_at, rows_for, start, trimmed, wikipedia
from rows.given import Given
from rows.training import loop, zoo_training
from rows.turns import Turn
from zoo.models.settings import ModelSettings, load_settings

TASK, SMALL, TOKENIZER = "wikipedia-mlm", "bert-nano", "bert-tokenizer"


def prepare(turn: Turn, given: Given) -> None:
    start(given, TOKENIZER, SMALL, wikipedia(given, TASK))


def zoo(turn: Turn, given: Given) -> None:
    model, task, run = given.sizes["model"], wikipedia(given, TASK), given.made / TOKENIZER
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    rows = rows_for(examples_of(given, run, model, task, sets, pack=True), given.sizes["examples"])
    zoo_training(turn, given, model, task, [*sets, f"training.batch={rows}", f"task.tokenizer.from={run.absolute()}"])


def hf(turn: Turn, given: Given) -> None:
    config = BertConfig(max_position_embeddings=given.sizes["length"], **sizes_of(load_settings(given.sizes["model"])))
    config.vocab_size = given.sizes["vocabulary"]
    loop(turn, BertForPreTraining(config), padded(given), given.device)


def padded(given: Given) -> Iterator[tuple[dict[str, Tensor], int]]:
    """What the peer reads: an example a row."""
    run, task = given.made / TOKENIZER, wikipedia(given, TASK)
    sets = [f"vocab_size={given.sizes['vocabulary']}"]
    examples = examples_of(given, run, given.sizes["model"], task, sets, pack=False)
    for batch in batches(examples, given.sizes["examples"], given.device):
        tokens, documents, segments = (batch.inputs[name] for name in ("tokens", "documents", "segments"))
        assert isinstance(tokens, Tensor) and isinstance(documents, Tensor) and isinstance(segments, Tensor)
        longest = trimmed(documents)
        inputs = {"input_ids": tokens, "attention_mask": (documents > 0).long(), "token_type_ids": segments}
        inputs["labels"] = labels_at(batch, "masked_lm", "masked_lm")
        inputs = {name: value[:, :longest].contiguous() for name, value in inputs.items()}
        follows = batch.targets["next_sentence"]
        yield {**inputs, "next_sentence_label": follows[follows >= 0]}, batch.tokens


def sizes_of(settings: ModelSettings) -> dict[str, int]:
    """The sizes of zoo's model, in transformers' words."""
    assert settings.encoder is not None
    stack = settings.encoder.settings
    named = {"hidden_size": stack.d_model, "num_hidden_layers": stack.n_layers}
    return {**named, "num_attention_heads": stack.n_heads, "intermediate_size": stack.d_ff}
