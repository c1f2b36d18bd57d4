"""Form `choices`: a context, and several choices that may continue it."""

from zoo.data.ids import CHOICES, CONTEXT, Lengths, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import Template, fill_template, join_documents, overhead, pair_template, shorten_pair


@forms.register(CHOICES)
class Choices(Form):
    """The context with each choice as a separate document, all in one row.

    [CLS] context [SEP] choice [SEP] for an encoder; start, context, separator, choice, extract for a decoder. If the
    documents do not fit in a row, or exceed the longest example, the longer text of each is truncated.
    Source: Radford et al. 2018 (GPT), figure 1, "Multiple Choice"; Devlin et al. 2019, arXiv:1810.04805, section 4.4.
    """

    stored = StoredFields((CONTEXT, CHOICES), lists=(CHOICES,))
    min_length = 5
    documents = 2
    lengths_suffice = False

    @property
    def template(self) -> Template:
        return pair_template(self.traits.causal)

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        context, choices = lengths.span(CONTEXT, document), lengths.entries(CHOICES, document)
        each = min(limits.longest, limits.row // len(choices))
        if each < self.min_length:
            raise ValueError(f"length: a sequence of {limits.row} tokens is too short for {len(choices)} choices")
        pairs = (shorten_pair(context, choice, each - overhead(self.template)) for choice in choices)
        pieces = tuple(piece for pair in pairs for piece in pair)
        kept = sum(piece.length for piece in pieces)
        lost = sum(context.length + choice.length for choice in choices) - kept
        length = kept + len(choices) * overhead(self.template)
        return [ExamplePlan(document, 0, length, pieces=pieces, label=lengths.label(document), truncated=lost)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        pairs = zip(plan.pieces[::2], plan.pieces[1::2], strict=True)
        plans = (plan._replace(pieces=pair) for pair in pairs)
        return join_documents([fill_template(self.template, one, read, roles, self.traits.causal) for one in plans])
