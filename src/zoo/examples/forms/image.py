"""Form `image`: an image without text."""

import numpy as np

from zoo.data.ids import PICTURE, Lengths, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms


@forms.register(PICTURE)
class Image(Form):
    """An image, as a single position of the stream."""

    stored = StoredFields((PICTURE,))
    min_length = 1
    template = ()

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        return [ExamplePlan(document, 0, 1, pieces=(lengths.span(PICTURE, document),), label=lengths.label(document))]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        one = np.zeros(1, dtype=np.int64)
        return Example(tokens=one, is_text=one > 0, next_tokens=one - 1, label=plan.label, picture=read(plan.pieces[0]))
