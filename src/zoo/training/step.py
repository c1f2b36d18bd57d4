"""One optimizer step. Nothing here reads what the device computes, so neither waits for the other.

A test runs it on a pretended device, on which a read raises.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from zoo.batches.collate import MicroBatch
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import Term
from zoo.training.learner import Learner, hold_gradients, reseed_dropout
from zoo.training.meter import Tally


def take_step(
    learner: Learner, mixture: Mixture, parts: Sequence[MicroBatch], tally: Tally, flags: list[float]
) -> None:
    """Gradients of all micro-batches, and one update of the weights, unless a number is not finite.

    Args:
        tally: of this step; it gets what is summed up.
        flags: the signals that this process received.
    """
    processes = learner.processes
    reseed_dropout(learner.settings.seed, tally.step - 1, processes.rank, processes.device)
    for number, part in enumerate((part.to(processes.device) for part in parts), start=1):
        with hold_gradients(learner, number < len(parts)):
            with learner.autocast():
                terms = terms_of(learner.wrapped, mixture, part)
            learner.backward(weigh(terms, tally.counts))
            with torch.no_grad():
                tally.add(part, terms)
            del terms  # the next forward, and validation, need their memory
    tally.add_up(processes, learner.clip(), flags)
    tally.rate = learner.update(tally.step - 1, tally.bad)


def terms_of(model: nn.Module, mixture: Mixture, part: MicroBatch) -> dict[str, Term]:
    """The terms of a micro-batch's loss; what else the model computed ends here: the backward pass needs its memory."""
    said = model(**part.inputs, **mixture.asks)
    return mixture.terms(said.scores, mixture.settle(part.targets, said.read), said.weights)


def weigh(terms: Mapping[str, Term], counts: Mapping[str, Tensor]) -> Tensor:
    """The loss: each term's sum by its count over all processes, times its weight; a term without places adds 0."""
    weighed = []
    for name, term in terms.items():
        count = torch.where(counts[name] > 0, counts[name], 1)  # a weighted count may be below 1
        weighed.append(term.sum * (term.weight / count).to(term.sum.dtype))
    return torch.stack(weighed).sum()
