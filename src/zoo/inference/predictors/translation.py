"""Writes the target of a source."""

from collections.abc import Sequence

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write


@predictors.register("translation")
class TextTranslation(Predictor):
    """Writes the target of a source; where the source has `<extra_id_0>` … of its tokenizer, it fills them in."""

    writes = True

    def reads_roles(self, tokenizer: Tokenizer) -> bool:
        # an imported T5 is a translator, whatever it was trained for: a sentinel in a text asks for what is missing
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
    """What was written, or the source with its sentinels replaced by it."""
    return written if set(source).isdisjoint(sentinels) else fill(source, written, sentinels)


def fill(text: Sequence[int], written: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """A text with each sentinel replaced by what was written behind that sentinel; what has none is left out."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []  # what is written before any sentinel stands nowhere
    for token in written:
        if token in sentinels:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return [new for token in text for new in (spans.get(token, []) if token in sentinels else [token])]
