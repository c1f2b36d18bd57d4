"""Form `pair`: two texts as one document."""

from zoo.data.ids import Lengths, StoredFields
from zoo.examples.example import ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import Template, overhead, pair_template, shorten_pair


@forms.register("pair")
class Pair(Form):
    """Two texts as one document: [CLS] A [SEP] B [SEP], or start, text 1, separator, text 2, extract for a decoder.

    If they are too long together, the longer one is truncated.
    """

    stored = StoredFields(("text", "pair"), predicted=("text", "pair"))
    min_length = 5

    @property
    def template(self) -> Template:
        return pair_template(self.traits.causal)

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        first, second = lengths.span("text", document), lengths.span("pair", document)
        pieces = shorten_pair(first, second, limits.longest - overhead(self.template))
        kept = sum(piece.length for piece in pieces)
        length, truncated = kept + overhead(self.template), first.length + second.length - kept
        return [ExamplePlan(document, 0, length, pieces=pieces, label=lengths.label(document), truncated=truncated)]
