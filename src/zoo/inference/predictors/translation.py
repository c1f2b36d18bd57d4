"""Writes the target of a source."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write


@predictors.register("translation")
class TextTranslation(Predictor):
    """Writes the target of a source."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        source = source_inputs(loaded, loaded.tokenizer.encode(asked.texts))
        pairs = zip(asked.texts, write(loaded, *source, asked.writing), strict=True)
        return [Prediction(text, loaded.tokenizer.decode(new.tokens), new.score) for text, new in pairs]
