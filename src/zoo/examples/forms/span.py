"""Form `span`: a question, and windows of a context that may contain the answer."""

import numpy as np

from zoo.data.ids import ANSWERS, CONTEXT, QUESTION, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits, forms
from zoo.examples.template import Template, fill_template, overhead, pair_template


@forms.register("span")
class Span(Form):
    """[CLS] question [SEP] context [SEP]; a context that does not fit is read in overlapping windows, each an example.

    Its pieces are the question, the window, all answers, and the window's offset in the context. `marked` are the
    positions of the window; `truth` is the first and the last position of the first answer inside it, or twice the
    summary position if there is none. A question is truncated to half of an example, which is counted.
    Source: Devlin et al. 2019, arXiv:1810.04805, sections 4.2 and 4.3; windows: google-research/bert, run_squad.py.

    Args:
        stride: maximum distance between the starts of consecutive windows (tokens).
    """

    stored = StoredFields((QUESTION, CONTEXT), answers=((ANSWERS, CONTEXT),))
    min_length = 5
    lengths_suffice = False
    split_phrase = "read in several windows"

    def __init__(self, traits: ModelTraits, whole: bool, *, stride: int = 128) -> None:
        super().__init__(traits, whole)
        self.stride = stride

    @property
    def template(self) -> Template:
        return pair_template(self.traits.causal)

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        question, context = lengths.span(QUESTION, document), lengths.span(CONTEXT, document)
        room = limits.longest - overhead(self.template)
        asked = question.first(min(question.length, room // 2))
        room -= asked.length
        answers, step = lengths.span(ANSWERS, document), self.step(room)
        plans: list[ExamplePlan] = []
        for start in range(context.start, context.stop, step):
            window = Piece(CONTEXT, start, min(start + room, context.stop))
            lost = question.length - asked.length if not plans else 0
            length = asked.length + window.length + overhead(self.template)
            # the window's offset in the context, stored as an empty piece
            offset = Piece(CONTEXT, start - context.start, start - context.start)
            pieces = (asked, window, answers, offset)
            plans.append(ExamplePlan(document, len(plans), length, pieces=pieces, truncated=lost))
            if window.stop == context.stop:
                break
        return plans

    def step(self, room: int) -> int:
        """Distance between windows: at most half a window, so that each answer up to half a window fits into one."""
        return min(self.stride, -(-room // 2))

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        _, window, answers, offset = plan.pieces
        example = fill_template(self.template, plan, read, roles, self.traits.causal)
        context = np.flatnonzero(example.is_text)[-window.length :]
        borders = read(answers).reshape(-1, 2) - offset.start
        inside = borders[(borders[:, 0] >= 0) & (borders[:, 1] <= window.length)]
        first = example.summary % len(example.tokens)
        example.marked = context
        example.truth = np.array([context[inside[0, 0]], context[inside[0, 1] - 1]] if len(inside) else [first, first])
        return example
