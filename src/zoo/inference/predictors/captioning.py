"""Writes a caption for an image."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import picture_inputs
from zoo.inference.writing import write


@predictors.register("captioning")
class PictureCaption(Predictor):
    """Writes a caption for an image, given its path."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        found = write(loaded, *picture_inputs(loaded, asked.texts), asked.writing)
        pairs = zip(asked.texts, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode(new.tokens), new.score) for text, new in pairs]
