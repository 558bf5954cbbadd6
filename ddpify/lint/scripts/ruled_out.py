"""Conditions whose answer is the same in all calls, by what is seen of what they ask."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.one_process import never_runs
from ddpify.lint.scripts.resolved import is_resolved
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Instance


def is_ruled_out(script: Script, node: cst.CSTNode) -> bool:
    """Whether a condition keeps a node from running: ``if x is None:`` of what is there."""
    return never_runs(script.control, node) or any(
        _is_there(script, guard.test) is (not guard.positive)
        for guard in script.control.guards(node)
    )


def _is_there(script: Script, test: cst.BaseExpression) -> bool | None:
    """The answer of ``x is not None``, where all that ``x`` may be are objects; else None."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    asked = test.comparisons[0]
    if code_of(asked.comparator) != "None" or not isinstance(asked.operator, (cst.Is, cst.IsNot)):
        return None
    held = script.value(test.left).atoms
    if not held or not all(isinstance(one, Instance) for one in held):
        return None
    return isinstance(asked.operator, cst.IsNot) if is_resolved(script, test.left) else None
