"""Continues a text."""

from collections.abc import Sequence

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Texts, predictors
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings


@predictors.register("causal_lm")
class TextContinuation(Predictor):
    """Continues a text; the output is the text with its continuation."""

    writes = True

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings, numbers: Sequence[int]
    ) -> list[Prediction]:
        prompts = [loaded.tokenizer.begin(text) for text in texts]
        written = generate(loaded.model, prompts, settings, loaded.tokenizer.roles.end, numbers=numbers)
        decoded = [loaded.tokenizer.decode([*p, *g.tokens]) for p, g in zip(prompts, written, strict=True)]
        return [Prediction(t, d, g.score) for t, d, g in zip(texts, decoded, written, strict=True)]
