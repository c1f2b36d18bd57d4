"""Objective `tagging`: predict the tag of each word."""

import numpy as np

from zoo.data.ids import TAGS, Roles
from zoo.examples.example import Example
from zoo.examples.randomness import Randomness
from zoo.objectives.objective import Objective, objectives


@objectives.register("tagging")
class Tagging(Objective):
    """sum_i log p(tag_i | x_1 … x_m) over words i, each scored at its first token; unknown tags (-1) are not scored.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 5.3 and figure 4d.

    Args:
        label_smoothing: probability mass that is spread evenly over the tags.
    """

    head = "tagging"
    forms = (TAGS,)
    whole = True
    metrics = ("accuracy", "f1")
    exact_accuracy = True

    def annotate(self, example: Example, randomness: Randomness, roles: Roles) -> None:
        assert example.marked is not None and example.truth is not None, "a form of words marks them"
        targets = np.full(len(example.tokens), -1, dtype=np.int64)
        targets[example.marked] = example.truth
        example.targets[self.head] = targets
