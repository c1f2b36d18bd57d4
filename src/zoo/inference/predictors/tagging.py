"""Tags the words of a text."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.batches.order import PackedRow
from zoo.data.ids import TAGS, WORDS, Ids
from zoo.data.tokenizers.token_spans import TokenSpans, encode_with_spans
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.metric_inputs import EvaluatedSplit, ForwardResult
from zoo.inference.model_inputs import build_examples, collate_inputs
from zoo.inference.predictors.predictor import InputBatch, Prediction, Predictor, RowPrediction, Texts, predictors
from zoo.inference.spans import excerpt

OUTSIDE = "O"
# prefixes of tags (BIOES, BILOU)
GOES_ON = ("I-", "E-", "L-")  # of a word that may continue a span: inside it, or its last
ENDS = ("E-", "L-", "S-", "U-")  # of a word that ends a span: its last, or its only one
OF_SPANS = ("B-", *GOES_ON, *ENDS)


@predictors.register("tagging")
class WordTags(Predictor):
    """Tags the words of a text, each at its first token; joins words into spans if tags are of BIO, BIOES or BILOU.

    The output is a list of {tag, text, start, end}, the characters from start to end; scores are their probabilities,
    for a span the mean over its words. With a WordPiece tokenizer that keeps Hangul syllables whole, this equals
    transformers' pipeline with `aggregation_strategy="first"`.
    """

    def encode(self, loaded: Loaded, texts: Texts) -> list[Ids]:
        return [tokens.ids for tokens in encode_words(loaded.tokenizer, texts)]

    def predict(self, loaded: Loaded, inputs: InputBatch) -> list[Prediction]:
        placed = encode_words(loaded.tokenizer, inputs.texts)
        examples = build_examples(loaded, [tokens.ids for tokens in placed], None)
        logits = loaded.run(**collate_inputs(loaded, examples)).scores["tagging"].exact()
        shares = logits.softmax(-1).cpu().numpy()
        refuse_not_finite([float(shares.sum())])  # the argmax of NaN is the first tag, mostly O
        names = loaded.task.labels or [f"LABEL_{i}" for i in range(shares.shape[-1])]
        found = []
        for text, tokens, example, share in zip(inputs.texts, placed, examples, shares, strict=True):
            words = tag_words(loaded.tokenizer, text, tokens, share[: len(example.tokens)][example.is_text], names)
            whole = join_spans(words, text) if makes_spans(names) else words
            scores = [one.pop("score") for one in whole]
            found.append(Prediction(text, whole, scores))
        return found

    def collect_results(self, result: ForwardResult) -> list[Any]:
        best, owners = result.scores.exact().flatten(0, 1).softmax(-1).max(-1), result.owners()
        tags, shares = best.indices.cpu().numpy(), best.values.cpu().numpy()
        return [(tags[owners == n], shares[owners == n]) for n in range(len(result.plans))]

    def row_prediction(self, evaluated: EvaluatedSplit, document: int, collected: Sequence[Any]) -> RowPrediction:
        """The tag of each word; None for a word that the model did not read."""
        row, (plan,) = evaluated.split.rows[document], evaluated.examples.plan(0, [document])
        names, (tags, shares) = evaluated.split.labels, collected[0]
        marked = evaluated.examples.build(PackedRow(0, (plan,)))[0].marked
        assert marked is not None, "a form of words marks them"
        output: list[str | None] = [None] * len(row[WORDS])
        scores: list[float | None] = [None] * len(row[WORDS])
        read = (number for number, word in enumerate(plan.pieces[:-1]) if word.length)
        for word, place in zip(read, marked, strict=True):
            output[word], scores[word] = names[tags[place]], float(shares[place])
        return RowPrediction(output, scores, [names[tag] if tag >= 0 else None for tag in row[TAGS]])


def encode_words(tokenizer: Tokenizer, texts: Texts) -> list[TokenSpans]:
    """The tokens of each text with one space between words, as training joins them, and their places in the text."""
    found, joined = [], [" ".join(text.split()) for text in texts]
    for text, tokens in zip(texts, encode_with_spans(tokenizer, joined), strict=True):
        words = [word.span() for word in re.finditer(r"\S+", text)]
        # of each character, the space after a word included
        places = np.array([place for begin, end in words for place in range(begin, end + 1)] or [0])
        found.append(TokenSpans(tokens.ids, places[tokens.begins], places[tokens.ends]))
    return found


def makes_spans(names: Sequence[str]) -> bool:
    """Whether all tags are of a scheme that marks spans (BIO, BIOES or BILOU)."""
    return all(name == OUTSIDE or name.startswith(OF_SPANS) for name in names)


def tag_words(
    tokenizer: Tokenizer, text: str, tokens: TokenSpans, shares: NDArray[np.float32], names: Sequence[str]
) -> list[dict[str, Any]]:
    """The most likely tag of each word of a text.

    Args:
        tokens: of the text.
        shares: probabilities of the tags, (tokens, tags); those of a word's first token count.
    """
    written = tokens.begins < tokens.ends  # tokens of white space alone belong to no word
    shares, tokens = shares[written], TokenSpans(*(each[written] for each in tokens))
    begins = np.flatnonzero(begin_words(tokenizer, text, tokens))
    found: list[dict[str, Any]] = []
    for first, stop in zip(begins, [*begins, len(tokens.ids)][1:], strict=True):
        best, word = int(shares[first].argmax()), excerpt(text, int(tokens.begins[first]), int(tokens.ends[stop - 1]))
        found.append({"tag": names[best], **word, "score": float(shares[first, best])})
    return found


def begin_words(tokenizer: Tokenizer, text: str, tokens: TokenSpans) -> NDArray[np.bool_]:
    """Whether each token begins a word.

    If the vocabulary marks pieces that continue a word, all others begin one; else the tokens after white space do.
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
    """Join adjacent words of one type into spans; B-, S- and U- begin a new span, as does any word after one in `ENDS`.

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
