"""Writes the target of a source."""

from collections.abc import Sequence

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import source_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.inference.text_generation import generate_from_source


@predictors.register("translation")
class TextTranslation(Predictor):
    """Writes the target of a source; if the source has the tokenizer's sentinels (`<extra_id_0>` …), fills them in."""

    writes = True

    def reads_special_tokens(self, tokenizer: Tokenizer) -> bool:
        # an imported T5 gets this predictor whatever it was trained for; a sentinel in a text marks what to fill in
        return bool(tokenizer.roles.sentinels)

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        encoded = self.encode(loaded, inputs.texts)
        found = generate_from_source(loaded, *source_inputs(loaded, encoded), inputs.generation)
        sentinels, triples = loaded.tokenizer.roles.sentinels, zip(inputs.texts, encoded, found, strict=True)
        return [
            Prediction(text, loaded.tokenizer.decode(filled_source(ids.tolist(), new.tokens, sentinels)), new.score)
            for text, ids, new in triples
        ]


def filled_source(source: Sequence[int], written: Sequence[int], sentinels: Sequence[int]) -> Sequence[int]:
    """The generated tokens, or, if the source has sentinels, the source with these filled in from them."""
    return written if set(source).isdisjoint(sentinels) else fill_sentinels(source, written, sentinels)


def fill_sentinels(text: Sequence[int], written: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """Replace each sentinel of a text by the tokens written after it; drop sentinels that were not written."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []  # tokens before the first sentinel are dropped
    for token in written:
        if token in sentinels:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return [new for token in text for new in (spans.get(token, []) if token in sentinels else [token])]
