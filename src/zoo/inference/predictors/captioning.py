"""Writes a caption for an image."""

from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import image_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.inference.text_generation import generate_from_source


@predictors.register("captioning")
class PictureCaption(Predictor):
    """Writes a caption for an image, given its path."""

    writes = True

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        found = generate_from_source(loaded, *image_inputs(loaded, inputs.texts), inputs.generation)
        pairs = zip(inputs.texts, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode(new.tokens), new.score) for text, new in pairs]
