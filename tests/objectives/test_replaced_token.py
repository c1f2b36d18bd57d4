"""Claims about replaced tokens: what is hidden, drawn and scored, and that it is what ELECTRA's class computes."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.nn import functional as F
from transformers import ElectraConfig, ElectraForPreTraining

from zoo.batches.collate import MicroBatch, collate
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.data.ids import Lengths, Roles
from zoo.inference.loaded import model_traits
from zoo.models.create import create_model
from zoo.models.heads.scores import DRAW_BITS, Scores
from zoo.objectives.kinds.replaced_token import ReplacedToken
from zoo.objectives.mixture import Mixture

ROLES = Roles(50, pad=0, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
MODEL = create_model("electra-nano", heads=["replaced_token", "masked_lm"], vocab_size=50, dropout=0.0)
TARGETS = torch.tensor([[0, 1, 0, 0, -1], [1, 0, 1, -1, -1]])
LOGITS = torch.tensor([[0.3, 2.0, -1.0, 0.4, 9.0], [-0.5, -2.0, 1.0, 9.0, -9.0]], dtype=torch.float64)


def given() -> Examples:
    """Forty documents of 2 to 16 tokens: a row holds one to five."""
    generator, mixture = np.random.default_rng(5), Mixture.parse("replaced_token")
    offsets = np.cumsum([0, *generator.integers(2, 17, size=40)])
    ids = generator.integers(7, 50, size=offsets[-1])
    form = mixture.form(["text"], model_traits(MODEL))
    shape = RowShape(32, longest=20)
    return Examples(form, mixture, Lengths({"text": offsets}), lambda p: ids[p.start : p.stop], ROLES, shape)


def part(rows: slice = slice(4), size: int = 4, epoch: int = 0) -> MicroBatch:
    examples = given()
    return collate(examples.rows(epoch, 0)[rows], examples, size)


def test_the_generator_is_trained_beside_it_on_masks_alone():
    mixture = Mixture.parse("replaced_token")
    assert mixture.heads == ["replaced_token", "masked_lm"]
    weights = {name: member.weight for name, member in mixture.members.items()}
    assert weights == {"replaced_token": 50.0, "masked_lm": 1.0}
    assert vars(mixture.members["masked_lm"]) == vars(Mixture.parse(
        {"masked_lm": {"masked": 1.0, "random": 0.0}}).members["masked_lm"])  # fmt: skip


@pytest.mark.parametrize("names", [["replaced_token", "masked_lm"], ["masked_lm", "replaced_token"]])
def test_a_task_may_say_otherwise_in_whichever_order(names: list[str]):
    said: dict[str, Any] = {"masked_lm": {"share": 0.25, "masked": 0.85}, "replaced_token": {"weight": 20.0}}
    mixture = Mixture.parse({name: said[name] for name in names})
    assert mixture.heads == ["replaced_token", "masked_lm"] and mixture.members["replaced_token"].weight == 20.0
    hidden = vars(mixture.members["masked_lm"])
    assert (hidden["share"], hidden["masked"], hidden["random"]) == (0.25, 0.85, 0.0)


def test_every_position_of_a_document_is_scored_and_targets_are_the_texts_own_tokens():
    batch = part()
    inputs: Any = batch.inputs
    targets, places = batch.targets["replaced_token"].clone(), inputs["places"]["masked_lm"]
    assert torch.equal(targets >= 0, inputs["documents"].numbers > 0) and (targets == ROLES.start).any()
    chosen = places[places >= 0]
    assert len(chosen) and (inputs["tokens"].flatten()[chosen] == ROLES.mask).all()
    assert torch.equal(targets.flatten()[chosen], batch.targets["masked_lm"][places >= 0])
    targets.view(-1)[chosen] = ROLES.mask
    assert torch.equal(targets.where(targets >= 0, inputs["tokens"]), inputs["tokens"])


def test_draws_depend_on_the_example_and_the_epoch_alone():
    together, alone, later = part(), part(slice(2, 3), 1), part(epoch=1)
    draws: Any = together.inputs["draws"]
    assert torch.equal(draws[2:3], alone.inputs["draws"]) and not torch.equal(draws, later.inputs["draws"])
    assert draws.max() < 2**DRAW_BITS and draws.max() > 2 ** (DRAW_BITS - 3)


def test_a_guess_that_is_the_texts_own_token_is_an_original():
    own = torch.tensor([[7, 8, 9, -1]])
    read = torch.tensor([[7, 5, 9, 0]])
    assert ReplacedToken().final_targets(own, read).tolist() == [[0, 1, 0, -1]]


def test_its_loss_is_that_of_transformers_class():
    config = ElectraConfig(vocab_size=11, embedding_size=4, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    theirs = ElectraForPreTraining(config).eval()
    theirs.discriminator_predictions.forward = lambda states: LOGITS
    mask = (TARGETS >= 0).long()
    wanted = theirs(torch.ones_like(mask), attention_mask=mask, labels=TARGETS).loss
    term = ReplacedToken().term(Scores.from_logits(LOGITS[..., None]), TARGETS)
    torch.testing.assert_close(term.sum / term.count, wanted.double())
    assert int(term.count) == int(ReplacedToken().count(TARGETS)) == 7 and term.weight == 50.0


def test_smoothed_labels_are_spread_over_both_answers():
    found = ReplacedToken(label_smoothing=0.2).term(Scores.from_logits(LOGITS[..., None]), TARGETS)
    known = TARGETS >= 0
    wanted = torch.where(TARGETS == 1, 0.9, 0.1).double()[known]
    torch.testing.assert_close(found.sum, F.binary_cross_entropy_with_logits(LOGITS[known], wanted, reduction="sum"))
    with pytest.raises(ValueError, match=r"objective replaced_token: label_smoothing must be in \[0, 1\), got 1.0"):
        ReplacedToken(label_smoothing=1.0)


def test_what_it_measures_is_what_scikit_learn_measures():
    term = ReplacedToken().term(Scores.from_logits(LOGITS[..., None]), TARGETS)
    known = TARGETS >= 0
    true, guessed = TARGETS[known].numpy(), (LOGITS > 0).long()[known].numpy()
    found = {name: float(total / count) for name, (total, count) in term.measured.items()}
    assert found == pytest.approx({"f1": f1_score(true, guessed), "accuracy": accuracy_score(true, guessed)})


def test_the_whole_loss_is_that_of_the_generator_and_of_what_it_drew():
    batch = part()
    inputs: Any = batch.inputs
    said = MODEL.double().eval()(**inputs)
    terms = given().mixture.terms(said.scores, given().mixture.final_targets(batch.targets, said.read))
    own, known = batch.targets["replaced_token"], inputs["documents"].numbers > 0
    assert said.read is not None
    wanted = F.binary_cross_entropy_with_logits(
        said.heads["replaced_token"][known][:, 0], (said.read != own)[known].double(), reduction="sum"
    )
    torch.testing.assert_close(terms["replaced_token"].sum, wanted)
    hidden = batch.targets["masked_lm"] >= 0
    guessed = F.cross_entropy(said.heads["masked_lm"][hidden], batch.targets["masked_lm"][hidden], reduction="sum")
    torch.testing.assert_close(terms["masked_lm"].sum, guessed)
    # at most what was hidden is replaced: 15 % of the text
    replaced = int((said.read != own)[known].sum())
    assert 0 < replaced <= int(hidden.sum())


def test_every_chosen_token_can_be_kept_or_be_random():
    (member,) = Mixture.parse({"masked_lm": {"masked": 0.0, "random": 0.0}}).members.values()
    tokens = np.arange(7, 40)
    assert (member.hide(tokens, np.random.default_rng(0), ROLES) == tokens).all()  # type: ignore[attr-defined]
