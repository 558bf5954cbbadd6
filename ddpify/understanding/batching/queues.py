"""Queues of rows: ``queue = torch.cat((queue, rows))[len(rows):]``, kept from batch to batch.

What only grows is told by :mod:`growing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.batching import handmade_batches
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def pieces(run: RunState, node: cst.BaseExpression) -> list[handmade_batches.Operand]:
    """The elements of ``torch.cat((a, b))``, with their values, where they are written out."""
    return [(element.value, run.seen(element.value)) for element in _elements(node)]


def is_one_piece(node: cst.BaseExpression) -> bool:
    """Whether a single tensor is joined to no other, as in ``torch.cat([a])``."""
    elements = _elements(node)
    return len(elements) == 1 and isinstance(elements[0], cst.Element)


def _elements(node: cst.BaseExpression) -> Sequence[cst.BaseElement]:
    shown = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return shown.elements if isinstance(shown, (cst.Tuple, cst.List)) else ()


def kept(run: RunState, node: cst.BaseExpression, inner: list[Data]) -> Value | None:
    """What rows are joined to that outlives their batch takes the rows of all ranks; else None."""
    target = _assigned(run, node)
    joined = pieces(run, node)
    if target is None or not any(piece.deep_equals(target) for piece, _ in joined):
        return None
    if run.frames_forward() or not run.in_batch_loop() or not run.outlives_batch(target):
        return None
    for piece, one in joined:
        for data in one.data if not piece.deep_equals(target) else ():
            run.demand(piece, value(data), uses.A_KEPT_COLLECTION)
    return value(replace(inner[0].placed(Placement.REPLICATE), form=Layout.GATHERED))


def _assigned(run: RunState, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The one target of the statement of whose value an expression is a part."""
    above: cst.CSTNode | None = run.module.parents.get(node)
    if isinstance(above, cst.Assign):
        return None
    while isinstance(above, cst.BaseExpression):
        above = run.module.parents.get(above)
    one = isinstance(above, cst.Assign) and len(above.targets) == 1
    return above.targets[0].target if one else None  # type: ignore[union-attr]
