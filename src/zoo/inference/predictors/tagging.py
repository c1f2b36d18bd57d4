"""Tags the words of a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.batches.order import PackedRow
from zoo.data.ids import TAGS, WORDS
from zoo.data.tokenizers.placed import PlacedTokens, place_tokens
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.gathered import About, Passed
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.predictors.predictor import Prediction, Predictor, Questions, Told, predictors
from zoo.inference.spans import excerpt
from zoo.inference.typed import as_inputs, typed_examples

OUTSIDE = "O"
# how tags begin of words that may go on with a span, inside of it or as its last (BIOES, BILOU)
GOES_ON = ("I-", "E-", "L-")
ENDS = ("E-", "L-", "S-", "U-")  # of words that end one: its last, or its only one
OF_SPANS = ("B-", *GOES_ON, *ENDS)


@predictors.register("tagging")
class WordTags(Predictor):
    """Tags the words of a text, each read at its first token; of tags such as O, B-… and I-… (BIOES, BILOU) the spans.

    The output is a list of {tag, text, start, end}, the characters from start to end; scores are their probabilities,
    of a span the mean over its words. With WordPiece that keeps Hangul's syllables whole, it is what transformers'
    pipeline gives with `aggregation_strategy="first"`.
    """

    def predict(self, loaded: Loaded, asked: Questions) -> list[Prediction]:
        placed = place_tokens(loaded.tokenizer, asked.texts)
        examples = typed_examples(loaded, [tokens.ids for tokens in placed], None)
        logits = loaded.run(**as_inputs(loaded, examples)).scores["tagging"].exact()
        shares = logits.softmax(-1).cpu().numpy()
        refuse_not_finite([float(shares.sum())])  # the best tag of such shares is the first one, mostly that of no span
        names = loaded.task.labels or [f"LABEL_{i}" for i in range(shares.shape[-1])]
        found = []
        for text, tokens, example, share in zip(asked.texts, placed, examples, shares, strict=True):
            words = tag_words(loaded.tokenizer, text, tokens, share[: len(example.tokens)][example.ordinary], names)
            whole = join_spans(words, text) if makes_spans(names) else words
            scores = [one.pop("score") for one in whole]
            found.append(Prediction(text, whole, scores))
        return found

    def keep(self, passed: Passed) -> list[Any]:
        best, owners = passed.scores.exact().flatten(0, 1).softmax(-1).max(-1), passed.owners()
        tags, shares = best.indices.cpu().numpy(), best.values.cpu().numpy()
        return [(tags[owners == n], shares[owners == n]) for n in range(len(passed.plans))]

    def tell(self, about: About, document: int, kept: Sequence[Any]) -> Told:
        """The tag of each word; None of one that the model did not read."""
        row, (plan,) = about.split.rows[document], about.examples.plan(0, [document])
        names, (tags, shares) = about.split.labels, kept[0]
        marked = about.examples.build(PackedRow(0, (plan,)))[0].marked
        assert marked is not None, "a form of words marks them"
        output: list[str | None] = [None] * len(row[WORDS])
        scores: list[float | None] = [None] * len(row[WORDS])
        read = (number for number, word in enumerate(plan.pieces[:-1]) if word.length)
        for word, place in zip(read, marked, strict=True):
            output[word], scores[word] = names[tags[place]], float(shares[place])
        return Told(output, scores, [names[tag] if tag >= 0 else None for tag in row[TAGS]])


def makes_spans(names: Sequence[str]) -> bool:
    """Whether tags tell where spans of several words begin."""
    return all(name == OUTSIDE or name.startswith(OF_SPANS) for name in names)


def tag_words(
    tokenizer: Tokenizer, text: str, tokens: PlacedTokens, shares: NDArray[np.float32], names: Sequence[str]
) -> list[dict[str, Any]]:
    """The tag of each word of a text, by the shares of the tags at its first token."""
    written = tokens.begins < tokens.ends  # white space alone is no part of a word
    shares, tokens = shares[written], PlacedTokens(*(each[written] for each in tokens))
    begins = np.flatnonzero(begin_words(tokenizer, text, tokens))
    found: list[dict[str, Any]] = []
    for first, behind in zip(begins, [*begins, len(tokens.ids)][1:], strict=True):
        best, word = int(shares[first].argmax()), excerpt(text, int(tokens.begins[first]), int(tokens.ends[behind - 1]))
        found.append({"tag": names[best], **word, "score": float(shares[first, best])})
    return found


def begin_words(tokenizer: Tokenizer, text: str, tokens: PlacedTokens) -> NDArray[np.bool_]:
    """By token, whether it begins a word: it lacks the mark of pieces that continue one, or stands behind white space.

    The mark decides where the vocabulary has one.
    """
    if tokenizer.marks_continuing and tokenizer.roles.continues is not None:
        begins = ~tokenizer.roles.continues[tokens.ids]
    else:
        spaces = [start > 0 and text[start - 1].isspace() for start in tokens.begins.tolist()]
        # several tokens may spell the bytes of one character
        begins = np.array(spaces, dtype=np.bool_) & np.append(True, np.diff(tokens.begins) > 0)[: len(spaces)]
    begins[:1] = True
    return begins


def join_spans(words: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Words side by side that are of one kind, as spans; B- begins another one, and so does the word behind a last one.

    Source: Nakayama 2018, github chakki-works/seqeval, `get_entities`.
    """
    spans: list[list[dict[str, Any]]] = []
    before = OUTSIDE
    for word in words:
        tag = word["tag"]
        if tag.startswith(GOES_ON) and before != OUTSIDE and before[2:] == tag[2:] and not before.startswith(ENDS):
            spans[-1].append(word)
        elif tag != OUTSIDE:
            spans.append([word])
        before = tag
    found = []
    for span in spans:
        score = float(np.mean([word["score"] for word in span]))
        whole = excerpt(text, span[0]["start"], span[-1]["end"])
        found.append({"tag": span[0]["tag"][2:], **whole, "score": score})
    return found
