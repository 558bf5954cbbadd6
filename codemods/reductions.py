"""Make losses, metrics and counts global where the script first reads them."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.bindings import is_bound_name
from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import brief, code_of

_TEXT = {
    "mean": "the mean over the global batch",
    "sum": "the sum over all ranks",
    "gather": "all ranks' rows, in order",
    "count": "the size of the global batch",
}


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap each expression that is to be reduced."""
    for reduction in plan.reductions.values():
        site = plan.site(reduction.node)
        rule = "sum-or-token-normalised-loss" if reduction.trained_on else "unreduced-metric"
        edits.note(site, f"{brief(reduction.node)}: {_TEXT[reduction.how]}", rule=rule)
        if is_bound_name(site):
            _rebind(plan, reduction, edits)
        elif reduction.how == "count":
            _count(reduction.node, plan.options.alias, edits)
        else:
            extra = f", weight={reduction.weight}" if reduction.weight else ""
            edits.wrap(reduction.node, f"{plan.options.alias}.{reduction.how}", extra)
        if reduction.node in plan.assumed:
            edits.note(
                site,
                f"{brief(reduction.node)} is taken for a mean over the samples: what it divides by"
                " is not seen here (targets that do not count would make the ranks' parts unequal)",
                attention=True,
            )
    for node in plan.choices.split:
        edits.wrap(node, f"{plan.options.alias}.split")
        edits.note(plan.site(node), f"{brief(node)}: works on the whole batch; this rank's rows")
    _draws(plan, edits)
    _named_sizes(plan, edits)
    _squeezes(plan, edits)
    _orders(plan, edits)


def _rebind(plan: Plan, reduction: Reduction, edits: Edits) -> None:
    name = code_of(reduction.node)
    statement = plan.module_of(reduction.node).statement(reduction.node)
    function = f"{plan.options.alias}.{reduction.how}"
    edits.rebind(statement, name, function)


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
            _whole_count(size, alias, edits)
        edits.wrap(node, f"{alias}.split")
        edits.note(site, f"{brief(node)}: this rank's rows of the global batch's")


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


def _orders(plan: Plan, edits: Edits) -> None:
    """A permutation is of the whole batch, and so are the rows that it orders."""
    alias = plan.options.alias
    for node, site in plan.facts.orders.items():
        if site.module.editable and isinstance(node, cst.Call):
            for size in _count_nodes(plan, node):
                _whole_count(size, alias, edits)
    for node, regrouped in plan.facts.regrouped.items():
        edits.wrap(regrouped.rows, f"{alias}.gather")
        edits.wrap(node, f"{alias}.split")
        edits.note(
            regrouped.site,
            f"{brief(node)}: this rank's rows, once the whole batch is put in order",
        )


def _whole_count(size: cst.BaseExpression, alias: str, edits: Edits) -> None:
    """The global batch's number of rows, in place of this rank's."""
    if isinstance(size, cst.Subscript) or (isinstance(size, cst.Call) and _asks_rows(size)):
        _count(size, alias, edits)
    else:
        edits.wrap(size, f"{alias}.global_batch_size")


def _asks_rows(call: cst.Call) -> bool:
    """Whether a call is ``len(x)`` or ``x.size(...)``."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in ("len", "size")


def _named_sizes(plan: Plan, edits: Edits) -> None:
    """``x.view(batch_size, -1)`` keeps this rank's rows."""
    for node, site in plan.facts.named_sizes.items():
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        edits.put(node.args[0].value, f"len({code_of(node.func.value)})")
        edits.note(site, f"{brief(node)}: as many rows as this rank has")


def _squeezes(plan: Plan, edits: Edits) -> None:
    """A bare squeeze() also drops the batch dimension when a rank has a single sample."""
    for node, site in plan.facts.squeezes.items():
        if site.module.editable:
            edits.note(
                site,
                f"{brief(node)}: name the dimension to squeeze; a rank whose share of the batch"
                " is one sample loses its batch dimension here",
                attention=True,
            )
