"""Writes the target of a source."""

from collections.abc import Sequence

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Texts, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write
from zoo.models.generation.settings import GenerateSettings


@predictors.register("translation")
class TextTranslation(Predictor):
    """Writes the target of a source."""

    writes = True

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings, numbers: Sequence[int]
    ) -> list[Prediction]:
        written = write(loaded, *source_inputs(loaded, loaded.tokenizer.encode(texts)), settings, numbers)
        return [Prediction(t, loaded.tokenizer.decode(g.tokens), g.score) for t, g in zip(texts, written, strict=True)]
