"""Form `image_text`: an image and a text about it."""

from zoo.data.ids import PICTURE, Lengths, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import CAUSAL_TEXT, predict_next


@forms.register("image_text")
class ImageText(Form):
    """An image and a text: inputs `<s> y…`, predicted `y… </s>`; a text that is too long is truncated at its end.

    A truncated text does not predict `</s>`, since it does not end there.
    """

    stored = StoredFields((PICTURE, "text"), predicted=("text",))
    source = True
    writes = True
    template = CAUSAL_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        text = lengths.span("text", document)
        kept = min(text.length, limits.longest)
        final = text.length < limits.longest
        pieces = (lengths.span(PICTURE, document), text.first(kept))
        truncated = text.length - kept + (not final)  # `</s>` counts
        return [ExamplePlan(document, 0, kept + final, 1, pieces, final=final, truncated=truncated)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        picture, text = (read(piece) for piece in plan.pieces)
        example = predict_next(plan, text, roles)
        example.picture = picture
        return example
