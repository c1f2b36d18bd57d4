"""Tells whether one text follows another."""

from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import build_examples, score_texts
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.objectives.label_losses import OneClass

NAMES = ("is next", "is not next")  # of labels 0 and 1


@predictors.register("next_sentence")
class NextOrNot(Predictor):
    """Tells whether the second text follows the first; scores are the probabilities of both answers."""

    pairs = True

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        return "next_sentence compares two texts: give the second one" if pair is None else None

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        assert inputs.pairs is not None
        texts, pairs = (loaded.tokenizer.encode(given) for given in (inputs.texts, inputs.pairs))
        examples = build_examples(loaded, texts, pairs)
        answers = OneClass(NAMES).named_predictions(score_texts(loaded, examples, "next_sentence").exact())
        return [Prediction(given, *answer) for given, answer in zip(inputs.inputs, answers, strict=True)]
