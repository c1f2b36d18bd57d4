"""Fills in the missing spans of a text."""

from zoo.inference.loaded import Loaded
from zoo.inference.predictors.predictor import predictors
from zoo.inference.predictors.translation import TextTranslation


@predictors.register("span_corruption")
class SpanFilling(TextTranslation):
    """Fills in a text where it has `<extra_id_0>`, `<extra_id_1>` …; the output is the whole text."""

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        sentinels = loaded.tokenizer.roles.sentinels
        if set(sentinels) & set(loaded.tokenizer.encode_with_roles(text).tolist()):
            return None
        spelled = ", ".join(map(loaded.tokenizer.spell, sentinels[:2]))
        return f"there is nothing to fill in {text!r}: write {spelled} … where words are missing"
