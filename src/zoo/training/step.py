"""One optimizer step. Nothing here reads a value from the device, so host and device never wait for each other.

A test runs it on a fake device, on which reading a value raises.
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
    """Accumulate the gradients of all micro-batches, and update the weights unless a number is not finite.

    Args:
        tally: collects the sums of this step.
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
            del terms  # frees memory for the next forward pass, and for validation
    tally.reduce(processes, learner.clip(), flags)
    tally.rate = learner.update(tally.step - 1, tally.bad)


def terms_of(model: nn.Module, mixture: Mixture, part: MicroBatch) -> dict[str, Term]:
    """Return the terms of a micro-batch's loss; the model's other outputs are freed here, before the backward pass."""
    output = model(**part.inputs, **mixture.model_arguments)
    return mixture.terms(output.scores, mixture.final_targets(part.targets, output.read), output.weights)


def weigh(terms: Mapping[str, Term], counts: Mapping[str, Tensor]) -> Tensor:
    """Return the loss, a scalar: the sum of term.sum / count over all processes * weight; a term of count 0 adds 0."""
    weighed = []
    for name, term in terms.items():
        count = torch.where(counts[name] > 0, counts[name], 1)  # a weighted count may be below 1
        weighed.append(term.sum * (term.weight / count).to(term.sum.dtype))
    return torch.stack(weighed).sum()
