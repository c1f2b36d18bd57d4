"""Continues a text."""

import re
from typing import Any

import numpy as np

from zoo.data.columns.messages import read_prompt_turns
from zoo.data.ids import MESSAGES, PROMPT
from zoo.examples.example import Example
from zoo.examples.forms.chat import lay_turns
from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import refuse_too_long
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.inference.text_generation import continue_prompts
from zoo.models.generation.generate import generating_decoder
from zoo.strict_json import parse_json

BEGINNING = re.compile(rf'\s*{{\s*"{MESSAGES}"\s*:')  # of a conversation, whole or not


@predictors.register("causal_lm")
class TextContinuation(Predictor):
    """Continues a text; the output is the text with its continuation.

    A model that was trained on prompts or conversations gives the answer alone. One that was trained on conversations
    also takes a conversation `{"messages": [{role, content}, …]}`.
    """

    writes = True

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        if trained_on_conversations(loaded) or not loaded.tokenizer.chat_templates or parse_conversation(text) is None:
            return None
        return (
            "this is a conversation, and zoo never runs the chat template of an imported checkpoint; "
            "to use conversations, fine-tune it on a column 'messages'"
        )

    def example(self, loaded: Loaded, text: str, pair: str | None) -> Example:
        ids = np.array(prompt_of(loaded, text), dtype=np.int64)
        refuse_too_long(len(ids), loaded.model.stream.max_length, "TEXT")
        return Example(ids, is_text=np.ones(len(ids), dtype=np.bool_), next_tokens=np.full(len(ids), -1), summary=-1)

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        prompts = [prompt_of(loaded, text) for text in inputs.texts]
        generating_decoder(loaded.model, prompts)
        found = continue_prompts(loaded, prompts, inputs.generation)
        if not (trained_on_conversations(loaded) or PROMPT in loaded.task.columns):
            whole = [[*prompt, *new.tokens] for prompt, new in zip(prompts, found, strict=True)]
            triples = zip(inputs.texts, whole, found, strict=True)
            return [Prediction(text, loaded.tokenizer.decode(ids), new.score) for text, ids, new in triples]
        given = [(trained_on_conversations(loaded) and read_conversation(text)) or text for text in inputs.texts]
        pairs = zip(given, found, strict=True)
        return [Prediction(one, loaded.tokenizer.decode(new.tokens), new.score) for one, new in pairs]


def trained_on_conversations(loaded: Loaded) -> bool:
    """Whether the model was trained on conversations."""
    return MESSAGES in loaded.task.columns


def prompt_of(loaded: Loaded, text: str) -> list[int]:
    """The token ids that the model continues: the text, or a conversation up to where the assistant answers.

    A model that was trained on conversations reads a plain text as the user's first turn.

    Raises:
        ValueError: the conversation cannot be answered, such as one that ends with the assistant's turn.
    """
    if not trained_on_conversations(loaded):
        return loaded.tokenizer.encode_prompt(text)
    conversation = read_conversation(text)
    turns = [text.strip()] if conversation is None else read_prompt_turns(conversation[MESSAGES])
    return [int(token) for token in lay_turns(loaded.tokenizer.encode(turns), loaded.tokenizer.roles)[0]]


def read_conversation(text: str) -> dict[str, Any] | None:
    """Read a text as a conversation, in the JSON of a data row; None: it is plain text.

    Raises:
        ValueError: it begins as a conversation and is not JSON.
    """
    if not BEGINNING.match(text):
        return parse_conversation(text)
    try:
        return parse_json(text, "conversation")
    except ValueError as error:
        raise ValueError(f"{error}; to ask about such a text, write it as the content of a turn") from None


def parse_conversation(text: str) -> dict[str, Any] | None:
    """The conversation that a text is in JSON; None if it is none."""
    try:
        found = parse_json(text, "conversation")
    except ValueError:
        return None
    return found if MESSAGES in found else None
