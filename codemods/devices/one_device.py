"""Take away the branches in which a script spreads its batches over several GPUs itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan


def edit(plan: Plan, edits: Edits) -> None:
    """Each rank has one GPU: what was for that stays, without the test."""
    for test, holds in plan.choices.one_device.items():
        site = plan.site(test)
        condition = site.module.parents[test]
        if isinstance(condition, cst.IfExp):
            edits.change(condition, partial(_value, holds=holds))
        elif isinstance(site.module.parents[condition], cst.If):
            edits.change(condition, partial(_rest, holds=holds))
        elif isinstance(condition, cst.If):
            edits.open(condition, body=holds)
        edits.note(site, "no batch is spread here: each rank has its part", rule="data-parallel")


def _value(choice: Any, *, holds: bool) -> Any:
    """One of the values, in the parentheses of the whole."""
    kept = choice.body if holds else choice.orelse
    return kept.with_changes(lpar=[*choice.lpar, *kept.lpar], rpar=[*kept.rpar, *choice.rpar])


def _rest(case: Any, *, holds: bool) -> Any:
    """What is left of an ``elif`` after the case above it."""
    if holds:
        return cst.Else(case.body, case.leading_lines)
    return case.orelse or cst.RemoveFromParent()
