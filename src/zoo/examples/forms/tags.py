"""Form `tags`: words, each with a tag."""

import numpy as np

from zoo.data.ids import TAGS, WORDS, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, forms
from zoo.examples.template import ENCODED_TEXT, STARTED_TEXT, Template, fill_template, overhead


@forms.register(TAGS)
class Tags(Form):
    """Words, each marked at its first token: [CLS] w1 … wn [SEP] for an encoder, start w1 … wn for a decoder.

    If the words do not fit, the last ones are left out and counted; a first word that is too long by itself is
    truncated. Its pieces are the words, then their tags. A word without tokens is not marked.
    """

    stored = StoredFields((WORDS,), words=(WORDS,), numbers=(TAGS,))
    truncation_unit = "words"

    @property
    def template(self) -> Template:
        return STARTED_TEXT if self.traits.causal else ENCODED_TEXT

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        words, tags = lengths.entries(WORDS, document), lengths.span(TAGS, document)
        room, start = limits.longest - overhead(self.template), words[0].start
        kept = [word for word in words if word.stop - start <= room] or [words[0]._replace(stop=start + room)]
        length = kept[-1].stop - start + overhead(self.template)
        pieces = (*kept, tags.first(len(kept)))
        return [ExamplePlan(document, 0, length, pieces=pieces, truncated=len(words) - len(kept))]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        *words, tags = plan.pieces
        text = Piece(WORDS, words[0].start, words[-1].stop)
        example = fill_template(self.template, plan, lambda _: read(text), roles, self.traits.causal)
        has_token = np.array([word.length > 0 for word in words])
        begins = np.array([word.start - text.start for word in words], dtype=np.int64)
        example.marked = np.flatnonzero(example.is_text)[begins[has_token]]
        example.truth = read(tags)[has_token]
        return example
