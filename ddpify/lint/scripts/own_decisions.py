"""Conditions whose answer is a rank's own: of its part of the data, or of its clock."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.decided import is_decided_by_own
from ddpify.lint.scripts.left_to_some import is_left_to_some
from ddpify.lint.scripts.picked import asks_for_any, counts_picked
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unsharded_totals import is_own
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import CLOCK


def is_local(script: Script, test: cst.BaseExpression) -> bool:
    """Whether the answer is this rank's own: of its part of the data, or of its clock."""
    if any(CLOCK in script.labels(one) for one in _questions(script, test)):
        return True
    if not script.has_runtime:
        own = any(is_own(script, one) for one in _questions(script, test))
        return own or counts_picked(script, test) or is_decided_by_own(script, test)
    read = {part.node for part in script.parts}
    return any(node in read for node in walk(test))


def _questions(script: Script, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of a condition, but for those that ask whether a collection has anything in it."""
    if isinstance(test, cst.BooleanOperation):
        yield from _questions(script, test.left)
        yield from _questions(script, test.right)
    elif not asks_for_any(script, test):
        yield test


def decides_apart(script: Script, test: cst.BaseExpression) -> bool:
    """Whether the answer is a rank's own, and not by its number."""
    if script.control.asks_rank(test):
        return False
    return is_local(script, test) or (not script.has_runtime and is_left_to_some(script, test))
