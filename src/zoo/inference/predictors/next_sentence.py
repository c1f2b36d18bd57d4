"""Tells whether one text follows another."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import score_texts, typed_examples
from zoo.objectives.label_losses import OneClass

NAMES = ("is next", "is not next")  # of labels 0 and 1


@predictors.register("next_sentence")
class NextOrNot(Predictor):
    """Tells whether the second text follows the first; scores are the probabilities of both answers."""

    pairs = True

    def pair_obstacle(self, loaded: Loaded, pair: str | None) -> str | None:
        return "next_sentence compares two texts: give the second one" if pair is None else None

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        assert asked.pairs is not None
        texts, pairs = (loaded.tokenizer.encode(given) for given in (asked.texts, asked.pairs))
        examples = typed_examples(loaded, texts, pairs)
        answers = OneClass(NAMES).named_predictions(score_texts(loaded, examples, "next_sentence").exact())
        return [Prediction(given, *answer) for given, answer in zip(asked.inputs, answers, strict=True)]
