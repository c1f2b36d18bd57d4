"""Tells whether one text follows another."""

from collections.abc import Sequence

import torch

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Texts, predictors
from zoo.inference.typed import as_inputs, typed_examples
from zoo.models.generation.settings import GenerateSettings

NAMES = ("is next", "is not next")  # of labels 0 and 1


@predictors.register("next_sentence")
class NextOrNot(Predictor):
    """Tells whether the second text follows the first; scores are the probabilities of both answers."""

    pairs = True

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        return "--pair: next_sentence compares two texts: give the second one" if pair is None else None

    @torch.no_grad()
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings, numbers: Sequence[int]
    ) -> list[Prediction]:
        assert pairs is not None
        examples = typed_examples(loaded, loaded.tokenizer.encode(texts), loaded.tokenizer.encode(pairs))
        logits = loaded.model(**as_inputs(loaded, examples)).heads["next_sentence"]
        shares = [dict(zip(NAMES, share, strict=True)) for share in logits.float().softmax(-1).tolist()]
        return [
            Prediction([text, pair], max(share, key=lambda name: share[name]), share)
            for text, pair, share in zip(texts, pairs, shares, strict=True)
        ]
