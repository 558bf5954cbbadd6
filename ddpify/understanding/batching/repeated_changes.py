"""What the rounds of a loop over a rank's rows change once more each: their number decides it.

``scale = scale * 0.9`` for each of the rows leaves another number where a rank has fewer of them,
also if no row is read. Sums over the rows are told by what is added; all else that a round makes of
what the one before it has left needs the rows of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.batching import collating_order, earlier_samples
from ddpify.understanding.frames import Loop
from ddpify.understanding.liveness import Names, assigned, bound_in, reads, taken_over
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    Bound,
    Data,
    Function,
    QualifiedName,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ADDING = (cst.Add, cst.Subtract)
_ADDING_TO = (cst.AddAssign, cst.SubtractAssign)
_GROWING = ("append", "extend", "appendleft")
# In place, but the same however often it is done.
_SETTING = frozenset("zero_ fill_ copy_ clamp_ clamp_min_ clamp_max_ relu_ abs_ sign_".split())


def check(run: RunState, loop: Loop) -> None:
    """Ask for the rows of all ranks where a round of a loop repeats what another one has done."""
    node = loop.node
    if not isinstance(node, cst.For):
        return
    samples = run.collating and collating_order.are_samples(run, loop.element)
    mixed = (d for d in run.seen(node.iter).data if d.placement is Placement.COUPLED)
    rows = loop.rows or tuple(mixed)  # as many as ``labels.unique()`` has
    if not rows and not samples:
        return
    if not _repeats(run, node) and not (rows and earlier_samples.go_on(run, node)):
        return
    for data in rows:
        run.demand(node.iter, value(data), uses.A_TABLE)
    for atom in deep_atoms(loop.element) if samples else ():
        if isinstance(atom, Data):
            run.mixes_batches(node, atom.loaders)


def _repeats(run: RunState, loop: cst.For) -> bool:
    """Whether a statement in a loop changes something older, by nothing that a row has."""
    bound = bound_in(loop)
    carried = taken_over(loop) & bound
    own = bound - carried
    return any(_changes(run, one, carried, own) for one in walk(loop.body))


def _changes(run: RunState, node: cst.CSTNode, carried: Names, own: Names) -> bool:
    if isinstance(node, cst.AugAssign):
        return _changes_in_place(run, node, carried, own)
    if isinstance(node, cst.Assign):
        return any(_replaces(run, one.target, node.value, carried, own) for one in node.targets)
    if not isinstance(node, cst.Call):
        return False
    changed = isinstance(node.func, cst.Attribute) and _calls(run, node, node.func, own)
    return changed or (not run.collating and _acts(run, node, set()))


def _acts(run: RunState, call: cst.Call, seen: set[cst.CSTNode]) -> bool:
    """Whether a call prints, writes or logs, itself or in a function of the project."""
    called = run.seen(call.func)
    if any(one.name == "builtins.print" for one in called.of(QualifiedName)):
        return True
    if any((kind, call) in run.facts.effects for kind in ("write", "log", "save")):
        return True
    functions = [*called.of(Function), *(one.function for one in called.of(Bound))]
    new = [one.node for one in functions if one.node not in seen]
    seen.update(new)
    inside = (one for function in new for one in walk(function.body))
    return any(isinstance(one, cst.Call) and _acts(run, one, seen) for one in inside)


def _changes_in_place(run: RunState, node: cst.AugAssign, carried: Names, own: Names) -> bool:
    """``n += 1`` or ``table["a"] *= 0.9``."""
    added = isinstance(node.operator, _ADDING_TO)
    if (added and run.collating) or (_is_of_rows(run, node.value) and (added or run.collating)):
        return False  # sums over samples are told by what is added
    if isinstance(node.target, cst.Name):
        return node.target.value in carried
    return not _is_of_rows(run, node.value) and _is_older(run, node.target, own)


def _replaces(
    run: RunState, target: cst.BaseExpression, new: cst.BaseExpression, carried: Names, own: Names
) -> bool:
    """``x = x * 0.9``; not ``x = x + row``, nor ``previous = row``."""
    if not isinstance(target, cst.Name):
        if isinstance(target, (cst.Tuple, cst.List)):
            return bool(assigned(target) & carried & reads(new)) and not run.collating
        again = any(target.deep_equals(one) for one in walk(new))
        return again and not _is_of_rows(run, new) and _is_older(run, target, own)
    name = target.value
    if name not in carried:
        return False
    if name not in reads(new):
        return not _is_of_rows(run, new)
    others = [one for one in _terms(new) if not (isinstance(one, cst.Name) and one.value == name)]
    added = len(others) < len(list(_terms(new))) and not any(name in reads(one) for one in others)
    if run.collating:
        return not added and not any(_is_of_rows(run, one) for one in _other_names(new, name))
    return not added or not all(_is_of_rows(run, one) for one in others)


def _terms(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a sum adds up, or takes away behind its first term."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ADDING):
        yield from _terms(node.left)
        yield from [node.right] if isinstance(node.operator, cst.Subtract) else _terms(node.right)
    else:
        yield node


def _other_names(node: cst.BaseExpression, name: str) -> Iterator[cst.BaseExpression]:
    """The names in an expression, but for one."""
    for one in walk(node):
        if isinstance(one, cst.Name) and one.value != name:
            yield one


def _calls(run: RunState, node: cst.Call, method: cst.Attribute, own: Names) -> bool:
    """``w.mul_(0.9)`` or ``found.append(1)`` of something older than the loop."""
    name = method.attr.value
    changing = changes_values(name) and name not in _SETTING
    growing = name in _GROWING and not run.collating
    if not changing and not growing:
        return False
    given = any(_is_of_rows(run, one.value) for one in node.args)
    return not given and _is_older(run, method.value, own) and bool(node.args)


def _is_of_rows(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this holds something of a row, or its position."""
    return any(
        isinstance(atom, Data) and (atom.placement.local or atom.is_position or run.collating)
        for atom in deep_atoms(run.seen(node))
    )


def _is_older(run: RunState, target: cst.BaseExpression, own: Names) -> bool:
    """Whether what a target is in was there before the round, and no row says which part it is."""
    while isinstance(target, (cst.Attribute, cst.Subscript, cst.Call)):
        parts = target.slice if isinstance(target, cst.Subscript) else ()
        indices = [one.slice.value for one in parts if isinstance(one.slice, cst.Index)]
        if any(_is_of_rows(run, one) for one in indices):
            return False
        target = target.func if isinstance(target, cst.Call) else target.value
    return isinstance(target, cst.Name) and target.value not in own
