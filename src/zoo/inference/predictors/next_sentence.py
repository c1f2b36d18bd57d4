"""Tells whether one text follows another."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, likeliest, predictors
from zoo.inference.typed import as_inputs, summary_places, typed_examples

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
        inputs = as_inputs(loaded, examples)
        said = loaded.run(**inputs, places={"next_sentence": summary_places(loaded, examples)})
        both = [list(pair) for pair in zip(asked.texts, asked.pairs, strict=True)]
        return likeliest(both, NAMES, said.scores["next_sentence"].exact())
