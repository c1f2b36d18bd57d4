"""Form `prompted`: a prompt, and a text that follows it and is predicted."""

import numpy as np

from zoo.data.ids import PROMPT, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CAUSAL_TEXT, predict_next, shorten


@forms.register("prompted")
class Prompted(Form):
    """`<s> x… y…`, of which only `y… </s>` is predicted: an instruction with its answer, or a turn of a chat.

    If they are too long together, the longer one is truncated: a prompt at its beginning, a text at its end, which then
    does not predict `</s>`.
    """

    stored = StoredFields((PROMPT, "text"), predicted=("text",))
    lengths_suffice = False
    writes = True
    template = CAUSAL_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        prompt, text = lengths.span(PROMPT, document), lengths.span("text", document)
        read, written = shorten(prompt.length, text.length, limits.longest - 1)  # room for `</s>`
        final = written == text.length
        pieces = Piece(PROMPT, prompt.stop - read, prompt.stop), text.first(written)
        truncated = prompt.length - read + text.length - written + (not final)  # `</s>` counts
        return [ExamplePlan(document, 0, read + written + final, 0, pieces, final=final, truncated=truncated)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        prompt, text = (read(piece) for piece in plan.pieces)
        example = predict_next(plan, np.concatenate([prompt, text]), roles)
        example.next_tokens[: len(prompt)] = -1
        return example
