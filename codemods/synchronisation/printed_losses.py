"""Say where a loss is printed as a tensor: with it goes the name of its gradient's function."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.structure import walk


def edit(plan: Plan, edits: Edits) -> None:
    """Note each ``print(loss)`` of a loss that is reduced where it gets its name."""
    losses = set(_losses(plan))
    for _, site in plan.facts.calls_to("builtins.print"):
        scope = site.module.structure.function(site.node)
        for name in _shown(site.node):
            if (scope, name.value) in losses:
                text = f"{name.value}: its grad_fn is printed by another name; .item() has none"
                edits.note(site, text)


def _losses(plan: Plan) -> Iterator[tuple[cst.FunctionDef | None, str]]:
    """The names of losses that are reduced, with the functions that have them."""
    trained = {
        (plan.module_of(node).structure.function(node), node.func.value.value)
        for node in plan.facts.backwards
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, cst.Name)
    }
    for node in plan.reductions:
        structure = plan.module_of(node).structure
        statement = structure.statement(node)
        for target in structure.inside(statement, cst.AssignTarget):
            named = target.target.value if isinstance(target.target, cst.Name) else ""
            if (structure.function(node), named) in trained:
                yield structure.function(node), named


def _shown(call: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that ``print`` gets as they are, or in a formatted string without a format."""
    for argument in call.args if isinstance(call, cst.Call) else ():
        if isinstance(argument.value, cst.Name):
            yield argument.value
        elif isinstance(argument.value, cst.FormattedString):
            parts = [
                p for p in walk(argument.value) if isinstance(p, cst.FormattedStringExpression)
            ]
            plain = (part.expression for part in parts if part.format_spec is None)
            yield from (one for one in plain if isinstance(one, cst.Name))
