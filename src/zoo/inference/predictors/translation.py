"""Writes the target of a source."""

from collections.abc import Sequence

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write


@predictors.register("translation")
class TextTranslation(Predictor):
    """Writes the target of a source; if the source has the tokenizer's sentinels (`<extra_id_0>` …), fills them in."""

    writes = True

    def reads_roles(self, tokenizer: Tokenizer) -> bool:
        # an imported T5 gets this predictor whatever it was trained for; a sentinel in a text marks what to fill in
        return bool(tokenizer.roles.sentinels)

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        encoded = self.encode(loaded, asked.texts)
        found = write(loaded, *source_inputs(loaded, encoded), asked.writing)
        sentinels, triples = loaded.tokenizer.roles.sentinels, zip(asked.texts, encoded, found, strict=True)
        return [
            Prediction(text, loaded.tokenizer.decode(answer(ids.tolist(), new.tokens, sentinels)), new.score)
            for text, ids, new in triples
        ]


def answer(source: Sequence[int], written: Sequence[int], sentinels: Sequence[int]) -> Sequence[int]:
    """The generated tokens, or, if the source has sentinels, the source with these filled in from them."""
    return written if set(source).isdisjoint(sentinels) else fill(source, written, sentinels)


def fill(text: Sequence[int], written: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """Replace each sentinel of a text by the tokens written after it; drop sentinels that were not written."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []  # tokens before the first sentinel are dropped
    for token in written:
        if token in sentinels:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return [new for token in text for new in (spans.get(token, []) if token in sentinels else [token])]
