"""Sizes of batches that a script gives by a setting's name instead of asking the batch.

``torch.ones(batch_size, 1)`` is meant for the rows of a batch where a loader is made with that same
``batch_size``, and a batch of it is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Instance

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

MAKING = frozenset(
    "ones zeros full empty rand randn randint normal uniform random standard_normal Tensor"
    " FloatTensor LongTensor DoubleTensor".split()
)


def sized_like(run: Interpreter, call: cst.BaseExpression) -> frozenset[Instance]:
    """The loaders whose batch size is among the sizes that a call names."""
    if not isinstance(call, cst.Call) or not run.in_batch_loop():
        return frozenset()
    sizes = {dotted(part) for argument in call.args for part in _parts(argument.value)}
    return frozenset(
        loader for loader in run.facts.loaders if size_of(loader) in sizes - {None}
    )  # fmt: skip


def names_size(run: Interpreter, node: cst.BaseExpression) -> bool:
    """Whether an expression is the name of the batch size of a loader."""
    name = dotted(node)
    named = name is not None and name in map(size_of, run.facts.loaders)
    counted = any(data.placement is Placement.COUNT for data in run.seen(node).data)
    return named and not counted and run.in_batch_loop()


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A size, or those of a tuple of them; of ``2 * n`` that of which it is a multiple."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _parts(element.value)
    elif (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Multiply)
        and any(isinstance(side, cst.Integer) for side in (node.left, node.right))
    ):
        counted = isinstance(node.left, cst.Integer)
        yield node.right if counted else node.left
    else:
        yield node


def size_of(loader: Instance) -> str | None:
    """The name of the setting that a loader takes for its batch size."""
    if not isinstance(loader.site, cst.Call):
        return None
    arguments = loader.site.args
    for argument in arguments:
        if argument.keyword is not None and argument.keyword.value == "batch_size":
            return dotted(argument.value)
    second = arguments[1] if len(arguments) > 1 else None
    return dotted(second.value) if second is not None and second.keyword is None else None
