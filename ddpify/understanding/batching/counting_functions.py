"""Functions of the project that count how often they are called: ``self.calls += 1``.

A loop over a rank's rows that calls one for each of them calls it as often as the rank has rows,
even if each call is given its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching.repeated_calls import is_of_rows
from ddpify.understanding.liveness import Names, assigned
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters
from ddpify.understanding.values import Atom, Bound, Function

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def are_called(run: RunState, calls: Iterable[cst.Call], own: Names) -> bool:
    """Whether one of some calls is of such a function, of an object that the round has not made."""
    return any(counts(run, run.seen(one.func).atoms) for one in calls if not _is_of(one, own))


def counts(run: RunState, called: Iterable[Atom]) -> bool:
    """Whether one of some functions counts its calls, itself or in a function that it calls."""
    return any(_counts(run, one) for one in _reached(run, called, set()))


def _is_of(call: cst.Call, own: Names) -> bool:
    """Whether this calls a method of something that has one of these names."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    return isinstance(owner, cst.Name) and owner.value in own


def _reached(
    run: RunState, called: Iterable[Atom], seen: set[cst.CSTNode]
) -> Iterator[cst.FunctionDef]:
    """The functions that calls reach, each once."""
    for atom in called:
        function = atom.function if isinstance(atom, Bound) else atom
        if not isinstance(function, Function) or function.node in seen:
            continue
        seen.add(function.node)
        if isinstance(function.node, cst.FunctionDef):
            yield function.node
        for one in walk(function.node.body):
            if isinstance(one, cst.Call):
                yield from _reached(run, run.seen(one.func).atoms, seen)


def _counts(run: RunState, function: cst.FunctionDef) -> bool:
    """Whether a function adds something to what outlives its call, and nothing of a row."""
    shared, local = _shared(function), _local(function)
    for one in walk(function.body):
        if not isinstance(one, cst.AugAssign) or is_of_rows(run, one.value):
            continue
        root: cst.BaseExpression = one.target
        while isinstance(root, (cst.Attribute, cst.Subscript)):
            root = root.value
        if isinstance(root, cst.Name):
            outlives = root.value in shared if root is one.target else root.value not in local
            if outlives and not _is_at_a_row(run, one.target):
                return True
    return False


def _is_at_a_row(run: RunState, target: cst.BaseExpression) -> bool:
    """Whether a row says which item is added to: ``counts[label] += 1``."""
    parts = target.slice if isinstance(target, cst.Subscript) else ()
    return any(isinstance(p.slice, cst.Index) and is_of_rows(run, p.slice.value) for p in parts)


def _shared(function: cst.FunctionDef) -> set[str]:
    """The names of its module, or of a function around it, that a function may set."""
    said = (one for one in walk(function.body) if isinstance(one, (cst.Global, cst.Nonlocal)))
    return {item.name.value for one in said for item in one.names}


def _local(function: cst.FunctionDef) -> set[str]:
    """The names that a function sets itself or is given, but for that of its object."""
    set_ = (assigned(one) for one in walk(function.body) if isinstance(one, cst.Assign))
    loops = (assigned(one.target) for one in walk(function.body) if isinstance(one, cst.For))
    given = {one.name.value for one in parameters(function)} - {"self"}
    return given.union(*set_, *loops) - _shared(function)
