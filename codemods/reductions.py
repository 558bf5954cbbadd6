"""Make losses, metrics and counts global where the script first reads them."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import code_of

_TEXT = {
    "mean": "the mean over the global batch",
    "sum": "the sum over all ranks",
    "gather": "all ranks' rows, in order",
    "count": "the size of the global batch",
}


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap each expression that is to be reduced."""
    for reduction in plan.reductions.values():
        line = plan.module.line(reduction.node)
        edits.note(line, f"{_short(reduction.node)}: {_TEXT[reduction.how]}")
        if _is_target(plan, reduction):
            _rebind(plan, reduction, edits)
        elif reduction.how == "count":
            _count(reduction.node, plan.options.alias, edits)
        else:
            extra = f", weight={reduction.weight}" if reduction.weight else ""
            edits.wrap(reduction.node, f"{plan.options.alias}.{reduction.how}", extra)
        if reduction.node in plan.assumed:
            edits.note(
                line,
                f"{_short(reduction.node)} is taken for a mean over the samples: what it divides by"
                " is not seen here (targets that do not count would make the ranks' parts unequal)",
                attention=True,
            )
    _draws(plan, edits)
    _squeezes(plan, edits)
    _permutations(plan, edits)


def _is_target(plan: Plan, reduction: Reduction) -> bool:
    """Whether the expression is a name that a tuple is unpacked into."""
    element = plan.module.parents[reduction.node]
    if not isinstance(element, cst.Element) or not isinstance(reduction.node, cst.Name):
        return False
    return isinstance(plan.module.parents[plan.module.parents[element]], cst.AssignTarget)


def _rebind(plan: Plan, reduction: Reduction, edits: Edits) -> None:
    name = code_of(reduction.node)
    statement = plan.module.statement(reduction.node)
    function = f"{plan.options.alias}.{reduction.how}"
    edits.rebind(statement, name, function)


def _short(node: cst.CSTNode) -> str:
    text = " ".join(code_of(node).split())
    return text if len(text) <= 50 else text[:47] + "..."


def _count(node: cst.BaseExpression, alias: str, edits: Edits) -> None:
    """``len(x)``, ``x.size(0)`` or ``x.shape[0]`` becomes the size of the global batch."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        rows: cst.BaseExpression
        if isinstance(updated, cst.Subscript):
            rows = _owner(updated.value)
        elif isinstance(updated, cst.Call) and isinstance(updated.func, cst.Attribute):
            rows = updated.func.value
        else:
            assert isinstance(updated, cst.Call)
            rows = updated.args[0].value
        made = cst.parse_expression(f"{alias}.global_batch_size(_)")
        assert isinstance(made, cst.Call)
        return made.with_changes(args=[made.args[0].with_changes(value=rows)])

    edits.change(node, change)


def _owner(shape: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor of ``tensor.shape`` or ``tensor.size()``."""
    if isinstance(shape, cst.Call):
        shape = shape.func
    assert isinstance(shape, cst.Attribute)
    return shape.value


def _draws(plan: Plan, edits: Edits) -> None:
    """Random rows for a batch: all ranks draw the whole batch's, and each keeps its own."""
    alias = plan.options.alias
    for node, site in plan.facts.draws.items():
        if not site.module.editable or not isinstance(node, cst.Call):
            continue
        for size in _count_nodes(plan, node):
            edits.wrap(size, f"{alias}.global_batch_size")
        edits.wrap(node, f"{alias}.split")
        edits.note(site.line, f"{_short(node)}: this rank's rows of the global batch's draw")


def _count_nodes(plan: Plan, call: cst.Call) -> list[cst.BaseExpression]:
    """The arguments of a draw, or elements of its size, that are this rank's number of rows."""
    found: list[cst.BaseExpression] = []
    for argument in call.args:
        parts = [argument.value]
        if isinstance(argument.value, (cst.Tuple, cst.List)):
            parts = [element.value for element in argument.value.elements]
        for part in parts:
            held = plan.facts.values.get(part)
            if held is not None and any(d.placement is Placement.COUNT for d in held.data):
                found.append(part)
    return found


def _permutations(plan: Plan, edits: Edits) -> None:
    """Rows that are shuffled within a batch meet rows of their own rank only."""
    for node, site in plan.facts.permutations.items():
        if site.module.editable:
            edits.note(
                site.line,
                f"{_short(node)}: rows are shuffled among those of their own rank, not among"
                " the whole batch",
                attention=True,
            )


def _squeezes(plan: Plan, edits: Edits) -> None:
    """A bare squeeze() also drops the batch dimension when a rank has a single sample."""
    for node, site in plan.facts.squeezes.items():
        if site.module.editable:
            edits.note(
                site.line,
                f"{_short(node)}: name the dimension to squeeze; a rank whose share of the batch"
                " is one sample loses its batch dimension here",
                attention=True,
            )
