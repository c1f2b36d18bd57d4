"""The forms of text examples: one text, a pair, a source with its target (`sentences` and pictures have own files)."""

from typing import ClassVar

import numpy as np

from zoo.objectives.example import Example, Lengths, Piece, Plan, Read, Roles
from zoo.objectives.form import Form, Limits, forms
from zoo.objectives.pictures import Image, ImageText
from zoo.objectives.randomness import Purpose, keyed
from zoo.objectives.sentences import Sentences
from zoo.objectives.template import (
    CLASSIFIED_PAIR,
    CLASSIFIED_TEXT,
    ENCODED_PAIR,
    ENCODED_TEXT,
    cut,
    lay_out,
    overhead,
    predict_next,
    roles_of,
    shorten,
)

__all__ = ["Form", "Image", "ImageText", "Limits", "Pair", "Sentences", "SourceTarget", "Text", "forms"]


@forms.register("text")
class Text(Form):
    """One text: [CLS] A [SEP] for an encoder; `<s> y…` for a decoder, or start, text, extract where it is classified.

    A text that must stay whole is truncated at its end. Any other is cut into examples with nothing lost; in a decoder
    each of them begins with `<s>` and only the last one has the target `</s>`, so every token is predicted once.
    """

    fields: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("start", "end") if self.continues else roles_of(self.template)

    @property
    def continues(self) -> bool:
        """Whether the text is written on from left to right, without a template around it."""
        return self.stream.causal and not self.whole

    @property
    def template(self) -> tuple[str | None, ...]:
        return CLASSIFIED_TEXT if self.stream.causal else ENCODED_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[Plan]:
        span = lengths.span("text", document)
        label = lengths.label(document)
        room = limits.longest if self.continues else limits.longest - overhead(self.template)
        if self.whole:
            kept = min(span.length, room)
            piece = Piece("text", span.start, span.start + kept)
            length = kept + overhead(self.template)
            return [Plan(document, 0, length, pieces=(piece,), label=label, truncated=span.length - kept)]
        total = span.length + self.continues  # what is predicted from left to right ends with `</s>`
        if total <= room:
            borders = [(0, total)]
        else:  # a last piece of `</s>` alone would teach an empty text that the data never held
            borders = cut(total, room, keyed(Purpose.PLAN, seed, epoch, document), shortest=1 + self.continues)
        plans = []
        for number, (start, stop) in enumerate(borders):
            piece = Piece("text", span.start + start, min(span.start + stop, span.stop))
            length = stop - start + (0 if self.continues else overhead(self.template))
            plans.append(Plan(document, number, length, pieces=(piece,), label=label, final=stop == total))
        return plans

    def build(self, plan: Plan, read: Read, roles: Roles) -> Example:
        if self.continues:
            return predict_next(plan, read(plan.pieces[0]), roles)
        return lay_out(self.template, plan, read, roles, self.stream)


@forms.register("pair")
class Pair(Form):
    """Two texts as one document: [CLS] A [SEP] B [SEP], or start, text 1, separator, text 2, extract for a decoder.

    Where they are too long together, the longer one is truncated.
    """

    fields: ClassVar[tuple[str, ...]] = ("text", "pair")
    smallest: ClassVar[int] = 5

    @property
    def roles(self) -> tuple[str, ...]:
        return roles_of(self.template)

    @property
    def template(self) -> tuple[str | None, ...]:
        return CLASSIFIED_PAIR if self.stream.causal else ENCODED_PAIR

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[Plan]:
        first, second = lengths.span("text", document), lengths.span("pair", document)
        kept = shorten(first.length, second.length, limits.longest - overhead(self.template))
        pieces = tuple(Piece(s.field, s.start, s.start + n) for s, n in zip((first, second), kept, strict=True))
        truncated = first.length + second.length - sum(kept)
        length = sum(kept) + overhead(self.template)
        return [Plan(document, 0, length, pieces=pieces, label=lengths.label(document), truncated=truncated)]

    def build(self, plan: Plan, read: Read, roles: Roles) -> Example:
        return lay_out(self.template, plan, read, roles, self.stream)


@forms.register("source_target")
class SourceTarget(Form):
    """A source `x… </s>` and a target with inputs `<s> y…`, following `y… </s>`.

    Both are truncated at their ends; a truncated target does not predict `</s>`, since it does not end there.
    """

    fields: ClassVar[tuple[str, ...]] = ("source", "target")
    written: ClassVar[str] = "target"
    smallest: ClassVar[int] = 2
    source: ClassVar[bool] = True

    @property
    def roles(self) -> tuple[str, ...]:
        return ("start", "end")

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[Plan]:
        source, target = lengths.span("source", document), lengths.span("target", document)
        read = min(source.length, limits.source - 1)
        written = min(target.length, limits.longest)
        final = target.length < limits.longest
        spans = (source, read), (target, written)
        pieces = tuple(Piece(span.field, span.start, span.start + kept) for span, kept in spans)
        truncated = source.length - read + target.length - written + (not final)  # `</s>` counts
        return [Plan(document, 0, written + final, read + 1, pieces, final=final, truncated=truncated)]

    def build(self, plan: Plan, read: Read, roles: Roles) -> Example:
        source, target = (read(piece) for piece in plan.pieces)
        example = predict_next(plan, target, roles)
        example.source = np.append(source, roles.id("end"))
        return example
