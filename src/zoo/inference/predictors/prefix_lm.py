"""Writes the rest of a text."""

from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import source_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.inference.text_generation import generate_from_source


@predictors.register("prefix_lm")
class TextCompletion(Predictor):
    """Writes the rest of a text; the output is the whole text."""

    writes = True

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        encoded = loaded.tokenizer.encode(inputs.texts)
        found = generate_from_source(loaded, *source_inputs(loaded, encoded), inputs.generation)
        triples = zip(inputs.texts, encoded, found, strict=True)
        return [Prediction(text, loaded.tokenizer.decode([*ids, *new.tokens]), new.score) for text, ids, new in triples]
