"""Word vectors from the words that stand near: counts, information, and neighbors that mean the same."""

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from programs import load_program
from zoo.experiments.request import Request
from zoo.models.vectors import read_vectors
from zoo.training.state import State


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_program("benchmarks/word_vectors.py")


def test_neighbors_are_counted_inside_texts_up_to_the_window(benchmark: Any):
    known, texts = benchmark.index_words(["a b a c", "B a!"], 3)
    assert known == ["a", "b", "c"]
    counts = benchmark.count_cooccurrences(texts, 3, 2).toarray()
    # "a b a c": a-b, b-a, a-c; a-a, b-c two apart; "b a": b-a; "!" is no known word, and no text reaches the next
    np.testing.assert_array_equal(counts, [[2, 3, 1], [3, 0, 1], [1, 1, 0]])


def test_a_run_is_trained_by_zoos_command_and_goes_on_where_it_is_there(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Request] = []

    def train(request: Request, watcher: object) -> State:
        asked.append(request)
        request.folder.mkdir(exist_ok=True)
        (request.folder / "metrics.jsonl").write_text('{"step": 7, "validation/classification/accuracy": 0.5}\n')
        return State(step=7)

    monkeypatch.setattr("zoo.cli.commands.train.run_pretrain", train)
    options = Namespace(folder=tmp_path, model="rnn-classifier", task="sst2")
    assert [benchmark.train(options, 20, "frozen", 1) for options.steps in (7, 7, 8)] == [50.0, 50.0, 50.0]
    first, second, longer = asked
    assert (first.start, first.task, first.folder) == ("rnn-classifier", "sst2", tmp_path / "20-frozen-7-1")
    assert (("embeddings", "frozen"), True) in first.sets and (("training", "steps"), 7) in first.sets
    assert not first.resume and second.resume and not longer.resume  # which has another schedule


def test_information_is_that_of_the_formula_and_never_below_0(benchmark: Any):
    counts = benchmark.csr_matrix(np.array([[0.0, 6.0], [6.0, 1.0]]))
    information = benchmark.positive_pmi(counts).toarray()
    contexts = np.array([6.0, 7.0]) ** 0.75
    expected = math.log(6 / (6 * contexts[1] / contexts.sum()))
    assert information[0, 1] == pytest.approx(expected) and information[1, 1] == 0


def test_words_in_the_same_places_have_the_nearest_vectors(benchmark: Any, tmp_path: Path):
    places = ["the {} drinks milk", "a {} chases mice", "my {} sleeps all day"]
    others = ["the {} drives fast", "a {} needs fuel", "my {} has four wheels"]
    texts = [place.format(word) for word in ("cat", "kitten") for place in places]
    texts += [place.format(word) for word in ("car", "truck") for place in others]
    vectors = benchmark.compute_vectors(texts * 3, 4, 40, 3)
    assert all(np.linalg.norm(vector) == pytest.approx(1) for vector in vectors.values())
    assert vectors["cat"] @ vectors["kitten"] > 0.9 > 0.5 > vectors["cat"] @ vectors["car"]
    benchmark.write_vectors(vectors, tmp_path / "vectors.txt")
    read = read_vectors(tmp_path / "vectors.txt", 4, {"cat"})
    np.testing.assert_allclose(read["cat"], vectors["cat"], atol=1e-5)


def test_the_table_has_the_mean_and_the_deviation_of_the_seeds(benchmark: Any):
    by_start = {"random": [80.0, 82.0], "vectors": [85.0], "frozen": [70.0, 70.0]}
    lines = benchmark.markdown_table({"1000": by_start, "0": by_start}).splitlines()
    assert lines[0] == "| validation accuracy, % | 1,000 examples | all examples |"
    assert [line.split(" | ")[1] for line in lines[2:]] == ["81.0 ± 1.4", "85.0 ± 0.0", "70.0 ± 0.0"]
