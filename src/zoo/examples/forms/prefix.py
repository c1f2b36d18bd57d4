"""Form `prefix`: the source is the beginning of a text, the target the rest."""

from zoo.data.ids import Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.randomness import Purpose, keyed
from zoo.examples.template import CAUSAL_TEXT, cut, predict_next


@forms.register("prefix")
class Prefix(Form):
    """A source `x… </s>` and a target text (inputs `<s> y…`, predicted `y… </s>`): one text, cut at a random position.

    All positions between two tokens are equally likely. A text longer than an example is cut into several, of which
    only the last predicts `</s>`; a single token is left out.
    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 3.3.1, "prefix language modeling"; Liu et al. 2018,
    arXiv:1801.10198.
    """

    stored = StoredFields(("text",), predicted=("text",))
    lengths_suffice = False
    source = True
    template = CAUSAL_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        span, generator = lengths.span("text", document), keyed(Purpose.PLAN, seed, epoch, document)
        if span.length < 2:
            return []
        plans: list[ExamplePlan] = []
        # both sides have at least 1 token and `</s>` adds one, so either side has at most as many tokens as the text
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
