"""Comparisons with words, whose answer no rank's number changes: ``device != "cpu"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import content
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK

if TYPE_CHECKING:
    from ddpify.lint.scripts.ways import Ways

_DIGIT = re.compile(r"\d")
_CONSTANTS = (cst.SimpleString, cst.Integer, cst.Float)


def compares_with_a_word(control: Ways, test: cst.BaseExpression) -> bool:
    """Whether what a word without digits is compared with is a rank, a text with one in it, or a
    text that all ranks have: ``"main" if rank == 0 else "other"`` is none of these.
    """
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    if not isinstance(target.operator, (cst.Equal, cst.NotEqual)):
        return False
    sides = [test.left, target.comparator]
    words = [one for one in sides if isinstance(one, cst.SimpleString)]
    others = [one for one in sides if one not in words]
    if len(words) != 1 or _DIGIT.search(str(content(words[0]))):
        return False
    return all(_is_unchosen(control, one, set()) for one in others)


def _is_unchosen(control: Ways, node: cst.CSTNode, seen: set[Location]) -> bool:
    """Whether an expression gets its value without any choice by the rank."""
    if isinstance(node, _CONSTANTS):
        return not _is_under_ranks(control, node)
    if isinstance(node, (cst.Name, cst.Attribute)):
        return _is_set_unchosen(control, node, seen)
    if isinstance(node, cst.FormattedString):
        parts = [x for x in node.parts if isinstance(x, cst.FormattedStringExpression)]
        return all(_is_unchosen(control, one.expression, seen) for one in parts)
    if isinstance(node, cst.IfExp):
        asked = control.script.labels(node.test) & ANY_RANK
        return not asked and all(_is_unchosen(control, x, seen) for x in (node.body, node.orelse))
    if isinstance(node, cst.BinaryOperation):
        return all(_is_unchosen(control, one, seen) for one in (node.left, node.right))
    if isinstance(node, cst.Call):
        own = any(True for _ in called(control.script.facts, node))
        return not own and all(_is_unchosen(control, one.value, seen) for one in node.args)
    return isinstance(node, cst.Subscript) and "os.environ" in control.script.names(node.value)


def _is_set_unchosen(control: Ways, node: cst.Name | cst.Attribute, seen: set[Location]) -> bool:
    fresh = set(control.locations(node)) - seen
    seen |= fresh
    return all(
        edge.value is None
        or (_is_unchosen(control, edge.value, seen) and not _is_under_ranks(control, edge.node))
        for edge in control.script.flow.edges_into(fresh)
    )


def _is_under_ranks(control: Ways, node: cst.CSTNode) -> bool:
    """Whether a condition around a node has anything of a rank."""
    return any(control.script.labels(one.test) & ANY_RANK for one in control.guards(node))
