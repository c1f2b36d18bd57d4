"""What every variant has to learn: one bar each, those of most slots by a rule, so that a new variant has its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import texts  # noqa: F401  # its tasks are registered
from toys import TOYS, Toy

from zoo import create_model
from zoo.blocks.activation import activations
from zoo.blocks.attention import attentions
from zoo.blocks.backends.backend import backends
from zoo.blocks.block import blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import positions
from zoo.blocks.recurrence import cells
from zoo.blocks.rotary_scaling import scalings
from zoo.blocks.score import scores
from zoo.blocks.stage import stages
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.examples.form import forms
from zoo.inference.loaded import model_traits
from zoo.models.initialize import initializers
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.registry import Slot
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.schedules import schedules

Covered = set[tuple[str, str]]
GOAL = 0.99
MODEL = "model"  # the slot, so to say, of the models that zoo comes with


@dataclass(frozen=True)
class Bar:
    """What a variant has to learn.

    Args:
        slot, name: of the variant.
        toy: the task. model: one that zoo comes with, changed by `sets`.
        why: the reason for another task, size or length than its slot's rule gives.
    """

    slot: str
    name: str
    toy: str
    model: str
    steps: int
    sets: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    @property
    def task(self) -> Toy:
        return TOYS[self.toy]

    @property
    def device(self) -> str | None:
        """The only device that it can be learned on; None: any."""
        return backends[self.name].device if self.slot == backends.name else None

    def broken(self) -> "Bar":
        """The same for a model that lacks what the task needs."""
        taken = self.task.without
        kept = {key: value for key, value in self.sets.items() if not any(key.startswith(f"{k}.") for k in taken)}
        return replace(self, slot="broken", name=self.toy, sets={**kept, **taken}, why="")

    def covers(self) -> Covered:
        """All that has to work for it: the variant; of an objective its head and form, of a model its kinds."""
        found = {(self.slot, self.name)}
        if self.slot == objectives.name:
            mixture = Mixture.parse(self.task.task["objective"])
            row = self.task.splits()["validation"][0]
            form = mixture.form([*row], model_traits(create_model(self.model)))
            found |= {("head", head) for head in mixture.heads} | {("form", forms.name_of(form))}
        if self.slot == MODEL:
            parts = create_model(self.model).settings.parts
            found |= {(side, part.kind) for side, part in parts.items()}
        return found


@dataclass(frozen=True)
class Rule:
    """The bar of every variant of a slot, unless `OTHER` says otherwise.

    Args:
        at: the settings that name the variant.
    """

    slot: Slot[Any]
    at: tuple[str, ...]
    toy: str
    model: str
    steps: int
    sets: Mapping[str, Any] = field(default_factory=dict)

    def bars(self) -> Iterator[Bar]:
        for name in self.slot.names():
            bar = Bar(self.slot.name, name, self.toy, self.model, self.steps)
            other = dict(OTHER.get((self.slot.name, name), {}))
            choice = {"name": name, **other.pop("options", {})}
            sets = {**self.sets, **dict.fromkeys(self.at, choice), **other.pop("sets", {})}
            yield replace(bar, sets=sets, **other)


def both(key: str) -> tuple[str, ...]:
    """A setting of encoder and decoder."""
    return f"encoder.{key}", f"decoder.{key}"


XAVIER = {"initialize": "xavier"}  # a standard deviation of 0.02 is small for states of 32
NORMAL = {"initialize": "normal"}
PRE_NORM = {"encoder.block": "pre_norm"}
ENCODER = {**XAVIER, **PRE_NORM}
RECURRENT = {**ENCODER, "encoder.mixer": {"name": "recurrent"}, "encoder.n_layers": 1}
LONGER = {"factor": 2.0, "trained_length": 16}  # texts of the toys have up to 24 tokens
ROTARY = {**ENCODER, "encoder.position": "rotary"}
UNTRAINED = {"training.freeze": ["generator", "heads.masked_lm"]}  # what it learns would be hard to detect
PIXELS = {"name": "convolution", "width": 8, "kernel": 1}  # a position reads its own pixel
RULES = (
    Rule(norms, both("norm"), "copy", "transformer-nano", 400),
    Rule(activations, both("feed_forward.activation"), "copy", "transformer-nano", 400),
    Rule(feed_forwards, both("feed_forward"), "copy", "transformer-nano", 400),
    Rule(blocks, both("block"), "copy", "transformer-nano", 400),
    Rule(scores, both("attention.score"), "copy", "transformer-nano", 400),
    Rule(attentions, both("attention"), "copy", "transformer-nano", 400),
    Rule(mixers, both("mixer"), "copy", "transformer-nano", 400),
    Rule(positions, ("encoder.position",), "nearest", "bert-nano", 500, ENCODER),
    Rule(scalings, ("encoder.position.scaling",), "nearest", "bert-nano", 500, ROTARY),
    Rule(cells, ("encoder.mixer.cell",), "depth", "bert-nano", 400, RECURRENT),
    Rule(initializers, ("initialize",), "copy", "transformer-nano", 400),
    Rule(backends, ("training.attention_backend",), "partner", "bert-nano", 300, PRE_NORM),
    Rule(optimizers, ("training.optimizer",), "partner", "bert-nano", 300, PRE_NORM),
    Rule(schedules, ("training.schedule",), "partner", "bert-nano", 300, PRE_NORM),
    Rule(tokenizers, ("task.tokenizer",), "words again", "transformer-nano", 600),
)
STAGES: dict[str, list[Any]] = {"attention": [{**PIXELS, "kernel": 3}]}  # what stands before one that has no order
OTHER: dict[tuple[str, str], dict[str, Any]] = {  # by slot and name, what a variant's bar has beside its slot's rule
    ("attention", "grouped"): {"options": {"n_kv_heads": 2}},
    ("position", "none"): {"toy": "partner", "steps": 300, "sets": NORMAL, "why": "a task without order"},
    ("optimizer", "sgd"): {
        "steps": 600,
        "sets": {**XAVIER, "training.learning_rate": 0.3},
        "why": "it steps by gradients",
    },
    ("optimizer", "muon"): {"sets": {"training.learning_rate": 0.02}, "why": "its steps are as large as the rate"},
    ("optimizer", "adafactor"): {"sets": {"training.learning_rate": 0.05}, "why": "the rate is a share of a weight"},
    ("optimizer", "lion"): {
        "steps": 600,
        "sets": {"training.learning_rate": 1e-3},
        "why": "each step has the size of the rate",
    },
    ("backend", "blocked"): {"sets": {"training.precision": "bfloat16"}},
    ("initialize", "normal"): {"options": {"std": 0.1}, "why": "0.02 is small for states of 32"},
    ("initialize", "t5"): {"model": "t5-nano", "steps": 500, "why": "made for scores that are not divided"},
    ("initialize", "mimetic"): {"options": {"std": 0.1}, "why": "0.02 is small for states of 32"},
    ("schedule", "noam"): {"sets": {"training.learning_rate": 0.1}, "why": "the rate is a factor"},
    ("position", "relative"): {"steps": 800},
    ("rotary_scaling", "linear"): {"options": {"factor": 2.0}},
    ("score", "dot"): {"model": "t5-nano", "steps": 500, "why": "queries begin smaller where scores are not divided"},
}
OTHER |= {("tokenizer", name): {"options": {"vocab_size": 300}} for name in tokenizers.names() if name != "characters"}
OTHER |= {("rotary_scaling", name): {"options": LONGER} for name in scalings.names() if name != "linear"}
OTHER["rotary_scaling", "yarn"] |= {"steps": 800}
OPTIONS = ({"window": 2}, {"sinks": True}, {"qk_norm": True})
WINDOW, SINKS, NORMED = ({"encoder.attention": {"name": "full", **option}} for option in OPTIONS)
LINES = (  # options that change what is computed, and slots whose variants each need a task of their own
    Bar("attention", "full", "previous", "bert-nano", 300, {**ENCODER, **WINDOW}, "window: 2"),
    Bar("attention", "full", "partner", "bert-nano", 300, {**PRE_NORM, **SINKS}, "sinks: true"),
    Bar("attention", "full", "partner", "bert-nano", 300, {**PRE_NORM, **NORMED}, "qk_norm: true"),
    Bar("objective", "tagging", "partner", "bert-nano", 300, PRE_NORM),
    Bar("objective", "classification", "same letters", "bert-nano", 800, ENCODER),
    Bar("objective", "classification", "which letters", "bert-nano", 300, ENCODER),
    Bar("objective", "classification", "share", "bert-nano", 300, ENCODER),
    Bar("objective", "classification", "stripes", "cnn-attention-nano", 100),
    Bar("objective", "similarity", "similar", "gpt2-nano", 900, XAVIER),
    Bar("objective", "span", "asked word", "bert-nano", 500, ENCODER),
    Bar("objective", "choice", "same choice", "bert-nano", 500, ENCODER),
    Bar("objective", "masked_lm", "which word", "bert-nano", 500, ENCODER),
    Bar("objective", "replaced_token", "odd one out", "electra-nano", 600, {**ENCODER, **UNTRAINED}),
    Bar("objective", "next_sentence", "second sentence", "bert-nano", 1000, ENCODER),
    Bar("objective", "next_sentence", "order of sentences", "bert-nano", 1000, ENCODER),
    Bar("objective", "causal_lm", "reverse", "gpt2-nano", 600, XAVIER),
    Bar("objective", "causal_lm", "reverse in turns", "gpt2-nano", 800, XAVIER),
    Bar("objective", "translation", "copy", "transformer-nano", 400),
    Bar("objective", "prefix_lm", "the rest", "t5-nano", 2000),
    Bar("objective", "span_corruption", "missing part", "t5-nano", 1500),
    Bar("objective", "captioning", "caption", "captioner-rnn-nano", 400),
    Bar(MODEL, "bert-nano", "partner", "bert-nano", 500),
    Bar(MODEL, "electra-nano", "partner", "electra-nano", 500),
    Bar(MODEL, "bert-modern-nano", "partner", "bert-modern-nano", 300),
    Bar(MODEL, "gpt-nano", "sort", "gpt-nano", 600, XAVIER),
    Bar(MODEL, "gpt2-nano", "sort", "gpt2-nano", 600, XAVIER),
    Bar(MODEL, "gpt-modern-nano", "reverse", "gpt-modern-nano", 1200, XAVIER),
    Bar(MODEL, "transformer-nano", "copy", "transformer-nano", 400),
    Bar(MODEL, "t5-nano", "copy", "t5-nano", 500),
    Bar(MODEL, "rnn-attention-nano", "copy", "rnn-attention-nano", 400),
    Bar(MODEL, "rnn-seq2seq-nano", "copy", "rnn-seq2seq-nano", 1500),
    Bar(MODEL, "cnn-attention-nano", "stripes", "cnn-attention-nano", 100),
    Bar(MODEL, "captioner-rnn-nano", "caption", "captioner-rnn-nano", 400),
    Bar(MODEL, "captioner-transformer-nano", "caption", "captioner-transformer-nano", 400),
    Bar(MODEL, "rnn-classifier", "brackets", "rnn-classifier", 400),
)


def stage_bars() -> Iterator[Bar]:
    """A network in which that stage is the one that reads neighbors."""
    for name in stages.names():
        width = {"width": 16} if "width" in stages.options(name) else {}
        layers = [*STAGES.get(name, [PIXELS]), {"name": name, **width}]
        yield Bar(stages.name, name, "stripes", "cnn-attention-nano", 100, {"encoder.stages": layers})


BARS = (*stage_bars(), *(bar for rule in RULES for bar in rule.bars()), *LINES)
BROKEN = tuple({bar.toy: bar for bar in reversed(BARS)}[name].broken() for name in TOYS)
