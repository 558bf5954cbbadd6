"""The last size of a tensor of unknown dimensions: of one dimension, it is the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import Data, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ADDING = (cst.AddAssign, cst.SubtractAssign)
_FORMS = (Layout.TENSOR, NumberKind.SHAPE, *SEVERAL_TENSORS)
_TELLING = ("print", "append")


def note(run: RunState, node: cst.BaseExpression, data: Data, dim: object) -> None:
    """Note where ``x.size(-1)`` counts samples; elsewhere it is that of what a rank holds."""
    _ask_for_all(run, node, data, dim)
    rows = data.placement is Placement.SHARD and data.form in _FORMS
    unsure = dim == -1 and data.dim == 0 == data.ndim
    seen = rows and unsure and not run.collating and not run.frames_forward()
    if seen and (_is_added_up(run, node) or any(_is_added_up(run, n) for n in _named(run, node))):
        run.facts.sizes.last_sizes.setdefault(node, run.site(node))


def _ask_for_all(run: RunState, node: cst.BaseExpression, data: Data, dim: object) -> None:
    """Ask for the rows of all ranks where a size that may count them enters rows as a number."""
    plain = data.placement is Placement.SHARD and data.form in (Layout.TENSOR, NumberKind.SHAPE)
    if not plain or data.opaque or run.collating or not dimensions.may_be_of_rows(data, [dim]):
        return
    if any(_enters_rows(run, read) for read in (node, *_named(run, node))):
        asked = node.func if isinstance(node, cst.Call) else node
        shown = asked.value if isinstance(asked, (cst.Attribute, cst.Subscript)) else node
        unknown = replace(data, definition_sites=frozenset(), form=Layout.PACKED)
        run.demand(shown, value(unknown), uses.A_SIZE_FROM_THE_END)


def _enters_rows(run: RunState, size: cst.CSTNode) -> bool:
    """Whether a tensor with a rank's rows is added to a number, or divided by it, and so on."""
    parents = run.module.parents
    while isinstance(above := parents.get(size), cst.BinaryOperation):
        for side in (above.left, above.right):
            held = run.seen(side).data if side is not size else ()
            if any(one.placement is Placement.SHARD and not one.counting for one in held):
                return True
        size = above
    return False


def _named(run: RunState, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Where the name is read that a size gets."""
    statement = run.module.parents[node]
    if not isinstance(statement, cst.Assign) or statement.value is not node:
        return
    structure = run.module.structure
    names = {t.target.value for t in statement.targets if isinstance(t.target, cst.Name)}
    inside = structure.function(node)
    for read in structure.all(cst.Name):
        if read.value in names and structure.function(read) is inside:
            yield read


def _is_added_up(run: RunState, node: cst.CSTNode) -> bool:
    """Whether a number goes into a total, or divides the sum of a rank's rows."""
    parents = run.module.parents
    below, above = node, parents[node]
    while isinstance(above, cst.BinaryOperation):
        if isinstance(above.operator, cst.Divide) and above.right is below:
            summed = run.seen(above.left).data
            return any(data.placement is Placement.SUM for data in summed)
        below, above = above, parents[above]
    if isinstance(above, cst.AugAssign) and isinstance(above.operator, _ADDING):
        return above.value is below and run.outlives_batch(above.target)
    return isinstance(above, cst.FormattedStringExpression) or _is_told(parents[above], above)


def _is_told(call: cst.CSTNode, argument: cst.CSTNode) -> bool:
    """Whether an argument is printed, or kept in a list."""
    if not isinstance(call, cst.Call) or not isinstance(argument, cst.Arg):
        return False
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in _TELLING
