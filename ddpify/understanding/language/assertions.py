"""Assertions that hold for the rows of all ranks just where they hold for those of each rank.

``assert labels.max() < classes`` need not ask other ranks: where it fails in one process, it fails
on the rank that has the row, and that ends the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import local_data
from ddpify.understanding.language import branches
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, QualifiedName, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_BOUNDED_BY: dict[type, tuple[str, ...]] = {
    cst.LessThan: ("max", "amax"),
    cst.LessThanEqual: ("max", "amax"),
    cst.GreaterThan: ("min", "amin"),
    cst.GreaterThanEqual: ("min", "amin"),
}
_LIBRARIES = ("torch.", "numpy.")


def check(run: RunState, test: cst.BaseExpression) -> None:
    """Evaluate the test of an ``assert``; what each rank can tell of its own rows stays so."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        check(run, test.left)
        check(run, test.right)
    elif run.collating or not _is_told_by_each_rank(run, test):
        branches.condition(run, test)


def _is_told_by_each_rank(run: RunState, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _reduces_rows(run, test.expression, ("any",))
    if not isinstance(test, cst.Comparison):
        return _reduces_rows(run, test, ("all",))
    if len(test.comparisons) != 1:
        return False
    names = _BOUNDED_BY.get(type(test.comparisons[0].operator), ())
    return _reduces_rows(run, test.left, names) and _is_replicated(
        run.eval(test.comparisons[0].comparator)
    )


def _reduces_rows(run: RunState, shown: cst.BaseExpression, names: tuple[str, ...]) -> bool:
    """Whether this is one of these functions of all elements of a rank's rows."""
    call = _without_item(shown)
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value not in names:
        return False
    operand = _operand(run, call, call.func)
    held = run.eval(operand) if operand is not None else None
    return held is not None and bool(held.atoms) and all(map(_is_rows, held.atoms))


def _operand(run: RunState, call: cst.Call, function: cst.Attribute) -> cst.BaseExpression | None:
    """``x`` of ``x.max()`` or ``torch.max(x)``; None where the call has further arguments."""
    owner = run.eval(function.value)
    library = any(isinstance(a, QualifiedName) and _is_library(a.name) for a in owner.atoms)
    if library:
        return call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
    return function.value if not call.args else None


def _is_library(name: str) -> bool:
    return f"{name}.".startswith(_LIBRARIES)


def _without_item(shown: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor of ``tensor.item()``."""
    if isinstance(shown, cst.Call) and isinstance(shown.func, cst.Attribute) and not shown.args:
        return shown.func.value if shown.func.attr.value == "item" else shown
    return shown


def _is_rows(atom: object) -> bool:
    placements = (Placement.SHARD, Placement.REPLICATE)
    return isinstance(atom, Data) and atom.placement in placements


def _is_replicated(held: Value) -> bool:
    return not any(True for _ in local_data(held))
