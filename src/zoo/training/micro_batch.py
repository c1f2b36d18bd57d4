"""`training.micro_batch: auto`: find a number of rows whose forward and backward pass fits into memory."""

import logging

import torch

from zoo.batches.feed import Feed
from zoo.devices.memory import empty_cache, is_out_of_memory
from zoo.objectives.mixture import Mixture
from zoo.training.learner import Learner
from zoo.training.step import terms_of

logger = logging.getLogger(__name__)


def fit_micro_batch(learner: Learner, feed: Feed, mixture: Mixture, earlier: int | None) -> int | None:
    """Return the rows per forward pass, the same in every process; None: the whole share of a process.

    With `auto`, the share of a process is halved until a pass fits. The trial leaves no trace: gradients are cleared,
    and the data position is restored. A resumed run begins with the number that it found before, so that it stays
    bit-identical; there may be less memory now.

    Args:
        earlier: the number that an earlier part of the run trained with; None: there is none.
    """
    settings, processes = learner.settings, learner.processes
    if settings.micro_batch != "auto":
        return settings.micro_batch
    share = -(-settings.batch // processes.count)
    rows = share if earlier is None else min(earlier, share)
    while not fits(learner, feed, mixture, rows):
        if rows == 1:
            break  # the first step fails with a message that names the settings
        rows = -(-rows // 2)
        torch._dynamo.reset()  # else the next size is compiled with dynamic shapes, which are slower
    agreed = min(processes.gather(rows))
    if processes.is_main:
        logger.info("training.micro_batch: auto is %d of the %d sequences per process", agreed, share)
    return agreed


def fits(learner: Learner, feed: Feed, mixture: Mixture, rows: int) -> bool:
    """Whether the passes of a step over `rows` rows fit into memory, beside the optimizer's state.

    The second pass of a step needs the most memory: the gradients of the first exist beside its activations. Empty
    tensors stand in for AdamW's two moments, which exist only from the first update on.
    """
    position = feed.position
    part = feed.collate(feed.take(rows), rows).to(learner.processes.device)
    feed.seek(position)
    try:
        moments = [torch.empty_like(parameter) for parameter in learner.trained for _ in range(2)]
        for _ in range(2):
            with learner.autocast():
                # not `wrapped`: DDP's all-reduce would hang if only one process ran out of memory
                terms = terms_of(learner.model, mixture, part)
            torch.autograd.backward([term.sum for term in terms.values()])
            del terms
        del moments
        return True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    finally:
        learner.optimizer.zero_grad(set_to_none=True)
        empty_cache()
