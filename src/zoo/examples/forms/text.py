"""Form `text`: one text."""

from zoo.data.ids import Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.randomness import Purpose, keyed
from zoo.examples.template import CAUSAL_TEXT, CLASSIFIED_TEXT, ENCODED_TEXT, Template, cut, overhead, predict_next


@forms.register("text")
class Text(Form):
    """One text: [CLS] A [SEP] for an encoder; `<s> y…` for a decoder, or start, text, extract in classification.

    A text that must stay whole is truncated at its end. Any other is cut into examples with nothing lost; for a decoder
    each of them begins with `<s>` and only the last one has the target `</s>`, so every token is predicted once.
    """

    stored = StoredFields(("text",), predicted=("text",))

    @property
    def continues(self) -> bool:
        """Whether the text is predicted from left to right, without a template around it."""
        return self.traits.causal and not self.whole

    @property
    def template(self) -> Template:
        if self.continues:
            return CAUSAL_TEXT
        return CLASSIFIED_TEXT if self.traits.causal else ENCODED_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        span, label, continues = lengths.span("text", document), lengths.label(document), self.continues
        around = 0 if continues else overhead(self.template)
        room = limits.longest - around
        if self.whole:
            kept = min(span.length, room)
            length, lost = kept + around, span.length - kept
            return [ExamplePlan(document, 0, length, pieces=(span.first(kept),), label=label, truncated=lost)]
        total = span.length + continues  # `</s>` is predicted too
        if total <= room:
            borders = [(0, total)]
        else:  # a last piece with `</s>` alone would teach the model to write empty texts, which the data may not have
            borders = cut(total, room, keyed(Purpose.PLAN, seed, epoch, document), last=1 + continues)
        plans = []
        for number, (start, stop) in enumerate(borders):
            piece = Piece("text", span.start + start, min(span.start + stop, span.stop))
            plans.append(ExamplePlan(document, number, stop - start + around, 0, (piece,), label, stop == total))
        return plans

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        if self.continues:
            return predict_next(plan, read(plan.pieces[0]), roles)
        return super().build(plan, read, roles)
