"""Predict tokens that were hidden, from both sides."""

import math

import numpy as np

from zoo.data.ids import Ids, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.randomness import Randomness
from zoo.objectives.objective import Objective, objectives


@objectives.register("masked_lm")
class MaskedLM(Objective):
    """log p(x_i | the text with some tokens masked), over the masked i.

    Of the chosen places 80 % become the mask token, 10 % a random token (never a role's), the others stay as they are.
    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 1, and appendix A.1.

    Args:
        label_smoothing: the share of probability that is spread evenly over the vocabulary.
        share: how much of a document's text is chosen; at least one place.
        whole_word: choose all tokens of a word or none. Words are taken in random order as long as they fit in the
            number of places, so a document whose words are all longer than that number has none.
        masked: how many of the chosen places become the mask token.
        random: how many of them become a random token.
    """

    head = "masked_lm"
    causal = False
    why = "a masked token is predicted from both sides, but a decoder sees only the left"
    roles = ("mask",)
    metrics = ("perplexity", "accuracy")

    def __init__(
        self,
        *,
        weight: float = 1.0,
        label_smoothing: float = 0.0,
        share: float = 0.15,
        whole_word: bool = False,
        masked: float = 0.8,
        random: float = 0.1,
    ) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)
        if not 0 < share <= 1:
            raise ValueError(f"objective masked_lm: share must be above 0 and at most 1, got {share}")
        if min(masked, random) < 0 or masked + random > 1:
            raise ValueError(
                "objective masked_lm: masked and random must be at least 0 and at most 1 together, "
                f"got {masked} and {random}"
            )
        self.share, self.masked, self.random = share, masked, random
        self.whole_word = whole_word

    def scored(self, plan: ExamplePlan) -> int:
        return self.chosen(sum(piece.length for piece in plan.pieces))

    def chosen(self, ordinary: int) -> int:
        """How many of a document's ordinary places are predicted."""
        return min(ordinary, max(1, round(self.share * ordinary)))

    def capacity(self, length: int) -> int | None:
        # a tenth more than the share: rounding up adds places in rows of many short documents
        return min(length, math.ceil(1.1 * self.share * length))

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        ordinary = np.flatnonzero(example.ordinary)
        count, generator = self.chosen(len(ordinary)), randomness.generator
        if self.whole_word:
            places = choose_words(words(example.tokens, ordinary, roles), count, generator)
        else:
            places = np.sort(generator.permutation(ordinary)[:count])
        example.places[self.head] = places
        example.targets[self.head] = example.tokens[places]
        example.tokens[places] = self.hide(example.tokens[places], generator, roles)

    def hide(self, tokens: Ids, generator: np.random.Generator, roles: Roles) -> Ids:
        """Tokens of which shares became the mask token, or random text tokens, each place by a draw of its own."""
        dice = generator.random(len(tokens))
        random = roles.text[generator.integers(len(roles.text), size=len(tokens))]
        drawn = np.where(dice < self.masked + self.random, random, tokens)
        return np.where(dice < self.masked, roles.id("mask"), drawn).astype(np.int64)


def words(tokens: Ids, ordinary: Ids, roles: Roles) -> list[Ids]:
    """The ordinary places of each word: a token that continues a word belongs to the place just before it."""
    if roles.continues is None:
        raise ValueError(
            "objective masked_lm: whole_word needs a tokenizer that knows where words begin; set whole_word: false"
        )
    apart = np.diff(ordinary) > 1
    begins = np.flatnonzero(~roles.continues[tokens[ordinary]][1:] | apart) + 1
    return np.split(ordinary, begins)


def choose_words(groups: list[Ids], count: int, generator: np.random.Generator) -> Ids:
    """Places of whole words, in random order as long as they fit in `count` places."""
    taken: list[Ids] = []
    for index in generator.permutation(len(groups)):
        if len(groups[index]) <= count:
            taken.append(groups[index])
            count -= len(groups[index])
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *taken]))
