"""Form `source_target`: a text that is read, and a text that is written."""

from typing import ClassVar

from zoo.data.ids import Lengths, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CONTINUED, predict_next, with_end


@forms.register("source_target")
class SourceTarget(Form):
    """A source `x… </s>` and a target with inputs `<s> y…`, following `y… </s>`.

    Both are truncated at their ends; a truncated target does not predict `</s>`, since it does not end there.
    """

    stored: ClassVar[StoredFields] = StoredFields(("source", "target"), predicted=("target",))
    smallest: ClassVar[int] = 2
    source: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    template = CONTINUED

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        source, target = lengths.span("source", document), lengths.span("target", document)
        known, wanted = source.length, target.length
        read, written = min(known, limits.source - 1), min(wanted, limits.longest)
        final = wanted < limits.longest
        pieces = source.first(read), target.first(written)
        truncated = known - read + wanted - written + (not final)  # `</s>` counts
        return [ExamplePlan(document, 0, written + final, read + 1, pieces, final=final, truncated=truncated)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        source, target = (read(piece) for piece in plan.pieces)
        example = predict_next(plan, target, roles)
        example.source = with_end(source, roles)
        return example
