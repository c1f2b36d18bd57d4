"""The losses of zoo's transformers classes, as transformers' own classes compute theirs, but without padding."""

import torch
from torch import Tensor, nn

from zoo.models.heads.scores import Scores
from zoo.objectives.label_losses import LabelLoss, OneClass, OneNumber, SeveralClasses

IGNORE_INDEX = -100  # transformers' label of positions that do not count


def mean_loss(logits: Tensor, labels: Tensor, count: Tensor | int | None = None) -> Tensor:
    """The mean cross-entropy over labels.

    Args:
        count: number of labels in the whole optimizer step, of which these may be a part; None: these are all.
    """
    targets, exact = labels.to(logits.device).flatten(), torch.promote_types(logits.dtype, torch.float32)
    known = (targets != IGNORE_INDEX).sum() if count is None else torch.as_tensor(count, device=logits.device)
    rows = logits.flatten(0, -2).to(exact)
    return nn.functional.cross_entropy(rows, targets, ignore_index=IGNORE_INDEX, reduction="sum") / known.clamp_min(1)


def binary_loss(logits: Tensor, labels: Tensor, count: Tensor | int | None = None) -> Tensor:
    """The mean binary cross-entropy of a multi-label classifier; arguments as in `mean_loss`.

    Trainer counts every class of a row as a label; here the loss of a row is the mean over its classes.
    """
    return mean_cost(SeveralClasses(), logits, labels, None if count is None else count / labels.shape[-1])


def squared_loss(logits: Tensor, labels: Tensor, count: Tensor | int | None = None) -> Tensor:
    """The mean squared error of one or more numbers per row; arguments as in `mean_loss`."""
    return mean_cost(OneNumber(), logits.reshape(-1, 1), labels.flatten(), count)


def mean_cost(answer: LabelLoss, logits: Tensor, labels: Tensor, count: Tensor | float | None) -> Tensor:
    """The mean of the loss that belongs to a kind of label; arguments as in `mean_loss`."""
    found = answer.cost(Scores.from_logits(logits), labels.to(logits.device), label_smoothing=0.0)
    return found.sum / (found.count if count is None else torch.as_tensor(count, device=logits.device)).clamp_min(1)


def detection_loss(logits: Tensor, labels: Tensor, count: Tensor | int | None = None) -> Tensor:
    """The mean binary cross-entropy over the labeled positions; arguments as in `mean_loss`."""
    return mean_cost(SeveralClasses(), logits, labels[..., None], count)


def place_loss(logits: Tensor, places: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean cross-entropy of one position per row, among the row's tokens: padding changes nothing.

    As in transformers, a position that was cut off is ignored, and -1 counts as 0. A position of padding is ignored,
    too.

    Args:
        places: one per row, also as a column.
    """
    shown = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask.to(logits.device) > 0
    places = places.to(logits.device).flatten().clamp(0, logits.shape[1])
    known = nn.functional.pad(shown, (0, 1)).gather(1, places[:, None])[:, 0]
    least = torch.finfo(logits.dtype).min  # of a row of padding alone, infinities would make the gradients NaN
    return mean_loss(logits.masked_fill(~shown, least), places.masked_fill(~known, IGNORE_INDEX))


LOSSES = {SeveralClasses.problem: binary_loss, OneNumber.problem: squared_loss, OneClass.problem: mean_loss}


def problem_of(logits: Tensor, labels: Tensor) -> str:
    """Infer the problem type that config.json does not name, as transformers' own classes do."""
    if logits.shape[-1] == 1:
        return OneNumber.problem
    return SeveralClasses.problem if labels.is_floating_point() else OneClass.problem
