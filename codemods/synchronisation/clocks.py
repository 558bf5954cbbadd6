"""Decisions that go by the clock are rank 0's, for all ranks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.files.collective_work import holds_shared_work
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.clocks import is_clock
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import CLOCK

_LEAVING = (cst.Break, cst.Continue, cst.Return, cst.Raise)


def edit(plan: Plan, edits: Edits) -> None:
    """Ask rank 0's clock in conditions of what all ranks do, or leave, together."""
    if not any(map(is_clock, plan.facts.library_calls)):
        return
    for module in plan.editable:
        for test in _conditions(plan, module):
            site = Site(test, module)
            if on_all_ranks(plan, edits, site):
                text = "decided by rank 0's clock for all ranks"
                share(plan, edits, site, text, "rank-local-control-flow")


def _conditions(plan: Plan, module: ModuleFile) -> Iterator[cst.BaseExpression]:
    for node in module.structure.all(cst.If, cst.While):
        if CLOCK not in plan.flow.of(node.test, module):
            continue
        if isinstance(node, cst.While) or _must_agree(plan, node, module):
            yield from _by_clock(plan, node.test, module)


def _by_clock(
    plan: Plan, test: cst.BaseExpression, module: ModuleFile
) -> Iterator[cst.BaseExpression]:
    """The operands of a condition that go by the clock."""
    if CLOCK not in plan.flow.of(test, module):
        return
    if isinstance(test, cst.BooleanOperation):
        yield from _by_clock(plan, test.left, module)
        yield from _by_clock(plan, test.right, module)
    else:
        yield test


def _must_agree(plan: Plan, node: cst.If, module: ModuleFile) -> bool:
    """Whether a branch leaves what is around it, holds what all ranks do, or decides on more."""
    return any(
        holds_shared_work(plan, branch)
        or any(isinstance(n, _LEAVING) or _sets_more(plan, n, module) for n in walk(branch))
        for branch in (node.body, node.orelse)
        if branch is not None
    )


def _sets_more(plan: Plan, node: cst.CSTNode, module: ModuleFile) -> bool:
    """Whether a statement sets anything but times."""
    if not isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)) or node.value is None:
        return False
    return CLOCK not in plan.flow.of(node.value, module)
