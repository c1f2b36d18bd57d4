"""A head that zoo does not ship is exported in zoo's own classes, which score with whatever its forward gives."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from shell_choices import Shelled, load
from torch import Tensor, nn

from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import ExportReport
from zoo.models.heads.head import Head, heads
from zoo.models.heads.scores import Scores
from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.objective import objectives

SETS = {"d_ff": 14, "n_heads": 3}
IDS = torch.tensor([[2, 9, 10, 4], [2, 11, 4, 0]])


class Tagger(Head):
    """Three scores for each token."""

    scores_documents = False

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, scale: float = 2.0) -> None:
        super().__init__()
        self.output, self.scale = nn.Linear(d_model, 3), scale

    def score(self, states: Tensor, table: Tensor) -> Scores:
        return Scores.from_logits(self.output(states).tanh() * self.scale)


class Mood(Tagger):
    """A score for each mood of a document."""

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2) -> None:
        super().__init__(d_model, vocab_size, pooled)
        self.output = nn.Linear(d_model, labels)


class Tagging(DocumentLabel):
    """Trains the tagger."""

    head: ClassVar[str] = "tagger"
    forms: ClassVar[tuple[str, ...]] = ("text",)


class Feeling(Tagging):
    """Trains the moods."""

    head: ClassVar[str] = "mood"


@pytest.fixture
def own() -> Iterator[None]:
    """Two heads with their objectives, as another package would register them."""
    added = [(heads, "tagger", Tagger), (heads, "mood", Mood)]
    added += [(objectives, "scaling", Tagging), (objectives, "feeling", Feeling)]  # type: ignore[list-item]
    for slot, name, found in added:
        slot.register(name)(found)
    yield
    for slot, name, _ in added:
        del slot.variants[name]


CHOSEN = [
    ("bert-nano", "tagger", "ZooForTokenClassification"),
    ("gpt2-nano", "tagger", "ZooForTokenClassification"),
    ("bert-nano", "mood", "ZooForSequenceClassification"),
]


@pytest.mark.parametrize(("name", "head", "wanted"), CHOSEN)
def test_an_own_head_is_exported_loaded_trained_and_imported(
    own: None, shelled: Shelled, name: str, head: str, wanted: str
):
    side = "encoder" if name == "bert-nano" else "decoder"
    options: dict[str, Any] = {"labels": 4} if head == "mood" else {"scale": 3.0}
    report: ExportReport = shelled(name, {**{f"{side}.{k}": v for k, v in SETS.items()}, "heads": {head: options}})
    assert report.class_name == wanted and report.check.differences["float64"] < 1e-12
    model = load(report)
    logits = model(IDS, attention_mask=(IDS != 0).long()).logits
    assert logits.shape == ((2, 4) if head == "mood" else (2, 4, 3)) and logits.abs().max() <= 3
    labels = torch.tensor([1, 3]) if head == "mood" else torch.tensor([[1, 2, 0, -100], [0, 1, -100, -100]])
    wanted_loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
    loss = model(IDS, attention_mask=(IDS != 0).long(), labels=labels).loss
    torch.testing.assert_close(loss, wanted_loss)
    loaded = load_checkpoint(report.folder)
    assert torch.equal(loaded.model(IDS, documents=(IDS != 0).long()).heads[head], logits)
