"""Continues a text."""

from zoo.data.ids import MESSAGES
from zoo.examples.forms.chat import lay_turns
from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.writing import write_on
from zoo.models.generation.generate import writer


@predictors.register("causal_lm")
class TextContinuation(Predictor):
    """Continues a text, and gives it with its continuation; or answers it, where it was trained on conversations."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        chats = MESSAGES in loaded.task.columns
        prompts = [asked_in_chat(loaded, text) if chats else loaded.tokenizer.begin(text) for text in asked.texts]
        writer(loaded.model, prompts)
        found = write_on(loaded, prompts, asked.settings, asked.numbers)
        shown = [[] if chats else prompt for prompt in prompts]
        triples = zip(asked.texts, shown, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode([*p, *new.tokens]), new.score) for text, p, new in triples]


def asked_in_chat(loaded: Loaded, text: str) -> list[int]:
    """A text as the first turn of a conversation, up to where the assistant answers."""
    (ids,) = loaded.tokenizer.encode([text.strip()])
    return [int(token) for token in lay_turns([ids], loaded.tokenizer.roles)[0]]
