"""The last size of a tensor of unknown dimensions: of one dimension, it is the number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.forms import Form
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

_ADDING = (cst.AddAssign, cst.SubtractAssign)


def note(run: Interpreter, node: cst.BaseExpression, data: Data, dim: object) -> None:
    """Note where ``x.size(-1)`` goes into a total; elsewhere it is that of what a rank holds."""
    rows = data.placement is Placement.SHARD and data.form in (Form.TENSOR, Form.SHAPE)
    unsure = dim == -1 and data.dim == 0 == data.ndim
    seen = rows and unsure and not run.collating and not run.frames_forward()
    if seen and _is_added_up(run, node):
        run.facts.last_sizes.setdefault(node, run.site(node))


def _is_added_up(run: Interpreter, node: cst.CSTNode) -> bool:
    parents = run.module.parents
    below, above = node, parents[node]
    while isinstance(above, cst.BinaryOperation):
        below, above = above, parents[above]
    if isinstance(above, cst.AugAssign) and isinstance(above.operator, _ADDING):
        return above.value is below and run.outlives_batch(above.target)
    return False
