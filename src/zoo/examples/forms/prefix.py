"""Form `prefix`: the beginning of a text is read, the rest is written."""

from zoo.data.ids import Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.randomness import Purpose, keyed
from zoo.examples.template import CONTINUED, cut, predict_next


@forms.register("prefix")
class Prefix(Form):
    """A source `x… </s>` and a target with inputs `<s> y…`, following `y… </s>`: one text, cut at a random position.

    All places between two tokens are equally likely. A text longer than an example is cut into several, and only the
    last one predicts `</s>`; a single token is left out.
    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 3.3.1, "prefix language modeling"; Liu et al. 2018,
    arXiv:1801.10198.
    """

    stored = StoredFields(("text",), predicted=("text",))
    lengths_tell = False
    source = True
    template = CONTINUED

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        span, generator = lengths.span("text", document), keyed(Purpose.PLAN, seed, epoch, document)
        if span.length < 2:
            return []
        plans: list[ExamplePlan] = []
        # one token at least is on the other side, where `</s>` takes a place, too: either side may have all the others
        for start, stop in cut(span.length, min(limits.source, limits.longest), generator, first=2, last=2):
            if stop - start < 2:
                continue
            middle = int(generator.integers(start + 1, stop))
            final = stop == span.length
            pieces = tuple(Piece("text", span.start + a, span.start + b) for a, b in ((start, middle), (middle, stop)))
            sizes = stop - middle + final, middle - start + 1
            plans.append(ExamplePlan(document, len(plans), *sizes, pieces, final=final))
        return plans

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        first, rest = (read(piece) for piece in plan.pieces)
        return predict_next(plan, rest, roles, first)
