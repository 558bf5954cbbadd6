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
from ddpify.understanding.values import Instance, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_JOINING = frozenset("cat concat concatenate vstack row_stack hstack".split())


def taken(
    run: RunState, target: cst.BaseExpression, shown: cst.BaseExpression, new: Value
) -> Value:
    """What ``target = shown`` lets a name hold; one that grows with each batch holds all rows."""
    tuples = [one.items for one in new.of(Tup)]
    if tuples and (pairs := _pairs(target, shown)):
        parts = zip(pairs, tuples[0], strict=True)
        return value(Tup(tuple(taken(run, at, source, part) for (at, source), part in parts)))
    if not new.data or run.frames_forward() or not _grows(run, target):
        return new
    for piece in _added(shown, code_of(target)):
        for data in run.seen(piece).data:
            rows = data.placement is Placement.SHARD
            held = replace(data, definition_sites=frozenset()) if rows else data
            run.demand(piece, value(held), uses.A_KEPT_COLLECTION)
    return definition_sites.reduced(new)


def _grows(run: RunState, target: cst.BaseExpression) -> bool:
    """Whether what a target stands for takes more rows in a later round."""
    if isinstance(target, cst.Name):
        loops = [loop.node for loop in run.frame.loops if loop.takes_batches]
        growing = bool(loops) and target.value in _growing(loops[-1])
        return growing and _begun(run, loops[-1], target.value)
    if not isinstance(target, (cst.Attribute, cst.Subscript)) or not run.in_batch_loop():
        return False
    whole = run.module.function(target) or run.module.tree
    if code_of(target) not in _growing_places(whole):
        return False
    return any(run.is_older(owner) for owner in run.eval(target.value).of(Instance))


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
    return _joined_with_more(loop.body, cst.Name) - definitely_assigned(loop)


@lru_cache(maxsize=256)
def _growing_places(whole: cst.CSTNode) -> frozenset[str]:
    """Attributes and entries that a function joins with more rows: others may begin them anew."""
    return _joined_with_more(whole, cst.Attribute, cst.Subscript)


def _joined_with_more(body: cst.CSTNode, *kinds: type[cst.BaseExpression]) -> frozenset[str]:
    """What is assigned there, of these kinds, that is put together of itself and others."""
    assigned = [
        (code_of(at), source)
        for node in walk(body)
        if isinstance(node, cst.Assign)
        for target in node.targets
        for at, source in _pairs(target.target, node.value) or [(target.target, node.value)]
        if isinstance(at, kinds)
    ]
    return frozenset(
        shown for shown, source in assigned if any(_joined(one, shown) for one in _leaves(source))
    )


def _pairs(
    target: cst.BaseExpression, shown: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The target and the source of each part of ``a, b = x, y``."""
    displays = (cst.Tuple, cst.List)
    if not isinstance(target, displays) or not isinstance(shown, displays):
        return []
    elements = [*target.elements, *shown.elements]
    if any(isinstance(one, cst.StarredElement) for one in elements):
        return []
    parts = zip(target.elements, shown.elements, strict=False)
    even = len(target.elements) == len(shown.elements)
    return [(at.value, source.value) for at, source in parts] if even else []


def _added(shown: cst.BaseExpression, name: str) -> Iterator[cst.BaseExpression]:
    """The expressions whose rows a growing tensor takes: as its first ones, or besides its own."""
    for leaf in _leaves(shown):
        pieces = _pieces(leaf) if _joined(leaf, name) else [leaf]
        yield from (one for one in pieces if code_of(one) != name)


def _leaves(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.IfExp):
        yield from _leaves(node.body)
        yield from _leaves(node.orelse)
    else:
        yield node


def _joined(node: cst.BaseExpression, name: str) -> bool:
    """Whether this is ``torch.cat((name, ...))``."""
    return any(code_of(piece) == name for piece in _pieces(node))


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
