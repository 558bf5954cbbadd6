"""Objects of a project's own class of tensors: each is an object, and the tensor that it holds.

``class Noise(torch.Tensor)`` may have methods of its own beside those of tensors.
"""

from __future__ import annotations

from ddpify.understanding.values import REPLICATED, Class, Instance, Value, join, value

_TENSORS = frozenset(f"torch.{kind}" for kind in ("Tensor", "FloatTensor", "DoubleTensor"))


def made(instance: Instance, args: list[Value]) -> Value:
    """An object that has just been made: a tensor of the first thing that it is given, if any."""
    made_by = instance.type
    if not isinstance(made_by, Class) or _TENSORS.isdisjoint(made_by.library_bases()):
        return value(instance)
    return join(value(instance), args[0] if args else REPLICATED)
