"""Tensors that grow from batch to batch by concatenation: they take the rows of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import definition_sites, uses
from ddpify.understanding.definite_assignment import definitely_assigned, target_names
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, dotted
from ddpify.understanding.values import Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_JOINING = frozenset("cat concat concatenate vstack row_stack".split())


def taken(
    run: RunState, target: cst.BaseExpression, shown: cst.BaseExpression, new: Value
) -> Value:
    """What ``target = shown`` lets a name hold; one that grows with each batch holds all rows."""
    loops = [loop.node for loop in run.frame.loops if loop.takes_batches]
    if not loops or not isinstance(target, cst.Name) or run.frames_forward():
        return new
    if not new.data or target.value not in _growing(loops[-1]):
        return new
    if not _begun(run, loops[-1], target.value):
        return new
    for piece in _added(shown, target.value):
        for data in run.seen(piece).data:
            rows = data.placement is Placement.SHARD
            held = replace(data, definition_sites=frozenset()) if rows else data
            run.demand(piece, value(held), uses.A_KEPT_COLLECTION)
    return definition_sites.reduced(new)


def _begun(run: RunState, loop: cst.CSTNode, name: str) -> bool:
    """Whether a name is bound outside of a loop too: else no round could find it."""
    whole = run.module.function(loop) or run.module.tree
    return any(
        name in target_names(target.target)
        for node in walk(whole)
        if isinstance(node, cst.Assign) and not run.module.holds(loop, node)
        for target in node.targets
    )


@lru_cache(maxsize=256)
def _growing(loop: cst.CSTNode) -> frozenset[str]:
    """Names that a loop's body joins with more rows, and does not begin anew."""
    assert isinstance(loop, (cst.For, cst.While))
    assigned = [
        (target.target.value, node.value)
        for node in walk(loop.body)
        if isinstance(node, cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Name)
    ]
    names = {n for n, source in assigned if any(_joined(one, n) for one in _leaves(source))}
    return frozenset(names - definitely_assigned(loop))


def _added(shown: cst.BaseExpression, name: str) -> Iterator[cst.BaseExpression]:
    """The expressions whose rows a growing tensor takes: as its first ones, or besides its own."""
    for leaf in _leaves(shown):
        pieces = _pieces(leaf) if _joined(leaf, name) else [leaf]
        yield from (one for one in pieces if dotted(one) != name)


def _leaves(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.IfExp):
        yield from _leaves(node.body)
        yield from _leaves(node.orelse)
    else:
        yield node


def _joined(node: cst.BaseExpression, name: str) -> bool:
    """Whether this is ``torch.cat((name, ...))``."""
    return any(dotted(piece) == name for piece in _pieces(node))


def _pieces(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if not isinstance(node, cst.Call) or not node.args:
        return []
    short = (dotted(node.func) or "").rsplit(".", 1)[-1]
    shown, *others = node.args
    rows = all(code_of(one.value) == "0" for one in others if _is_dimension(one))
    if short not in _JOINING or not rows or not isinstance(shown.value, (cst.Tuple, cst.List)):
        return []
    return [element.value for element in shown.value.elements]


def _is_dimension(argument: cst.Arg) -> bool:
    return argument.keyword is None or argument.keyword.value in ("dim", "axis")
