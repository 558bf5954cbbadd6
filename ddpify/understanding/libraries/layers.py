"""Layers of a Sequential that give several tensors, as blocks that also return what they attend to.

What follows takes them apart: one of several tensors is no row of a single one.
"""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance


def of_several_results(target: Instance) -> list[Instance]:
    """The last layer of a Sequential, where it is a class of the project that returns a tuple."""
    numbered = [key for key in target.arguments if key.isdigit()]
    if target.type != "torch.nn.Sequential" or not numbered:
        return []
    last = target.arguments[max(numbered, key=int)]
    return [one for one in last.of(Instance) if _returns_a_tuple(one)]  # type: ignore[arg-type,misc]


def _returns_a_tuple(layer: Instance) -> bool:
    found = layer.type.find("forward") if isinstance(layer.type, Class) else None
    functions = (found or UNKNOWN).of(Function)
    return any(
        isinstance(node, cst.Return) and isinstance(node.value, cst.Tuple)
        for function in functions
        for node in walk(function.node)  # type: ignore[union-attr]
    )
