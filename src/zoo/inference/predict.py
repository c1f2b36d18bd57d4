"""What a checkpoint says about texts that someone typed, or pictures: a predictor for each objective."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from zoo.data.ids import Ids
from zoo.inference.loaded import Loaded
from zoo.inference.typed import CHUNK, as_inputs, picture_inputs, source_inputs, typed_examples
from zoo.models.generation.generate import generate
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import GenerateSettings
from zoo.registry import Slot

Texts = Sequence[str]
TOP = 5  # tokens that are shown for a masked place


class Prediction(NamedTuple):
    """An input, what the model makes of it, and how sure it is."""

    input: Any
    output: Any
    scores: Any


class Predictor(ABC):
    """Uses a model for what an objective trained it to do.

    Class attributes:
        pairs: whether it takes a second text.
    """

    pairs: ClassVar[bool] = False

    @abstractmethod
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        """A prediction for each text; a model that reads pictures is given the paths of their files."""


predictors: Slot[Predictor] = Slot("predictor")


def predict(loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings) -> list[Prediction]:
    """What the checkpoint's first objective trained it for, done to each text.

    Args:
        pairs: second texts, for models of pairs.
        settings: how text is generated, where it is.

    Raises:
        ValueError: a text that does not fit, or second texts for a model that reads one.
    """
    predictor = predictors.build(loaded.purpose)
    if pairs is not None and not predictor.pairs:
        raise ValueError(
            f"--pair: this checkpoint was trained for {loaded.purpose}, which reads one text; leave it out"
        )
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"--pair: {len(pairs)} second texts for {len(texts)} first ones; give one for each")
    found: list[Prediction] = []
    for start in range(0, len(texts), CHUNK):
        chunk = slice(start, start + CHUNK)
        found += predictor.predict(loaded, texts[chunk], None if pairs is None else pairs[chunk], settings)
    return found


@predictors.register("causal_lm")
class Continue(Predictor):
    """Writes a text on; the output is the text with its continuation."""

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        prompts = [loaded.tokenizer.begin(text) for text in texts]
        written = generate(loaded.model, prompts, settings, loaded.tokenizer.roles.end)
        decoded = [loaded.tokenizer.decode([*p, *g.tokens]) for p, g in zip(prompts, written, strict=True)]
        return [Prediction(t, d, g.score) for t, d, g in zip(texts, decoded, written, strict=True)]


@predictors.register("translation")
class Translate(Predictor):
    """Writes the target of a source."""

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        written = translate(loaded, loaded.tokenizer.encode(texts), settings)
        return [Prediction(t, loaded.tokenizer.decode(g.tokens), g.score) for t, g in zip(texts, written, strict=True)]


def translate(loaded: Loaded, sources: Sequence[Ids], settings: GenerateSettings) -> list[Generated]:
    """What the model writes for each source.

    Raises:
        ValueError: a source is too long for the model.
    """
    return write(loaded, *source_inputs(loaded, sources), settings)


def write(loaded: Loaded, source: Tensor, documents: Tensor, settings: GenerateSettings) -> list[Generated]:
    """What the model writes for each row of sources, texts or pictures."""
    roles = loaded.tokenizer.roles
    return generate(loaded.model, [[roles.id("start")]] * len(source), settings, roles.end, source, documents)


@predictors.register("captioning")
class Caption(Predictor):
    """Writes a text about a picture, given its file."""

    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        written = write(loaded, *picture_inputs(loaded, texts), settings)
        return [Prediction(t, loaded.tokenizer.decode(g.tokens), g.score) for t, g in zip(texts, written, strict=True)]


@predictors.register("classification")
class Classify(Predictor):
    """Names the likeliest class of a text, a pair or a picture; scores are the probabilities of all classes."""

    pairs = True

    @torch.no_grad()
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        known = loaded.task.columns  # empty: an imported model's, which has seen what nobody knows here
        if "pair" in known and pairs is None:
            raise ValueError("--pair: this checkpoint classifies pairs; give the second text")
        if known and "pair" not in known and pairs is not None:
            what = "texts" if loaded.stream.image_size is None else "pictures"
            raise ValueError(f"--pair: this checkpoint classifies single {what}; leave it out")
        if loaded.stream.image_size is None:
            encoded = None if pairs is None else loaded.tokenizer.encode(pairs)
            seen = as_inputs(loaded, typed_examples(loaded, loaded.tokenizer.encode(texts), encoded))
        else:
            seen = {"tokens": picture_inputs(loaded, texts)[0]}
        logits = loaded.model(**seen).heads["classification"]
        names = loaded.task.labels or [str(i) for i in range(logits.shape[-1])]
        inputs = list(texts) if pairs is None else [list(pair) for pair in zip(texts, pairs, strict=True)]
        shares = logits.float().softmax(-1).tolist()
        return [
            Prediction(given, names[share.index(max(share))], dict(zip(names, share, strict=True)))
            for given, share in zip(inputs, shares, strict=True)
        ]


@predictors.register("masked_lm")
class FillMasks(Predictor):
    """Fills masked places; scores are the likeliest tokens of each and their probabilities."""

    @torch.no_grad()
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        mask = loaded.tokenizer.roles.id("mask")
        encoded = [loaded.tokenizer.encode_with_roles(text) for text in texts]
        for text, ids in zip(texts, encoded, strict=True):
            if mask not in ids:
                spelling = loaded.tokenizer.spell(mask)
                raise ValueError(f"there is nothing to fill in {text!r}: write {spelling} where a word is missing")
        inputs = as_inputs(loaded, typed_examples(loaded, encoded, None))
        places = inputs["tokens"].eq(mask).flatten().nonzero().squeeze(1)
        logits = loaded.model(**inputs, places={"masked_lm": places}).heads["masked_lm"]
        best = logits.float().softmax(-1).topk(min(TOP, logits.shape[-1]))
        rows = (places // inputs["tokens"].shape[1]).tolist()
        found = []
        for row, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            mine = [i for i, r in enumerate(rows) if r == row]
            filled = ids.copy()
            filled[ids == mask] = best.indices[mine, 0].cpu().numpy()
            scores = [self.name(loaded, best.indices[i].tolist(), best.values[i].tolist()) for i in mine]
            found.append(Prediction(text, loaded.tokenizer.decode(filled), scores))
        return found

    def name(self, loaded: Loaded, ids: list[int], shares: list[float]) -> dict[str, float]:
        return {loaded.tokenizer.spell(i): share for i, share in zip(ids, shares, strict=True)}


@predictors.register("next_sentence")
class JudgePair(Predictor):
    """Says whether the second text follows the first."""

    pairs = True

    @torch.no_grad()
    def predict(
        self, loaded: Loaded, texts: Texts, pairs: Texts | None, settings: GenerateSettings
    ) -> list[Prediction]:
        if pairs is None:
            raise ValueError("--pair: next_sentence compares two texts: give the second one")
        examples = typed_examples(loaded, loaded.tokenizer.encode(texts), loaded.tokenizer.encode(pairs))
        logits = loaded.model(**as_inputs(loaded, examples)).heads["next_sentence"]
        found = []
        for text, pair, (follows, other) in zip(texts, pairs, logits.float().softmax(-1).tolist(), strict=True):
            output = "is next" if follows >= other else "is not next"
            found.append(Prediction([text, pair], output, {"is next": follows, "is not next": other}))
        return found
