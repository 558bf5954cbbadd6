"""What a rank has by its own samples alone: how many it picks from a batch, and whether any."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unsharded_totals import is_own
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.reaching_definitions import reaching_definition

_DISPLAYS = (cst.List, cst.ListComp, cst.Dict, cst.DictComp, cst.Set, cst.SetComp)
_SIZES = frozenset({"shape", "size", "numel", "nelement"})
# How many there are in what these give, their arguments' numbers say.
_BY_NUMBERS = frozenset(
    "argwhere flatnonzero masked_select nonzero unique unique_consecutive set Counter".split()
)


def counts_picked(script: Script, test: cst.BaseExpression) -> bool:
    """Whether a test asks how many there are: ``len(kept) == 0``, ``not kept``, ``x.shape[0]``.

    Also ``batch is None``, where a loader's own function gives no batch of samples it cannot read.
    """
    return any(_is_picked(script, one) for one in _counted(script, test)) or any(
        _asks_for_batch(script, one) for one in walk(test)
    )


def asks_for_any(script: Script, test: cst.BaseExpression) -> bool:
    """``not kept`` of a collection: what is in it says nothing, how much was picked does."""
    node = _plain(test)
    edges = _moves_before(script, node) if isinstance(node, cst.Name) else []
    made = [one for edge in edges for one in _given_by(script, edge.value)]
    return any(isinstance(one, _DISPLAYS) for one in made)


def _given_by(script: Script, node: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """An expression; what the project's functions return, where it calls them."""
    calls = called(script.facts, node) if isinstance(node, cst.Call) else ()
    functions = [one.node for one in calls]
    if node is not None and not functions:
        yield node
    for function in functions:
        for one in walk(function.body):
            if isinstance(one, cst.Return) and one.value is not None:
                yield one.value


def _plain(test: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    return test


def _asks_for_batch(script: Script, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    asked = node.comparisons[0]
    if not isinstance(asked.operator, (cst.Is, cst.IsNot)) or not isinstance(node.left, cst.Name):
        return False
    edges = _moves_before(script, node.left)
    return bool(edges) and all(map(script.takes_batches, edges))


def _counted(script: Script, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What is counted in a test."""
    plain = _plain(test)
    if isinstance(plain, cst.Name):
        yield plain
    for one in walk(test):
        if isinstance(one, cst.Call) and script.names(one.func) == {"builtins.len"}:
            yield from (given.value for given in one.args)
        elif isinstance(one, cst.Attribute) and one.attr.value in _SIZES:
            yield one.value


def _is_picked(script: Script, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Name):
        return _picks(script, node)
    edges = _moves_before(script, node)
    return any(_adds_some(script, one) for one in edges) and all(
        _may_start(one) or _adds_some(script, one) for one in edges
    )


def _moves_before(script: Script, node: cst.Name) -> list[FlowEdge]:
    """What may have set a name where it is read: the last assignment alone, where one surely is."""
    edges = script.flow.edges_into({*script.control.locations(node)})
    last = reaching_definition(script.structure_of(node), node, [edge.node for edge in edges])
    return [edge for edge in edges if last is None or edge.node is last]


def _adds_some(script: Script, edge: FlowEdge) -> bool:
    """Whether a move gives a name what is picked, or appends it where a rank's own sample says."""
    if edge.value is None:
        return False
    if edge.passes or not isinstance(edge.node, cst.Call):
        return _picks(script, edge.value)
    loops = script.structure_of(edge.node).loops(edge.node)
    order = script.structure_of(edge.node).order
    return any(
        order[guard.statement] > order[loops[0]] and is_own(script, guard.test)
        for guard in (script.control.guards(edge.node) if loops else ())
    )


def _picks(script: Script, node: cst.BaseExpression) -> bool:
    """``[x for x in batch if ...]``, ``rows[mask]`` by a mask of the rank's own, ``y.unique()``."""
    if isinstance(node, cst.Call):
        return code_of(node.func).rsplit(".", 1)[-1] in _BY_NUMBERS and is_own(script, node)
    if isinstance(node, cst.ListComp):
        return any(is_own(script, one.test) for one in node.for_in.ifs)
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return False
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and _is_mask(script, index.value)


def _is_mask(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an index is a question about each of the rank's own rows."""
    if isinstance(node, cst.Name):
        edges = _moves_before(script, node)
        return bool(edges) and all(
            one.value is not None and _is_mask(script, one.value) for one in edges
        )
    asks = isinstance(node, (cst.Comparison, cst.UnaryOperation)) or (
        isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.BitAnd, cst.BitOr))
    )
    return asks and is_own(script, node)


def _may_start(edge: FlowEdge) -> bool:
    """``kept = []``."""
    return isinstance(edge.value, cst.List) and not edge.value.elements
