"""ELECTRA's two encoders have the losses of transformers' two classes, trained together on the same rows."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_beside_trainer import BATCH, EPS, STEPS, Case, native
from tiny import alone, lines, settings
from torch.nn import functional as F

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.models.create import create_model
from zoo.models.heads.scores import Scores
from zoo.models.model import Model
from zoo.runs.run import RunFiles
from zoo.training.loop import train
from zoo.training.start import start_run

RATE, WEIGHT, DECAY = 0.01, 50.0, 0.1  # the weight of the detection: appendix A of the paper
LOSSES = ("loss", "loss/replaced_token", "loss/masked_lm", "gradient_norm")
DETECTOR, GUESSER = Case("replaced_token", "electra-nano"), Case("masked_lm", "electra-nano")
SHARED = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")


def guesser(model: Model) -> Model:
    """The generator, a quarter as wide as electra-nano, as a model of its own."""
    sizes = {"d_model": 8, "encoder": {"n_heads": 1, "d_ff": 12}, "vocab_size": model.settings.vocab_size}
    made = create_model("electra-nano", heads=["masked_lm"], dropout=0.0, **sizes)
    own = {name.replace("generator.", "encoder.", 1): t for name, t in model.state_dict().items()
           if name.startswith(("generator.", "heads.masked_lm."))}  # fmt: skip
    made.load_state_dict(own)
    return made


class Theirs:
    """Clark et al. 2020, equations 1 to 3, with transformers' ElectraForMaskedLM and ElectraForPreTraining."""

    def __init__(self, model: Model) -> None:
        self.detector, self.guesser = native(model, DETECTOR).train(), native(guesser(model), GUESSER).train()
        read, guessed = self.detector.electra.embeddings, self.guesser.electra.embeddings
        for name in SHARED:
            setattr(guessed, name, getattr(read, name))
        self.guesser.generator_lm_head.weight = read.word_embeddings.weight
        both = (*self.detector.parameters(), *self.guesser.parameters())
        self.parameters = list({id(p): p for p in both}.values())
        groups = [{"params": [p for p in self.parameters if (p.dim() > 1) == wide], "weight_decay": DECAY * wide}
                  for wide in (True, False)]  # fmt: skip
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, eps=EPS)

    def step(self, part: MicroBatch) -> list[float]:
        """The losses of one step, and the length of its gradient."""
        inputs: Any = part.inputs
        tokens, mask = inputs["tokens"], (inputs["documents"].numbers > 0).long()
        beside = {"attention_mask": mask, "token_type_ids": inputs["segments"]}
        places = inputs["places"]["masked_lm"]
        hidden, text = places[places >= 0], part.targets["replaced_token"]
        logits = self.guesser(tokens, **beside).logits.flatten(0, 1)[hidden]
        guess = F.cross_entropy(logits, text.flatten()[hidden])
        drawn = Scores.from_logits(logits).sample(inputs["draws"].flatten()[hidden])
        read = tokens.flatten().index_put((hidden,), drawn).view_as(tokens)
        labels = ((read != text) & (mask > 0)).long()
        detection = self.detector(read, labels=labels, **beside).loss
        loss = guess + WEIGHT * detection
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return [float(value.detach()) for value in (loss, detection, guess, norm)]


def test_our_losses_are_those_of_both_classes(tmp_path: Path):
    model = DETECTOR.build().initialize(0)
    examples = DETECTOR.examples(model)
    feed, theirs = Feed(examples), Theirs(model)
    found = [theirs.step(feed.collate(feed.take(BATCH), BATCH)) for _ in range(STEPS)]
    optimizer = {"name": "adamw", "weight_decay": DECAY, "eps": EPS}
    given = settings(steps=STEPS, batch=BATCH, learning_rate=RATE, clip=1.0, optimizer=optimizer)
    with start_run(alone(), tmp_path, RunFiles({}), resume=False) as run:
        train(model, Feed(examples), examples.mixture, given, run, alone())
    ours = [[line[name] for name in LOSSES] for line in lines(tmp_path)]
    assert ours == [pytest.approx(step, rel=2e-5) for step in found]
    assert len({step[1] for step in found}) == STEPS
