"""Continues a text."""

from zoo.inference.loaded import Loaded, working
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.models.generation.generate import generate, writer


@predictors.register("causal_lm")
class TextContinuation(Predictor):
    """Continues a text; the output is the text with its continuation."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        prompts, end = [loaded.tokenizer.begin(text) for text in asked.texts], loaded.tokenizer.roles.end
        writer(loaded.model, prompts)
        with working():
            found = generate(loaded.model, prompts, asked.settings, end, numbers=asked.numbers)
        triples = zip(asked.texts, prompts, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode([*p, *new.tokens]), new.score) for text, p, new in triples]
