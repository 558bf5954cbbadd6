"""What a run tells its functions: the answers that conditions on their parameters have in it.

``train(model, local_rank=None)`` is told no rank by a script that leaves it out. What stands under
``if local_rank is not None:`` is then for other scripts, which call the same function.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.syntax import code_of, parameters, spreads
from ddpify.understanding.taint.call_graph import called, initialisers, passed, wrapped_forwards
from ddpify.understanding.three_valued import holds
from ddpify.understanding.values import Bound, Class, Instance

if TYPE_CHECKING:
    from ddpify.lint.scripts.understood import Understood

_UNTOLD = object()
_CONSTANTS = ("None", "True", "False")
_COMPARED: dict[type[cst.BaseCompOp], Callable[[Any, Any], bool]] = {
    cst.Is: operator.eq,
    cst.Equal: operator.eq,
    cst.IsNot: operator.ne,
    cst.NotEqual: operator.ne,
}
_ORDERED: dict[type[cst.BaseCompOp], Callable[[Any, Any], bool]] = {
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}


def is_told_otherwise(
    script: Understood, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Whether on each way to a node some call tells a function what keeps it from the node."""
    structure = script.structure_of(node)
    for guard in structure.guards(node):
        answer = told_answer(script, guard.test)
        if answer is not None and answer is not guard.positive:
            return True
    function = structure.function(node)
    if function is None or function in seen:
        return False
    callers = script.facts.callers.get(function, ())
    inner = seen | {function}
    return bool(callers) and all(is_told_otherwise(script, one.node, inner) for one in callers)


def told_answer(script: Understood, test: cst.BaseExpression) -> bool | None:
    """The answer of a condition, where it follows from what all calls tell; else None."""
    return holds(test, partial(_answer, script))


def _answer(script: Understood, test: cst.BaseExpression) -> bool | None:
    """The same for one that nothing joins."""
    if isinstance(test, cst.Comparison):
        return _compared(script, test)
    held = _told(script, test, frozenset())
    return None if held is _UNTOLD else bool(held)


def _compared(script: Understood, test: cst.Comparison) -> bool | None:
    """``x is None``, ``mode == "train"``, ``share > 0``."""
    if len(test.comparisons) != 1:
        return None
    target = test.comparisons[0]
    left, right = (_told(script, one, frozenset()) for one in (test.left, target.comparator))
    if _UNTOLD in (left, right):
        return None
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    known = {**_COMPARED, **_ORDERED} if numbers else _COMPARED
    compare = known.get(type(target.operator))
    return compare(left, right) if compare is not None else None


def _told(script: Understood, node: cst.BaseExpression, seen: frozenset[cst.CSTNode]) -> object:
    """The constant that an expression is in all calls of its function."""
    if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString)) or code_of(node) in _CONSTANTS:
        return ast.literal_eval(code_of(node))
    structure = script.structure_of(node)
    function = structure.function(node) if isinstance(node, cst.Name) else None
    if function is None or function in seen or function.decorators:
        return _UNTOLD
    assert isinstance(node, cst.Name)
    known = {one.name.value: one.default for one in parameters(function)}
    reset = _reset(script, function, node.value)
    if node.value not in known or [*_bound_in(script, function)].count(node.value) > len(reset):
        return _UNTOLD
    inner = seen | {function}
    given = [*_given(script, function, node.value, known[node.value]), *reset]
    told = [_UNTOLD if one is None else _told(script, one, inner) for one in given]
    alike = bool(told) and all(type(x) is type(told[0]) and x == told[0] for x in told)
    return told[0] if alike else _UNTOLD


def _given(
    script: Understood, function: cst.FunctionDef, name: str, default: cst.BaseExpression | None
) -> Iterator[cst.BaseExpression | None]:
    """What each call gives a parameter; None where that is not seen."""
    for site in script.facts.callers.get(function, ()):
        call = site.node
        if not isinstance(call, cst.Call) or spreads(call):
            yield None
            continue
        atoms = script.value(call.func).atoms
        skip = int(any(isinstance(one, (Bound, Class, Instance)) for one in atoms))
        runs = [
            *called(script.facts, call),
            *initialisers(script.facts, call),
            *wrapped_forwards(script.facts, call),
        ]
        ours = [one for one in runs if one.node is function]
        told = [arg.value for one in ours for arg, to in passed(one, skip, call) if to == name]
        yield told[0] if told else default if ours else None


def _reset(script: Understood, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
    """What a function sets a parameter to in plain assignments: ``share = 0.0``."""
    return [
        one.value
        for one in script.structure_of(function).inside(function, cst.Assign)
        for target in one.targets
        if isinstance(target.target, cst.Name) and target.target.value == name
    ]


def _bound_in(script: Understood, function: cst.FunctionDef) -> Iterator[str]:
    """The names that a function sets, also by way of a loop."""
    structure = script.structure_of(function)
    for one in structure.inside(function, cst.AssignTarget):
        yield from target_names(one.target)
    bindings: list[cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr] = [
        *structure.inside(function, cst.AnnAssign),
        *structure.inside(function, cst.AugAssign),
        *structure.inside(function, cst.For),
        *structure.inside(function, cst.NamedExpr),
    ]
    for bound in bindings:
        yield from target_names(bound.target)
