"""The last size of a batch's tensor in a total: of one dimension, it is the number of samples."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.data.global_sizes import global_shape

from ddpify.planning.edits import Change, Edits, wrapped
from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import brief


def edit(plan: Plan, edits: Edits) -> None:
    """Take it from the shape over all ranks, which is right however many dimensions there are."""
    alias = plan.options.alias
    for node, site in plan.facts.sizes.last_sizes.items():
        if not site.module.editable:
            continue
        if isinstance(node, cst.Subscript):
            global_shape(node.value, alias, "", edits)
        else:
            edits.change(node, _of_call(f"{alias}.global_shape"))
        edits.note(site, f"{brief(node)}: of the global batch, where it has one dimension")


def _of_call(function: str) -> Change:
    """``x.size(-1)`` becomes ``global_shape(x)[-1]``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.Call) and isinstance(updated.func, cst.Attribute)
        item = cst.parse_expression("_[-1]")
        return item.with_changes(value=wrapped(updated.func.value, function))

    return change
