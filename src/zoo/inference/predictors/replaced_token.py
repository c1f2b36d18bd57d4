"""Tells which tokens of a text look replaced."""

from zoo.data.tokenizers.token_spans import encode_with_spans
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.model_inputs import build_examples, collate_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors
from zoo.inference.spans import excerpt

REPLACED = "replaced"


@predictors.register("replaced_token")
class ReplacedTokens(Predictor):
    """Tells which tokens of a text look replaced: a list of {tag, text, start, end}, the characters from start to end.

    Scores are the probabilities that these were replaced. Masks are filled by the generator, if there is one.
    """

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        roles = loaded.tokenizer.roles
        if "masked_lm" not in loaded.model.heads or roles.id("mask") not in loaded.tokenizer.encode_with_roles(text):
            return None
        return f"{text!r} has masked tokens, and whether those were replaced cannot be told"

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        placed = encode_with_spans(loaded.tokenizer, inputs.texts)
        examples = build_examples(loaded, [tokens.ids for tokens in placed], None)
        shares = loaded.run(**collate_inputs(loaded, examples)).scores["replaced_token"].exact().sigmoid().cpu().numpy()
        refuse_not_finite([float(shares.sum())])  # NaN is not above 0.5, so nothing would look replaced
        found = []
        for text, tokens, example, share in zip(inputs.texts, placed, examples, shares[..., 0], strict=True):
            own = share[: len(example.tokens)][example.is_text]
            look = zip(tokens.begins.tolist(), tokens.ends.tolist(), own.tolist(), strict=True)
            spans = [(start, end, score) for start, end, score in look if score > 0.5]
            output = [{"tag": REPLACED, **excerpt(text, start, end)} for start, end, _ in spans]
            found.append(Prediction(text, output, [score for *_, score in spans]))
        return found
