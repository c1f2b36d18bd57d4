"""Writes the rest of a text."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write


@predictors.register("prefix_lm")
class TextCompletion(Predictor):
    """Writes the rest of a text; the output is the whole text."""

    writes = True

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        encoded = loaded.tokenizer.encode(asked.texts)
        found = write(loaded, *source_inputs(loaded, encoded), asked.writing)
        triples = zip(asked.texts, encoded, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode([*ids, *new.tokens]), new.score) for text, ids, new in triples]
