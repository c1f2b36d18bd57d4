"""Fills masked positions."""

import numpy as np
import torch

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.template import roles_of
from zoo.inference.loaded import Loaded
from zoo.inference.model_inputs import build_examples, collate_inputs, template_of
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, predictors

TOP = 5  # most likely tokens that are returned per masked position


@predictors.register("masked_lm")
class MaskFilling(Predictor):
    """Fills masked positions; scores are the most likely tokens of each and their probabilities."""

    def reads_special_tokens(self, tokenizer: Tokenizer) -> bool:
        return True

    def obstacle(self, loaded: Loaded, text: str, pair: str | None) -> str | None:
        mask = loaded.tokenizer.roles.id("mask")
        around = [role for role in roles_of(template_of(loaded, 1)) if getattr(loaded.tokenizer.roles, role) == mask]
        if around:
            both = f"{loaded.tokenizer.spell(mask)} is the tokenizer's token for both 'mask' and '{around[0]}'"
            return f"{both}: masked positions cannot be told apart"
        if mask in loaded.tokenizer.encode_with_roles(text):
            return None
        return f"there is nothing to fill in {text!r}: write {loaded.tokenizer.spell(mask)} where a word is missing"

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        mask = loaded.tokenizer.roles.id("mask")
        encoded = self.encode(loaded, inputs.texts)
        examples = build_examples(loaded, encoded, None)
        read = collate_inputs(loaded, examples)
        length = max(len(example.tokens) for example in examples)
        # found on the CPU: searching on the device would wait for it
        masked = [(row, place) for row, one in enumerate(examples) for place in np.flatnonzero(one.tokens == mask)]
        places = torch.tensor([row * length + place for row, place in masked], device=loaded.model.device)
        logits = loaded.run(**read, places={"masked_lm": places}).scores["masked_lm"].exact()
        best = logits.softmax(-1).topk(min(TOP, logits.shape[-1]))
        likeliest, shares = best.indices.tolist(), best.values.tolist()
        found = []
        for row, (text, ids) in enumerate(zip(inputs.texts, encoded, strict=True)):
            mine = [i for i, (r, _) in enumerate(masked) if r == row]
            filled = ids.copy()
            filled[ids == mask] = [likeliest[i][0] for i in mine]
            scores = [spell(loaded, likeliest[i], shares[i]) for i in mine]
            found.append(Prediction(text, loaded.tokenizer.decode(filled), scores))
        return found


def spell(loaded: Loaded, ids: list[int], shares: list[float]) -> dict[str, float]:
    """The probabilities of tokens, by their spelling in the vocabulary."""
    return {loaded.tokenizer.spell(i): share for i, share in zip(ids, shares, strict=True)}
