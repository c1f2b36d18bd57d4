"""Objective `masked_lm`: predict masked tokens from both sides."""

import math

import numpy as np

from zoo.data.ids import Ids, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.randomness import Randomness
from zoo.objectives.objective import Objective, objectives


@objectives.register("masked_lm")
class MaskedLM(Objective):
    """log p(x_i | the text with some tokens masked), over the masked i.

    Of the chosen tokens 80 % become the mask token, 10 % a random token (never a special one), the others stay.
    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 1, and appendix A.1.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
        share: fraction of a document's tokens that is chosen; at least one token.
        whole_word: choose all tokens of a word or none. Words are taken in random order while they fit in the number
            of tokens to choose, so a document whose words all have more tokens than that has none.
        masked: fraction of the chosen tokens that become the mask token.
        random: fraction of the chosen tokens that become a random token.
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
        return self.count_chosen(sum(piece.length for piece in plan.pieces))

    def count_chosen(self, ordinary: int) -> int:
        """Number of tokens that are predicted in a document with `ordinary` tokens of text."""
        return min(ordinary, max(1, round(self.share * ordinary)))

    def capacity(self, length: int) -> int | None:
        # a tenth more than the share, since rounding up chooses more in rows of many short documents
        return min(length, math.ceil(1.1 * self.share * length))

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        ordinary = np.flatnonzero(example.is_text)
        count, generator = self.count_chosen(len(ordinary)), randomness.generator
        if self.whole_word:
            places = choose_words(words(example.tokens, ordinary, roles), count, generator)
        else:
            places = np.sort(generator.permutation(ordinary)[:count])
        example.places[self.head] = places
        example.targets[self.head] = example.tokens[places]
        example.tokens[places] = self.hide(example.tokens[places], generator, roles)

    def hide(self, tokens: Ids, generator: np.random.Generator, roles: Roles) -> Ids:
        """Replace tokens by the mask token or by random tokens, drawn independently per position."""
        dice = generator.random(len(tokens))  # one draw per position decides: mask, random token, or unchanged
        random = roles.ordinary_ids[generator.integers(len(roles.ordinary_ids), size=len(tokens))]
        drawn = np.where(dice < self.masked + self.random, random, tokens)
        return np.where(dice < self.masked, roles.id("mask"), drawn).astype(np.int64)


def words(tokens: Ids, ordinary: Ids, roles: Roles) -> list[Ids]:
    """Group text positions by word: a token that continues a word joins the position just before it.

    Raises:
        ValueError: the tokenizer does not know which tokens continue a word.
    """
    if roles.continues is None:
        raise ValueError(
            "objective masked_lm: whole_word needs a tokenizer that knows where words begin; set whole_word: false"
        )
    apart = np.diff(ordinary) > 1  # a special token lies between, as between the texts of a pair
    begins = np.flatnonzero(~roles.continues[tokens[ordinary]][1:] | apart) + 1
    return np.split(ordinary, begins)


def choose_words(groups: list[Ids], count: int, generator: np.random.Generator) -> Ids:
    """Choose whole words in random order while they fit in `count` tokens; return their positions, sorted."""
    taken: list[Ids] = []
    for index in generator.permutation(len(groups)):
        if len(groups[index]) <= count:
            taken.append(groups[index])
            count -= len(groups[index])
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *taken]))
