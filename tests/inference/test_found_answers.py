"""Answers in a context: the best span over all windows, with its position, or none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from looking import loaded
from torch import Tensor

from zoo.data.task import read_task
from zoo.data.tokenizers.token_spans import encode_with_spans
from zoo.inference.evaluate_split import evaluate_split
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.inference.spans import LONGEST_ANSWER, answer_from_windows, best_span, choose_answer
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.scores import Scores

CONTEXT = "the red cat sleeps on the house , cats and dogs running over the trees"


def logits(length: int, *begins_and_ends: tuple[int, int, float]) -> np.ndarray:
    found = np.zeros((length, 2), dtype=np.float32)
    for begin, end, score in begins_and_ends:
        found[begin, 0] += score
        found[end, 1] += score
    return found


def test_the_best_span_begins_before_it_ends_and_stands_in_the_context():
    said = logits(8, (0, 1, 9.0), (6, 3, 5.0), (4, 5, 3.0))  # the first in the question, the second ends too early
    found = best_span(said, np.arange(3, 8), 10)
    assert (found.first, found.stop, found.score) == (11, 13, 6.0)


def test_an_answer_is_not_longer_than_answers_are():
    said = logits(LONGEST_ANSWER + 5, (2, LONGEST_ANSWER + 4, 5.0))
    found = best_span(said, np.arange(2, LONGEST_ANSWER + 5), 0)
    assert found.stop - found.first <= LONGEST_ANSWER == 30  # as transformers' max_answer_length in run_qa.py
    longest = logits(LONGEST_ANSWER + 5, (2, LONGEST_ANSWER + 1, 5.0))
    found = best_span(longest, np.arange(2, LONGEST_ANSWER + 5), 0)
    assert found.stop - found.first == LONGEST_ANSWER
    longer = logits(LONGEST_ANSWER + 5, (2, LONGEST_ANSWER + 2, 5.0))  # by one token
    assert best_span(longer, np.arange(2, LONGEST_ANSWER + 5), 0).score == 5.0


def test_its_share_is_the_product_of_both_softmaxes():
    said = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    said += np.array([800, -800], dtype=np.float32)  # beyond what `exp` can take
    found = best_span(said, np.arange(2, 7), 0)
    shares = torch.from_numpy(said).double().softmax(0)
    wanted = float(shares[2 + found.first, 0] * shares[1 + found.stop, 1]), float(shares[0].prod())
    assert (found.share, found.null_share) == pytest.approx(wanted, rel=1e-12)
    assert found.null == pytest.approx(said[0].sum())


def test_there_is_no_answer_where_a_window_that_shows_none_most_does_so_rather_than_the_best_span():
    best = best_span(logits(6, (0, 0, 1.0), (3, 4, 2.0)), np.arange(2, 6), 0)
    assert choose_answer([best], no_answer=True) == best
    even = best._replace(null=best.score)
    assert choose_answer([even], no_answer=True) == even
    lost = best._replace(null=best.score + 1)
    assert choose_answer([lost], no_answer=True) is None and choose_answer([lost], no_answer=False) == lost
    assert choose_answer([lost, best], no_answer=True) is not None


def test_that_there_is_no_answer_is_as_likely_as_the_window_says_that_shows_it_least():
    windows = [best_span(logits(6, (0, 0, null)), np.arange(2, 6), 0) for null in (9.0, 8.0)]
    (tokens,) = encode_with_spans(loaded("bert-nano", "span").tokenizer, [CONTEXT])
    assert answer_from_windows(CONTEXT, tokens, windows, no_answer=True) == (None, windows[1].null_share)
    assert windows[1].null_share < windows[0].null_share


@pytest.mark.parametrize(("first", "stop", "start", "end"), [(0, 7, 0, 5), (5, 9, 7, 9), (5, 7, 7, 7)])
def test_an_answer_neither_begins_nor_ends_with_white_space_that_is_a_token(
    first: int, stop: int, start: int, end: int
):
    tokenizer, context = loaded("bert-nano", "span", "characters").tokenizer, "Stop.\n\nGo \n"
    best = best_span(logits(12, (0, 0, 1.0)), np.arange(2, 12), 0)._replace(first=first, stop=stop)
    (tokens,) = encode_with_spans(tokenizer, [context])
    found, _ = answer_from_windows(context, tokens, [best], no_answer=False)
    assert found == {"text": context[start:end], "start": start, "end": end}


def say(monkeypatch: pytest.MonkeyPatch, score: Callable[[Tensor], Tensor | Scores]) -> None:
    """Have models say of each position what a function says of the tokens."""
    ask = Loaded.run

    def run(self: Loaded, **inputs: Any) -> Any:
        said = ask(self, **inputs)
        scores = score(inputs["tokens"])
        said.scores["span"] = scores if isinstance(scores, Scores) else Scores.from_logits(scores)
        return said

    monkeypatch.setattr(Loaded, "run", run)


def pointing(model: Loaded, first: str, last: str) -> Callable[[Tensor], Tensor]:
    """Scores that are highest where two words stand."""
    pair = [int(model.tokenizer.encode([word])[0][at]) for word, at in ((first, 0), (last, -1))]
    return lambda tokens: torch.stack([(tokens == word) * 20.0 for word in pair], -1)


def nearly_even(model: Loaded) -> Callable[[Tensor], Scores]:
    """Scores of 20 where `dogs` stands and of 20.02 where `running` does, which bfloat16 rounds to 20."""
    dogs, running = (int(model.tokenizer.encode([word])[0][0]) for word in (" dogs", " running"))
    weight = torch.full((2, 2), 20.0)

    def score(tokens: Tensor) -> Scores:
        states = torch.stack([(tokens == dogs) | (tokens == running), (tokens == running) * 0.001], -1)
        return Scores(states.bfloat16(), weight)

    return score


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe"])
@pytest.mark.parametrize("most", [40, 14])
def test_the_answer_has_its_place_in_the_context_however_many_windows_it_takes(
    most: int, kind: str, monkeypatch: pytest.MonkeyPatch
):
    model = loaded("bert-nano", {"span": {"stride": 3}}, kind, max_length=most)
    say(monkeypatch, pointing(model, " dogs", " running"))
    (found,) = Pipeline(model)("cats", pair=CONTEXT)
    assert found["input"] == ["cats", CONTEXT]
    assert found["output"] == {"text": "dogs running", "start": 43, "end": 55}
    assert CONTEXT[43:55] == "dogs running" and 0.9 < found["scores"] <= 1


def test_the_last_window_is_read_alike_alone_and_beside_longer_ones(monkeypatch: pytest.MonkeyPatch):
    model = loaded("bert-nano", {"span": {"stride": 3}}, max_length=14)
    point = pointing(model, " over", " trees")
    say(monkeypatch, lambda tokens: point(tokens) / 10)
    (found,) = Pipeline(model)("cats", pair=CONTEXT)
    monkeypatch.setattr("zoo.inference.predictors.span.BATCH", 1)
    (alone,) = Pipeline(model)("cats", pair=CONTEXT)
    assert found["output"] == alone["output"] and found["output"]["text"] == "over the trees"
    assert found["scores"] == pytest.approx(alone["scores"]) and found["scores"] < 0.9


def test_the_windows_are_those_of_the_task_where_the_model_reads_longer_ones(monkeypatch: pytest.MonkeyPatch):
    model = loaded("bert-nano", {"span": {"stride": 3}}, max_length=40)
    seen: list[int] = []
    say(monkeypatch, lambda tokens: seen.append(tokens.shape[1]) or torch.zeros(*tokens.shape, 2))  # type: ignore[func-returns-value]
    for length, windows in ((128, 1), (14, 2)):
        seen.clear()
        Pipeline(replace(model, task=replace(model.task, length=length)))("cats", pair=CONTEXT)
        assert max(seen) <= length and (max(seen) > 14) == (windows == 1)


def test_no_answer_is_none(monkeypatch: pytest.MonkeyPatch):
    model = loaded("bert-nano", {"span": {"no_answer": True}})
    say(monkeypatch, lambda tokens: torch.stack([(tokens == tokens[0, 0]) * 20.0] * 2, -1))
    (found,) = Pipeline(model)("cats", pair=CONTEXT)
    assert found["output"] is None and found["scores"] > 0.9


def test_a_split_is_measured_by_the_answers_over_all_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    known = (["dogs running"], ["red cat"], ["dogs"], ["red cat", "dogs"])  # of several the one counts that is nearest
    rows = [{"question": "cats", "context": CONTEXT, "answers": texts} for texts in known]
    rows.append({"question": "cats", "context": "the red cat", "answers": []})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    objective = {"span": {"stride": 3, "no_answer": True}}
    tree = {"objective": objective, "source": {"files": {"validation": str(tmp_path / "a.jsonl")}},
            "metrics": ["f1", "exact_match"], "length": 14}  # fmt: skip
    model = loaded("bert-nano", objective, max_length=14)
    point = pointing(model, " dogs", " running")  # 40 together; no answer has 20
    say(monkeypatch, lambda tokens: point(tokens) + (tokens == tokens[0, 0])[..., None] * 10.0)
    found = evaluate_split(
        replace(model, task=read_task(tree, "task")), "validation", None, GenerateSettings(), "float32"
    )
    assert found["span/exact_match"] == pytest.approx(100 * (1 + 1) / 5)
    assert found["span/f1"] == pytest.approx(100 * (1 + 0 + 2 / 3 + 2 / 3 + 1) / 5)


@pytest.mark.parametrize(("no_answer", "right"), [(False, 100), (True, 0)])
def test_a_split_where_every_question_has_an_answer_is_measured_by_answers_alone(
    no_answer: bool, right: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    row = {"question": "cats", "context": CONTEXT, "answers": ["dogs running"]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    objective = {"span": {"no_answer": no_answer}}
    tree = {"objective": objective, "source": {"files": {"validation": str(tmp_path / "a.jsonl")}},
            "metrics": ["exact_match"], "length": 40}  # fmt: skip
    model = loaded("bert-nano", objective, max_length=40)
    point = pointing(model, " dogs", " running")  # 40 together; no answer has 60
    say(monkeypatch, lambda tokens: point(tokens) + (tokens == tokens[0, 0])[..., None] * 30.0)
    found = evaluate_split(
        replace(model, task=read_task(tree, "task")), "validation", None, GenerateSettings(), "float32"
    )
    assert found["span/exact_match"] == right


def test_scores_that_bfloat16_rounds_to_one_number_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    row = {"question": "cats", "context": CONTEXT, "answers": ["running"]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    tree = {"objective": "span", "source": {"files": {"validation": str(tmp_path / "a.jsonl")}},
            "metrics": ["exact_match"], "length": 40}  # fmt: skip
    model = loaded("bert-nano", "span", max_length=40)
    say(monkeypatch, nearly_even(model))
    (found,) = Pipeline(model)("cats", pair=CONTEXT)
    assert found["output"]["text"] == "running"
    found = evaluate_split(
        replace(model, task=read_task(tree, "task")), "validation", None, GenerateSettings(), "float32"
    )
    assert found["span/exact_match"] == 100


@pytest.mark.parametrize(
    ("text", "pair", "said"),
    [
        ("cats", None, "this checkpoint answers questions: TEXT is the question; give the context to answer it from"),
        (" ", CONTEXT, "the question is empty"),
        ("cats", "", "the context is empty"),
        ("cats " * 30, CONTEXT, "the question is .* tokens too long: with a context, it may have 18"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(text: str, pair: str | None, said: str):
    with pytest.raises(ValueError, match=said):
        Pipeline(loaded("bert-nano", "span", max_length=40))(text, pair=pair)
