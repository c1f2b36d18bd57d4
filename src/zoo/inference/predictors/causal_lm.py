"""Continues a text."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.writing import write_on
from zoo.models.generation.generate import writer


@predictors.register("causal_lm")
class TextContinuation(Predictor):
    """Continues a text; the output is the text with its continuation."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        prompts = [loaded.tokenizer.begin(text) for text in asked.texts]
        writer(loaded.model, prompts)
        found = write_on(loaded, prompts, asked.settings, asked.numbers)
        triples = zip(asked.texts, prompts, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode([*p, *new.tokens]), new.score) for text, p, new in triples]
