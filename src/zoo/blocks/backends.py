"""Every backend of attention, by name."""

from zoo.blocks.flex import Flex
from zoo.blocks.kernels import Backend, Eager, Sdpa, backends
from zoo.blocks.varlen import Varlen

__all__ = ["Backend", "Eager", "Flex", "Sdpa", "Varlen", "backends"]
