"""model.safetensors of an export: zoo's tensors under transformers' names."""

from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.targets.declare.flat_settings import flatten
from zoo.hub.targets.declare.renaming import Tensors, expand
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.kinds.part import PARTS
from zoo.runs.tensors import part_of, require_finite, unique_tensors
from zoo.wording import first_few


def native_tensors(trained: TrainedModel, target: Target, native: NativeClass) -> Tensors:
    """The tensors under transformers' names, in float32; only tensors of heads and the pooler may be left out.

    Raises:
        ValueError: a tensor holds NaN or infinity.
    """
    ours = {name: tensor.detach().cpu().float() for name, tensor in unique_tensors(trained.model).items()}
    require_finite(ours, "export")
    flat = flatten(trained.settings)
    table = [*expand((*target.renames, *native.renames), flat, ours)]
    spoken = {name for rename in table for name in rename.ours}
    # the comparison with transformers would find this too, but name a logit instead of the missing tensor
    forgotten = [name for name in ours if name not in spoken and part_of(name) in PARTS]
    assert not forgotten, f"target {target.name} names no tensor for {first_few(forgotten)}"
    tables = {name: make(flat).float() for name, make in target.tables.items()}
    return {rename.theirs: rename.to_transformers(ours) for rename in table} | tables
