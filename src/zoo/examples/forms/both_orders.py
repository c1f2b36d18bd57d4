"""Form `both_orders`: two texts, in both orders."""

from zoo.data.ids import Lengths, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CLASSIFIED_PAIR, fill_template, join_documents, overhead, shorten_pair


@forms.register("both_orders")
class BothOrders(Form):
    """Two texts as two documents: start, text 1, separator, text 2, extract, and the same with the texts swapped.

    If the documents do not fit in a row, or exceed the longest example, the longer text of each is truncated.
    Source: Radford et al. 2018 (GPT), section 3.3 and figure 1, "Similarity".
    """

    stored = StoredFields(("text", "pair"), predicted=("text", "pair"))
    min_length = 5
    documents = 2
    lengths_suffice = False
    template = CLASSIFIED_PAIR

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        first, second = lengths.span("text", document), lengths.span("pair", document)
        each = min(limits.longest, limits.row // self.documents)
        pieces = shorten_pair(first, second, each - overhead(self.template))
        kept = sum(piece.length for piece in pieces)
        length, truncated = 2 * (kept + overhead(self.template)), first.length + second.length - kept
        return [ExamplePlan(document, 0, length, pieces=pieces, label=lengths.label(document), truncated=truncated)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        texts = {piece: read(piece) for piece in plan.pieces}
        both = plan, plan._replace(pieces=plan.pieces[::-1])
        return join_documents(
            [fill_template(self.template, one, texts.__getitem__, roles, causal=True) for one in both]
        )
