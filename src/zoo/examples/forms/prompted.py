"""Form `prompted`: a prompt that is read, and a text that is written behind it."""

from typing import ClassVar

import numpy as np

from zoo.data.ids import PROMPT, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CONTINUED, Template, shorten


@forms.register("prompted")
class Prompted(Form):
    """`<s> x… y…`, of which only `y… </s>` is predicted: an instruction with its answer, or a turn of a chat.

    Where both are too long, the longer one is shortened: a prompt at its beginning, a text at its end, and then it does
    not predict `</s>`.
    """

    stored: ClassVar[StoredFields] = StoredFields((PROMPT, "text"), predicted=("text",))
    lengths_tell: ClassVar[bool] = False
    writes: ClassVar[bool] = True
    template: ClassVar[Template] = CONTINUED

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        prompt, text = lengths.span(PROMPT, document), lengths.span("text", document)
        read, written = shorten(prompt.length, text.length, limits.longest - 1)
        final = written == text.length
        pieces = Piece(PROMPT, prompt.stop - read, prompt.stop), Piece("text", text.start, text.start + written)
        truncated = prompt.length - read + text.length - written + (not final)  # `</s>` counts
        return [ExamplePlan(document, 0, read + written + final, 0, pieces, final=final, truncated=truncated)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        prompt, text = (read(piece) for piece in plan.pieces)
        following = np.append(text, roles.id("end")) if plan.final else text
        tokens = np.concatenate([[roles.id("start")], prompt, following[:-1]]).astype(np.int64)
        unscored = np.full(len(prompt), -1, dtype=np.int64)
        return Example(
            tokens=tokens,
            ordinary=np.arange(len(tokens)) > 0,
            following=np.concatenate([unscored, following]).astype(np.int64),
            summary=-1,
            label=plan.label,
        )
