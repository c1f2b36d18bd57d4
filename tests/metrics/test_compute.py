"""Metrics: their values against scikit-learn, sacrebleu and hand formulas, without network or files."""

import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import evaluate
import pytest
import sacrebleu
import scipy.stats
from sklearn.metrics import f1_score, matthews_corrcoef
from squad import compute_exact, compute_f1, normalize_answer

from patience import HANGS
from zoo.hub.modeling.metric import EvaluateMetric
from zoo.metrics.metric import compute, metrics

SOURCE = Path(__file__).parents[2] / "src"
MEASURED: dict[str, dict[str, list[Any]]] = {
    "classes": {"predictions": [0, 1, 1], "references": [0, 1, 0]},
    "tags": {"predictions": [["B-a", "O"], ["O"]], "references": [["B-a", "I-a"], ["O"]]},
    "sets": {"predictions": [[0, 1], [1, 1]], "references": [[0, 1], [1, 0]]},
    "numbers": {"predictions": [0.5, 2.0, 2.5], "references": [1.0, 3.0, 2.0]},
    "answers": {"predictions": ["the cat", "no"], "references": [["a cat", "dogs"], [""]]},
    "texts": {"predictions": ["a b c d e"], "references": [["a b c d f"]]},
    "loss": {"loss": [2.0, 3.0], "count": [2, 3], "bytes": [4, 6]},
}


def test_accuracy_is_the_share_of_right_answers():
    assert compute("accuracy", predictions=[2, 1, 0, 1, 1], references=[2, 1, 1, 0, 1]) == pytest.approx(3 / 5)


def test_f1_of_two_classes_is_that_of_class_one():
    # of class 1: 2 right of 3 predicted and 4 true
    value = compute("f1", predictions=[1, 1, 1, 0, 0, 0], references=[1, 1, 0, 1, 1, 0])
    assert value == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_f1_of_more_classes_is_the_mean_over_them():
    predictions, references = [0, 1, 2, 2, 1, 0, 0], [0, 2, 2, 1, 1, 0, 1]
    by_class = f1_score(references, predictions, average=None)
    assert compute("f1", predictions=predictions, references=references) == pytest.approx(by_class.mean())


def test_f1_knows_a_third_class_that_does_not_occur():
    inputs = {"predictions": [0, 0, 1], "references": [0, 1, 1]}
    assert compute("f1", **inputs, classes=3) == pytest.approx(f1_score([0, 1, 1], [0, 0, 1], average="macro"))
    assert compute("f1", **inputs) == compute("f1", **inputs, classes=2) == pytest.approx(2 / 3)


def test_f1_without_a_right_answer_is_zero():
    assert compute("f1", predictions=[0, 0], references=[1, 1]) == 0.0


def test_matthews_follows_its_formula():
    # true positives 3, true negatives 1, false positives 1, false negatives 2
    predictions, references = [1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 1, 1]
    expected = (3 * 1 - 1 * 2) / math.sqrt(4 * 5 * 2 * 3)
    assert compute("matthews", predictions=predictions, references=references) == pytest.approx(expected)


def test_matthews_takes_more_classes_and_constants():
    predictions, references = [0, 1, 2, 2], [0, 2, 2, 1]
    expected = matthews_corrcoef(references, predictions)
    assert compute("matthews", predictions=predictions, references=references) == pytest.approx(expected)
    assert compute("matthews", predictions=[1, 1, 1], references=[0, 1, 1]) == 0.0


def test_f1_of_several_classes_at_once_counts_pairs_or_means_over_classes():
    predictions, references = [[1, 0, 1], [0, 1, 0], [1, 1, 0]], [[1, 0, 0], [0, 1, 1], [0, 1, 0]]
    # of all nine pairs: 3 right of 5 predicted and 4 true
    assert compute("f1_micro", predictions=predictions, references=references) == pytest.approx(2 * 3 / (5 + 4))
    by_class = f1_score(references, predictions, average=None, zero_division=0)
    assert compute("f1_macro", predictions=predictions, references=references) == pytest.approx(by_class.mean())


def test_f1_of_what_is_neither_predicted_nor_true_is_zero():
    """Not 1, which would lift the mean by each class that a split lacks."""
    assert compute("f1", predictions=[0, 0], references=[0, 0], classes=2) == 0.0
    for name in ("f1_micro", "f1_macro"):
        assert compute(name, predictions=[[0, 0], [0, 0]], references=[[0, 0], [0, 0]]) == 0.0
    assert compute("f1_macro", predictions=[[1, 0], [0, 0]], references=[[1, 0], [0, 0]]) == 1 / 2


@pytest.mark.parametrize("name", ["f1_micro", "f1_macro"])
def test_f1_of_sets_of_one_class_is_that_of_the_class(name: str):
    assert compute(name, predictions=[[1], [0], [0], [1]], references=[[0], [0], [0], [1]]) == pytest.approx(2 / 3)
    assert compute(name, predictions=[[1], [0]], references=[[0], [0]]) == 0.0


def test_correlations_are_scipys_and_zero_for_a_constant():
    predictions, references = [0.5, 2.0, 2.5, 2.5, -1.0], [1.0, 3.0, 2.0, 5.0, 0.0]
    for name, judge in (("pearson", scipy.stats.pearsonr), ("spearman", scipy.stats.spearmanr)):
        expected = judge(references, predictions).statistic
        assert compute(name, predictions=predictions, references=references) == pytest.approx(expected)
        for said, true in (([1.0, 1.0], [0.0, 3.0]), ([0.0, 1.0], [3.0, 3.0]), ([1.0], [2.0])):
            assert compute(name, predictions=said, references=true) == 0.0
        assert compute(name, predictions=[0.0, 1.0], references=[0.0, 1.0]) == pytest.approx(1.0)


def test_the_squared_error_is_a_mean():
    assert compute("mse", predictions=[1.0, 3.0], references=[0.0, 1.0]) == pytest.approx((1 + 4) / 2)


def test_bleu_and_chrf_are_sacrebleus_over_the_corpus():
    predictions = ["the cat sat on the mat", "a dog runs in the park today"]
    references = [["the cat sat on a mat"], ["a dog runs in a park today"]]
    column = [[texts[0] for texts in references]]
    inputs = {"predictions": predictions, "references": references}
    assert compute("bleu", **inputs) == pytest.approx(sacrebleu.corpus_bleu(predictions, column).score)
    assert compute("chrf", **inputs) == pytest.approx(sacrebleu.corpus_chrf(predictions, column).score)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_examples_may_have_different_numbers_of_references(name: str):
    predictions = ["the cat sat on the mat", "a dog runs in the park today"]
    both = [["the cat sat on a mat", "the cat sat on the mat"], ["a dog runs in the park today"]]
    assert compute(name, predictions=predictions, references=both) == pytest.approx(100.0)
    assert compute(name, predictions=predictions, references=[both[0][:1], both[1]]) < 100.0


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_empty_predictions_score_nothing(name: str):
    assert compute(name, predictions=["", ""], references=[["a b c d"], ["e f"]]) == 0.0


def test_sequence_accuracy_counts_texts_that_are_a_reference_to_the_letter():
    predictions, references = ["a b", "a  b", "b", ""], [["a b"], ["a b"], ["a", "b"], ["a"]]
    assert compute("sequence_accuracy", predictions=predictions, references=references) == 2 / 4


def test_a_text_without_references_is_refused():
    with pytest.raises(ValueError, match=r"references\[1\]: an example needs at least one reference"):
        compute("bleu", predictions=["a", "b"], references=[["a"], []])


def test_perplexity_weighs_batches_by_their_tokens():
    value = compute("perplexity", loss=[3 * math.log(4), 1 * math.log(256)], count=[3, 1])
    assert value == pytest.approx((4**3 * 256) ** (1 / 4))


def test_predictions_that_are_no_numbers_do_not_end_the_training_that_validates_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("scipy.stats.pearsonr", lambda *_: pytest.fail("old versions refuse such predictions"))
    diverged = {"predictions": [math.nan, 1.0, 2.0], "references": [1.0, 2.0, 4.0]}
    assert all(math.isnan(compute(name, **diverged)) for name in ("mse", "pearson", "spearman"))
    infinite = {"predictions": [math.inf, 1.0, 2.0], "references": [1.0, 2.0, 4.0]}
    assert compute("mse", predictions=[math.inf, 1e200], references=[1.0, 2.0]) == math.inf
    assert math.isnan(compute("pearson", **infinite)) and compute("spearman", **infinite) == pytest.approx(-0.5)


def test_a_perplexity_too_large_for_a_number_is_infinite():
    assert compute("perplexity", loss=[1e6], count=[1]) == math.inf


def brevity_free(predictions: list[str], references: list[list[str]], longest: int) -> float:
    """The geometric mean of the clipped precisions, for predictions as long as a reference (Papineni et al. 2002)."""
    logs = 0.0
    for n in range(1, longest + 1):
        right = asked = 0
        for said, texts in zip(predictions, references, strict=True):
            counts = [
                Counter(zip(*(text.lower().split()[i:] for i in range(n)), strict=False)) for text in [said, *texts]
            ]
            asked += counts[0].total()
            right += sum(min(count, max(known[gram] for known in counts[1:])) for gram, count in counts[0].items())
        logs += math.log(right / asked) / longest
    return 100 * math.exp(logs)


@pytest.mark.parametrize("longest", [1, 2, 3, 4])
def test_bleu_of_short_n_grams_is_that_of_its_formula_with_all_references(longest: int):
    predictions = ["A dog runs over the green grass", "two men stand in the snow"]
    references = [["a dog runs on the green grass", "The dog runs over some lawn now"], ["Two men stand in deep snow"]]
    value = compute(f"bleu-{longest}", predictions=predictions, references=references)
    assert value == pytest.approx(brevity_free(predictions, references, longest))


def test_bits_per_byte_of_a_fair_coin_for_each_byte_is_one():
    assert compute("bits_per_byte", loss=[5 * math.log(2), 2 * math.log(2)], bytes=[5, 2]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", metrics.names())
def test_every_metric_says_what_it_needs_and_can_be_evaluates(name: str):
    metric = EvaluateMetric(name)
    assert isinstance(metric, evaluate.Metric)
    assert metric.name == metrics[name]().name == name
    assert isinstance(metrics[name].higher_is_better, bool)
    given = {key: MEASURED[metrics[name].needs][key] for key in metrics[name].inputs}
    for half in (slice(0, 1), slice(1, None)):
        if given[next(iter(given))][half]:
            metric.add_batch(**{key: values[half] for key, values in given.items()})
    collected = metric.compute()
    assert collected == {name: compute(name, **given)}


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        ("The cat, sat!", ["a dog", "cat sat"], 100, 100),  # case, punctuation and articles do not count
        ("the black cat", ["cat sat"], 0, 50),  # one of two words found, one of two words right
        ("cat cat dog", ["cat dog dog"], 0, 200 / 3),  # words count as often as both have them
        ("", [""], 100, 100),
        ("cat", [""], 0, 0),
        ("", ["cat"], 0, 0),
        ("cat", ["the", "cat"], 100, 100),  # an answer of articles alone is none
        ("서울에서", ["서울"], 0, 0),  # words are what stands between spaces, in any language
    ],
)
def test_answers_are_compared_by_squads_rules(prediction: str, answers: list[str], exact: float, f1: float):
    given = {"predictions": [prediction], "references": [answers]}
    assert compute("exact_match", **given) == exact and compute("span/f1", **given) == pytest.approx(f1)


def test_answers_are_measured_as_by_squads_own_script():
    texts = ["the Denver Broncos", "in 1066.", "a", "An apple a day", "Zoë's  cat", "“Norman”", ""]
    references = [
        ["Denver Broncos", "Broncos"],
        ["1066"],
        ["a", "the"],
        ["apple"],
        ["zoës cat"],
        ["Norman"],
        ["a", "cat"],
    ]
    ours = [compute(name, predictions=texts, references=references) for name in ("exact_match", "span/f1")]
    golds = [[a for a in answers if normalize_answer(a)] or [""] for answers in references]
    pairs = list(zip(texts, golds, strict=True))
    exact = [max(compute_exact(a, text) for a in answers) for text, answers in pairs]
    f1 = [max(compute_f1(a, text) for a in answers) for text, answers in pairs]
    assert ours == pytest.approx([100 * sum(each) / len(each) for each in (exact, f1)])


def test_tags_that_make_no_spans_are_told_to_be_measured_otherwise():
    assert metrics["tagging/f1"]().obstacle(["O", "B-a", "I-a"]) is None
    said = metrics["tagging/f1"]().obstacle(["O", "NOUN"])
    assert said is not None and said.endswith("got NOUN; try accuracy")


def test_spans_by_other_letters_have_the_same_f1():
    true = ["S-a", "S-a", "O", "B-b", "E-b", "B-b", "E-b", "S-a", "S-a"]
    said = ["S-a", "S-b", "O", "B-b", "E-b", "B-b", "I-b", "S-a", "I-a"]  # the last two are no span of two words
    asked = [[[tag.translate(str.maketrans("SE", "UL")) for tag in tags]] for tags in (said, true)]
    same = compute("tagging/f1", predictions=[said], references=[true])
    assert compute("tagging/f1", predictions=asked[0], references=asked[1]) == same == pytest.approx(5 / 6)


@pytest.mark.parametrize("name", [name for name in metrics.names() if metrics[name].best is not None])
def test_predictions_that_are_all_right_have_the_best_value(name: str):
    right = MEASURED[metrics[name].needs]["references"]
    said = [answers[0] for answers in right] if metrics[name].needs in ("answers", "texts") else right
    assert compute(name, predictions=said, references=right) == pytest.approx(metrics[name].best)


@pytest.mark.parametrize("name", metrics.names())
def test_nothing_to_measure_and_inputs_of_different_lengths_are_refused(name: str):
    given: dict[str, list[Any]] = {key: [] for key in metrics[name].inputs}
    with pytest.raises(ValueError, match="there is nothing to measure"):
        compute(name, **given)
    for number, (key, values) in enumerate(given.items(), start=1):
        values += [MEASURED[metrics[name].needs][key][0]] * number
    with pytest.raises(ValueError, match=rf"^{name}: needs as many .*: 1, .*: 2}}$"):
        compute(name, **given)


def test_counts_that_sum_to_zero_are_refused():
    with pytest.raises(ValueError, match=r"count: there is nothing to measure \(their sum is 0\)"):
        compute("perplexity", loss=[1.0], count=[0])


def test_an_unknown_metric_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown metric 'acuracy' \(did you mean 'accuracy'\?\)"):
        compute("acuracy", predictions=[1], references=[1])


def test_metrics_open_no_connection_and_leave_no_file(tmp_path: Path):
    script = (
        "import socket\n"
        "def refuse(*arguments, **options): raise AssertionError('a metric opened a connection')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from zoo.metrics.metric import compute\n"
        "compute('accuracy', predictions=[1], references=[1])\n"
        "compute('bleu', predictions=['a'], references=[['a']])\n"
        "print('done')"
    )
    home = tmp_path / "home"
    temporary = tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "XDG_", "SACREBLEU"))}
    environment = {**kept, "PYTHONPATH": str(SOURCE), "HOME": str(home), "TMPDIR": str(temporary)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS
    )
    assert run.stdout == "done\n", run.stderr
    assert [path for path in tmp_path.rglob("*") if path not in (home, temporary)] == []
