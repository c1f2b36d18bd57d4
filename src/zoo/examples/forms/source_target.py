"""Form `source_target`: a source text for the encoder, and a target text for the decoder."""

from collections.abc import Sequence

import numpy as np

from zoo.data.ids import Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CAUSAL_TEXT, predict_next


@forms.register("source_target")
class SourceTarget(Form):
    """A source `x… </s>` and a target text: inputs `<s> y…`, predicted `y… </s>`.

    Both are truncated at their ends; a truncated target does not predict `</s>`, since it does not end there.
    """

    stored = StoredFields(("source", "target"), predicted=("target",))
    min_length = 2
    source = True
    writes = True
    template = CAUSAL_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        return self.plan_all(lengths, [document], epoch, seed, limits)

    def plan_all(
        self, lengths: Lengths, documents: Sequence[int], epoch: int, seed: int, limits: Limits
    ) -> list[ExamplePlan]:
        # vectorized: pairs are short, and planning them takes most of the time of building their rows
        (sources, read_to), (targets, written_to) = (lengths.spans(name, documents) for name in self.stored.names)
        known, wanted = read_to - sources, written_to - targets
        read, written = np.minimum(known, limits.source - 1), np.minimum(wanted, limits.longest)
        final = wanted < limits.longest
        truncated = known - read + wanted - written + ~final  # `</s>` counts
        # one token more for `</s>`: always in the source, in the target if it ends there
        sizes = written + final, read + 1, sources, sources + read, targets, targets + written, final, truncated
        return [
            ExamplePlan(d, 0, places, asked, (Piece("source", a, b), Piece("target", c, e)), final=whole, truncated=cut)
            for d, places, asked, a, b, c, e, whole, cut in zip(
                documents, *(size.tolist() for size in sizes), strict=True
            )
        ]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        source, target = (read(piece) for piece in plan.pieces)
        return predict_next(plan, target, roles, source)
