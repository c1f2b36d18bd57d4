"""Writes what is missing from a text."""

from collections.abc import Sequence

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, predictors
from zoo.inference.typed import source_inputs
from zoo.inference.writing import write


@predictors.register("span_corruption")
class SpanFilling(Predictor):
    """Writes what is missing where a text has `<extra_id_0>`, `<extra_id_1>` …; the output is the whole text."""

    writes = True
    spelled = True

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        sentinels = loaded.tokenizer.roles.sentinels
        if set(sentinels) & set(loaded.tokenizer.encode_with_roles(text).tolist()):
            return None
        spelled = ", ".join(map(loaded.tokenizer.spell, sentinels[:2]))
        return f"there is nothing to fill in {text!r}: write {spelled} … where words are missing"

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        encoded = self.encode(loaded, asked.texts)
        found = write(loaded, *source_inputs(loaded, encoded), asked.writing)
        sentinels, triples = loaded.tokenizer.roles.sentinels, zip(asked.texts, encoded, found, strict=True)
        return [
            Prediction(text, loaded.tokenizer.decode(fill(ids.tolist(), new.tokens, sentinels)), new.score)
            for text, ids, new in triples
        ]


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
