"""The norm of all gradients together, and clipping to a maximum norm."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.linalg import vector_norm

from zoo.training.optimizers.sgd import Descent

EPSILON = 1e-6  # added to the norm that the limit is divided by, as in torch.nn.utils.clip_grad_norm_
DIVIDING_DEVICES = ("cpu", "cuda")  # the devices on which torch's fused kernels divide gradients as they read them


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all tensors together, as of one vector: a scalar tensor.

    On a CPU it is computed row by row: torch accumulates the squares of a whole tensor in a few float32 sums, which is
    0.1 % too small for an embedding of 23 million numbers, and takes twice as long.
    """
    if not gradients or any(isinstance(one, DTensor) or one.device.type != "cpu" for one in gradients):
        return nn.utils.get_total_norm(gradients)
    norms = [vector_norm(one.flatten(1), dim=-1) if one.dim() > 1 else one for one in gradients]
    together: Tensor = vector_norm(torch.stack([vector_norm(one) for one in norms]))
    return together


def clip_to_norm(
    parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer, norm: Tensor, most: float
) -> None:
    """Clip gradients to the norm `most`; an optimizer whose kernel can scale them does so in its next step."""
    if divides_gradients(optimizer):
        # a divisor of 1 leaves gradients below the limit as they are, without reading the norm on the host
        optimizer.grad_scale = ((norm + EPSILON) / most).clamp(min=1.0)  # type: ignore[attr-defined]
    else:
        nn.utils.clip_grads_with_norm_(parameters, most, norm)


def divides_gradients(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer's kernel divides gradients as it reads them (`grad_scale`, made for torch's GradScaler).

    The divisor is in float32, which is too coarse for weights in float64.
    """
    if not isinstance(optimizer, torch.optim.Adam | Descent):
        return False
    groups = optimizer.param_groups
    return all(group["fused"] for group in groups) and all(map(is_plain, (p for g in groups for p in g["params"])))


def is_plain(weight: Tensor) -> bool:
    """Whether a weight is an unsharded float32 tensor on a device whose fused kernels divide gradients."""
    return weight.dtype == torch.float32 and weight.device.type in DIVIDING_DEVICES and not isinstance(weight, DTensor)
