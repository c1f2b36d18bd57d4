"""Which metrics a task's list names."""

import pytest

from zoo.metrics.choose import ChosenMetric, parse_metrics
from zoo.objectives.objective import objectives

OFFERED = {
    "masked_lm": ("perplexity", "accuracy"),
    "next_sentence": ("accuracy",),
    "classification": ("accuracy", "f1"),
}


def test_a_bare_name_belongs_to_the_first_objective_that_offers_it():
    assert parse_metrics(["f1", "accuracy"], OFFERED) == [
        ChosenMetric("classification", "f1"),
        ChosenMetric("masked_lm", "accuracy"),
    ]


def test_a_full_name_picks_its_objective():
    chosen = parse_metrics(["next_sentence/accuracy", "perplexity"], OFFERED)
    assert [metric.name for metric in chosen] == ["next_sentence/accuracy", "masked_lm/perplexity"]
    assert [metric.variant.higher_is_better for metric in chosen] == [True, False]


@pytest.mark.parametrize("objective", objectives.names())
def test_an_objective_offers_registered_metrics(objective: str):
    chosen = parse_metrics(list(objectives[objective].metrics), {objective: objectives[objective].metrics})
    lower = {"perplexity", "bits_per_byte", "mse"}
    assert {metric.metric for metric in chosen if not metric.variant.higher_is_better} <= lower
    assert not any(metric.variant.higher_is_better for metric in chosen if metric.metric in lower)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            ["f1", "acuracy"],
            r"unknown metric of .* 'acuracy' \(did you mean 'accuracy'\?\); allowed: perplexity, accuracy, f1$",
        ),
        (["next_sentense/accuracy"], r"unknown objective 'next_sentense' \(did you mean 'next_sentence'\?\)"),
        (["next_sentence/f1"], r"unknown metric of next_sentence 'f1'; allowed: accuracy"),
        (["accuracy", "masked_lm/accuracy"], r"task\.metrics\[1\]: the metric 'masked_lm/accuracy' is named twice"),
    ],
)
def test_a_wrong_list_is_refused_with_what_is_allowed(value: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        parse_metrics(value, OFFERED)
