"""Writes a text about a picture."""

from collections.abc import Sequence

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Texts, predictors
from zoo.inference.typed import picture_inputs
from zoo.inference.writing import write
from zoo.models.generation.settings import GenerateSettings


@predictors.register("captioning")
class PictureCaption(Predictor):
    """Writes a text about a picture, given its file."""

    writes = True

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings, numbers: Sequence[int]
    ) -> list[Prediction]:
        written = write(loaded, *picture_inputs(loaded, texts), settings, numbers)
        return [Prediction(t, loaded.tokenizer.decode(g.tokens), g.score) for t, g in zip(texts, written, strict=True)]
