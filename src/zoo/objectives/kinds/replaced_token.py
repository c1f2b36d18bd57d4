"""Objective `replaced_token`: detect which tokens of a text were replaced by a small generator."""

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.data.ids import Roles
from zoo.examples.example import Example
from zoo.examples.randomness import Randomness
from zoo.models.heads.scores import DRAW_BITS, Scores
from zoo.objectives.label_losses import SeveralClasses
from zoo.objectives.objective import Measured, Objective, Term, Weights, objectives

DETECTION = SeveralClasses()  # used with a single class: binary cross entropy


@objectives.register("replaced_token")
class ReplacedToken(Objective):
    """log p(replaced_i | x) or log p(original_i | x) at every position i of a text with tokens sampled by a generator.

    The generator is trained with it, by `masked_lm`: all chosen tokens are masked, and a sample replaces each mask. A
    sample equal to the original token counts as original. Special tokens are scored, padding is not.

    Source: Clark et al. 2020 (ELECTRA), arXiv:2003.10555, section 2; the weight: appendix A.

    Args:
        label_smoothing: probability mass that is spread evenly over both answers.
    """

    head = "replaced_token"
    causal = False
    why = "a replaced token is detected from both sides, but a decoder sees only the left"
    metrics = ("f1", "accuracy")
    measured_metrics = ("f1", "accuracy")
    selects_best = False  # F1 falls while the model learns, since the generator's guesses get better
    trained_with = {"masked_lm": {"masked": 1.0, "random": 0.0}}
    draws = True

    def __init__(self, *, weight: float = 50.0, label_smoothing: float = 0.0) -> None:
        super().__init__(weight=weight, label_smoothing=label_smoothing)

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        # `final_targets` compares them with what the generator put there
        example.targets[self.head] = example.tokens.copy()
        example.draws = randomness.generator.integers(2**DRAW_BITS, size=len(example.tokens))

    def final_targets(
        self, targets: Int[Tensor, "batch length"], read: Int[Tensor, "batch length"] | None
    ) -> Int[Tensor, "batch length"]:
        assert read is not None, "a model that is trained for it has a generator"
        return torch.where(targets >= 0, (read != targets).long(), -1)

    def term(self, scores: Scores, targets: Int[Tensor, "*places"], weights: Weights | None = None) -> Term:
        found = DETECTION.cost(scores, targets[..., None], self.label_smoothing)
        guesses = found.guesses.squeeze(-1)
        return Term(found.sum, found.count, self.weight, guesses=guesses, measured=detected(guesses, targets))


def detected(guesses: Int[Tensor, "*places"], targets: Int[Tensor, "*places"]) -> Measured:
    """Accuracy over all scored positions, and F1 of the replaced ones: 2 hits / (guessed + true)."""
    known = targets >= 0
    hits, guessed, true = ((known & x).sum() for x in ((guesses * targets) > 0, guesses > 0, targets > 0))
    return {"f1": (2 * hits, guessed + true), "accuracy": ((guesses == targets).sum(), known.sum())}
