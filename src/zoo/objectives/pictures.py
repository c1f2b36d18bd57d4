"""The forms of picture examples: a picture alone, and a picture with a text about it."""

from typing import ClassVar

import numpy as np

from zoo.objectives.example import Example, Lengths, Piece, Plan, Read, Roles
from zoo.objectives.form import PICTURE, Form, Limits, forms
from zoo.objectives.template import predict_next


@forms.register(PICTURE)
class Image(Form):
    """A picture: one place, which stands for it."""

    fields: ClassVar[tuple[str, ...]] = (PICTURE,)
    pictures: ClassVar[bool] = True

    @property
    def roles(self) -> tuple[str, ...]:
        return ()

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[Plan]:
        return [Plan(document, 0, 1, pieces=(lengths.span(PICTURE, document),), label=lengths.label(document))]

    def build(self, plan: Plan, read: Read, roles: Roles) -> Example:
        one = np.zeros(1, dtype=np.int64)
        return Example(tokens=one, ordinary=one > 0, following=one - 1, label=plan.label, picture=read(plan.pieces[0]))

    def check(self, limits: Limits) -> None:
        """A picture fits wherever there is a place."""


@forms.register("image_text")
class ImageText(Form):
    """A picture and a text with inputs `<s> y…`, following `y… </s>`; a text that is too long is truncated at its end.

    A truncated text does not predict `</s>`, since it does not end there.
    """

    fields: ClassVar[tuple[str, ...]] = (PICTURE, "text")
    written: ClassVar[str] = "text"
    source: ClassVar[bool] = True
    pictures: ClassVar[bool] = True

    @property
    def roles(self) -> tuple[str, ...]:
        return ("start", "end")

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[Plan]:
        text = lengths.span("text", document)
        kept = min(text.length, limits.longest)
        final = text.length < limits.longest
        pieces = (lengths.span(PICTURE, document), Piece("text", text.start, text.start + kept))
        truncated = text.length - kept + (not final)  # `</s>` counts
        return [Plan(document, 0, kept + final, 1, pieces, final=final, truncated=truncated)]

    def build(self, plan: Plan, read: Read, roles: Roles) -> Example:
        picture, text = (read(piece) for piece in plan.pieces)
        example = predict_next(plan, text, roles)
        example.picture = picture
        return example

    def check(self, limits: Limits) -> None:
        super().check(Limits(limits.longest, self.smallest))
