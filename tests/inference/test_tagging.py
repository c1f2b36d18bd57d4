"""Tags of words: spans with their positions, by sentence where they are measured."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from looking import loaded
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from zoo.batches.collate import MicroBatch, documents_from
from zoo.batches.order import PackedRow
from zoo.examples.example import ExamplePlan
from zoo.inference.metric_inputs import METRIC_COLLECTORS, ForwardResult
from zoo.inference.pipeline import Pipeline
from zoo.inference.predictors.tagging import WordTags, encode_words, join_spans, makes_spans, tag_words
from zoo.metrics.metric import compute
from zoo.metrics.tagging import as_iobes
from zoo.models.heads.scores import Scores
from zoo.objectives.objective import Term

SPANS = ["O", "B-animal", "I-animal"]


def word(tag: str, start: int, end: int, score: float = 0.5) -> dict[str, object]:
    return {"tag": tag, "text": "", "start": start, "end": end, "score": score}


def test_words_of_one_kind_side_by_side_are_a_span_and_b_begins_another():
    tagged = ["I-a", "I-a", "B-a", "I-a", "O", "I-a", "I-b"]
    words = [word(tag, 2 * at, 2 * at + 1) for at, tag in enumerate(tagged)]
    found = [(span["tag"], span["start"], span["end"]) for span in join_spans(words, "")]
    assert found == [("a", 0, 3), ("a", 4, 7), ("a", 10, 11), ("b", 12, 13)]


def test_tags_of_no_kind_are_no_part_of_what_is_outside():
    words = [word(tag, 2 * at, 2 * at + 1) for at, tag in enumerate(["O", "I-", "I-", "O", "I-"])]
    assert [(span["start"], span["end"]) for span in join_spans(words, "")] == [(2, 5), (8, 9)]


@pytest.mark.parametrize("letters", ["BI", "BIES", "BILU"])
def test_spans_are_those_that_f1_counts_whatever_the_order_of_tags(letters: str):
    names = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "ab")]
    assert makes_spans(names)
    tagged = list(np.random.default_rng(0).choice(names, 500))
    words = [word(tag, 2 * at, 2 * at + 1) for at, tag in enumerate(tagged)]
    found = [(span["tag"], span["start"] // 2, span["end"] // 2) for span in join_spans(words, "")]
    assert found == get_entities(as_iobes([tagged])[0]) and any(last > first for _, first, last in found)


def test_the_score_of_a_span_is_the_mean_over_its_words():
    assert join_spans([word("B-a", 0, 1, 0.25), word("I-a", 2, 3, 0.75)], "x y")[0]["score"] == 0.5


def test_only_tags_of_spans_make_some():
    assert makes_spans(SPANS) and not makes_spans(["NOUN", "O"])


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "bpe", "characters"])
@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "bert-modern-nano"])
def test_each_word_of_a_text_has_a_tag_and_its_place(name: str, kind: str):
    model = loaded(name, "tagging", kind)
    model = replace(model, task=replace(model.task, labels=["NOUN", "VERB"]))
    text = "the  red cat sleeps"
    (found,) = Pipeline(model)(text)
    assert [one["text"] for one in found["output"]] == ["the", "red", "cat", "sleeps"]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in found["output"])
    assert len(found["scores"]) == 4 and all(0.5 <= score <= 1 for score in found["scores"])


def test_the_first_token_of_a_word_is_not_the_white_space_before_it():
    tokenizer, text = loaded("bert-nano", "tagging", "characters").tokenizer, "the  cat"
    (tokens,) = encode_words(tokenizer, [text])
    assert [tokenizer.spell(i) for i in tokens.ids] == list("the cat")
    shares = np.array([[number, 0] for number in range(7)], dtype=np.float32)
    words = tag_words(tokenizer, text, tokens, shares, ["NOUN", "VERB"])
    assert [(one["text"], one["score"]) for one in words] == [("the", 0), ("cat", 4)]


@pytest.mark.parametrize("kind", ["byte_bpe", "characters"])
def test_white_space_of_a_text_changes_only_the_places_of_its_words(kind: str):
    model = loaded("bert-nano", "tagging", kind)
    ask = Pipeline(replace(model, task=replace(model.task, labels=["NOUN", "VERB"])))
    text, spaced = "the red cat sleeps", "\n \u3000the\nred   cat sleeps \n"
    found, other = ask(text)[0], ask(spaced)[0]
    assert [(one["tag"], one["text"]) for one in found["output"]] == [
        (one["tag"], one["text"]) for one in other["output"]
    ]
    assert [(one["start"], one["end"]) for one in other["output"]] == [(3, 6), (7, 10), (13, 16), (17, 23)]
    assert other["scores"] == found["scores"] and other["input"] == spaced
    encoded = WordTags().encode(model, [text, spaced, " "])
    assert np.array_equal(encoded[0], encoded[1]) and len(encoded[2]) == 0
    assert ask(" \n")[0]["output"] == []


def test_a_character_of_several_tokens_is_one_word():
    model = loaded("gpt2-nano", "tagging", "byte_bpe")
    (found,) = Pipeline(replace(model, task=replace(model.task, labels=["NOUN", "VERB"])))("the \ud55c cat")
    assert len(model.tokenizer.encode([" \ud55c"])[0]) > 2
    assert [(one["text"], one["start"], one["end"]) for one in found["output"]] == [
        ("the", 0, 3),
        ("\ud55c", 4, 5),
        ("cat", 6, 9),
    ]


@pytest.mark.parametrize("text", ["", " ", "\u0007"])
def test_a_text_without_a_word_has_no_tags(text: str):
    model = loaded("bert-nano", "tagging", "wordpiece")
    (found,) = Pipeline(replace(model, task=replace(model.task, labels=SPANS)))(text)
    assert found["output"] == [] and found["scores"] == []


def test_each_sentence_has_the_tags_and_the_probabilities_of_its_own_tokens():
    logits = torch.tensor([[[0.0, 1.0], [2.0, 0.0], [0.5, 0.0], [3.0, 0.0], [0.0, 4.0], [9.0, 0.0]]])
    part = MicroBatch({"documents": documents_from(np.array([[1, 1, 1, 2, 2, 0]]))}, {}, [], 0, 0.0)
    rows, zero = [PackedRow(0, (ExamplePlan(0, 0, 3), ExamplePlan(1, 0, 2)))], torch.zeros(())
    passed = ForwardResult(Mock(head="tagging"), rows, part, zero, Term(zero, zero, 1.0), Scores.from_logits(logits))
    (first, one), (second, other) = WordTags().collect_results(passed)
    assert (first.tolist(), second.tolist()) == ([1, 0, 0], [0, 1])
    shares = logits[0].softmax(-1).amax(-1)
    assert np.concatenate([one, other]) == pytest.approx(shares[:5].numpy())


def test_tags_are_gathered_by_sentence():
    documents = documents_from(np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 2, 2, 0]]))  # a row begins with 1
    targets = torch.tensor([[1, -1, -1, -1, -1, -1], [-1, 1, 2, 0, 2, -1]])
    guesses = torch.tensor([[2, -1, -1, -1, -1, -1], [-1, 1, 2, 2, 2, -1]])
    zero, rows = torch.zeros(()), [PackedRow(0, tuple(ExamplePlan(0, 0, n) for n in row)) for row in ([2], [3, 2])]
    passed = ForwardResult(Mock(head="tagging"), rows, MicroBatch({"documents": documents}, {}, [], 0, 0.0), targets,
                    Term(zero, zero, 1.0, guesses=guesses), Scores.from_logits(torch.zeros(1, 3)))  # fmt: skip
    found = METRIC_COLLECTORS["tags"].collect(passed)
    assert found == [([2], [1]), ([1, 2], [1, 2]), ([2, 2], [0, 2])]
    given = METRIC_COLLECTORS["tags"].arguments(found, Mock(split=Mock(labels=SPANS)))
    assert given["references"][2] == ["O", "I-animal"]
    assert (
        compute("tagging/f1", **given) == f1_score(given["references"], given["predictions"]) == pytest.approx(2 / 3)
    )  # of three spans each, two are right
