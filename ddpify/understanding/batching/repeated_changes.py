"""What the rounds of a loop over a rank's rows change once more each: their number decides it.

``scale = scale * 0.9`` for each of the rows leaves another number where a rank has fewer of them,
also if no row is read. Sums over the rows are told by what is added; all else that a round makes of
what the one before it has left needs the rows of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding import uses
from ddpify.understanding.batching import collating_order, counting_functions, earlier_samples
from ddpify.understanding.batching.repeated_calls import (
    SETTING,
    acts_again,
    is_of_rows,
    is_older,
    shows_older,
)
from ddpify.understanding.frames import Loop
from ddpify.understanding.liveness import Names, assigned, bound_in, left_behind, reads, taken_over
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import sure_numbers
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    UNKNOWN,
    Bound,
    Data,
    Function,
    QualifiedName,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ADDING = (cst.Add, cst.Subtract)
_ADDING_TO = (cst.AddAssign, cst.SubtractAssign)
_GROWING = ("append", "extend", "appendleft")


def check(run: RunState, loop: Loop) -> None:
    """Ask for the rows of all ranks where a round of a loop repeats what another one has done."""
    node = loop.node
    if not isinstance(node, cst.For):
        return
    samples = run.collating and collating_order.are_samples(run, loop.element)
    mixed = () if loop.rows else _mixed(run, node)
    rows = loop.rows or mixed  # as many as ``labels.unique()`` has
    if not rows and not samples:
        return
    left = bool(mixed) and _leaves_its_number(run, node)
    if not (left or _repeats(run, node) or (rows and earlier_samples.go_on(run, node))):
        return
    for data in rows:
        run.demand(node.iter, value(data), uses.A_TABLE)
    for atom in deep_atoms(loop.element) if samples else ():
        if isinstance(atom, Data):
            run.mixes_batches(node, atom.loaders)


@record
class _Names:
    """The names of a loop: what a round takes over from earlier ones, and what it makes itself."""

    loop: cst.For
    carried: Names
    own: Names


def _mixed(run: RunState, loop: cst.For) -> tuple[Data, ...]:
    """What mixes the rows of a batch, such as parts of them, of which each round gets one."""
    through = _passed_on(run, loop.iter)
    held = (one for part in through for one in run.seen(part).data)
    return tuple(one for one in held if one.placement is Placement.COUPLED)


def _passed_on(run: RunState, through: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a loop goes through, where it counts or pairs that, too."""
    yield through
    if isinstance(through, cst.Call) and run.calls_builtin(through, "enumerate", "zip"):
        for one in through.args:
            yield from _passed_on(run, one.value)


def _leaves_its_number(run: RunState, loop: cst.For) -> bool:
    """Whether code behind a loop reads something that its last round left, and no part of a batch.

    That is the number of the round, as ``enumerate()`` gives it, or what is computed of that.
    """
    if not run.calls_builtin(loop.iter, "enumerate"):
        return False
    around = run.module.structure.function(loop) or run.module.tree
    body = around.body.body if isinstance(around, cst.FunctionDef) else around.body
    left = left_behind(body, loop)  # type: ignore[arg-type]
    return any(not run.frame.scope.names.get(name, UNKNOWN).data for name in left)


def check_comprehension(run: RunState, node: cst.BaseSimpleComp, element: Value) -> None:
    """Ask for the rows of all ranks where a comprehension is made for what its calls do."""
    rows = [one for one in deep_atoms(element) if isinstance(one, Data) and one.is_of_one_sample]
    if not rows or run.collating:
        return
    call, own = node.elt, assigned(node.for_in.target)
    acts = isinstance(call, cst.Call) and acts_again(run, node, call, own)
    if acts or counting_functions.are_called(run, _calls_in(node.elt), own):
        for data in rows:
            run.demand(node.for_in.iter, value(data), uses.A_TABLE)


def _repeats(run: RunState, loop: cst.For) -> bool:
    """Whether a statement in a loop changes something older, by nothing that a row has."""
    bound = bound_in(loop)
    carried = taken_over(loop) & bound
    own = bound - carried
    names = _Names(loop, carried, own)
    if not run.collating and counting_functions.are_called(run, _calls_in(loop.body), own):
        return True
    return any(_changes(run, one, names) for one in walk(loop.body))


def _calls_in(node: cst.CSTNode) -> list[cst.Call]:
    return [one for one in walk(node) if isinstance(one, cst.Call)]


def _changes(run: RunState, node: cst.CSTNode, names: _Names) -> bool:
    if isinstance(node, cst.AugAssign):
        return _changes_in_place(run, node, names)
    if isinstance(node, cst.Assign):
        return any(_replaces(run, one.target, node.value, names) for one in node.targets)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and _calls(run, node, node.func, names):
        return True
    acts = not run.collating and acts_again(run, names.loop, node, names.own)
    return acts or (not run.collating and _acts(run, node, set()))


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


def _changes_in_place(run: RunState, node: cst.AugAssign, names: _Names) -> bool:
    """``n += 1`` or ``table["a"] *= 0.9``."""
    added = isinstance(node.operator, _ADDING_TO)
    if (added and run.collating) or (is_of_rows(run, node.value) and (added or run.collating)):
        return False  # sums over samples are told by what is added
    if isinstance(node.target, cst.Name):
        if node.target.value in names.carried:
            return True
        if run.collating or sure_numbers.is_number(run, node.target):
            return False
        return shows_older(run, names.loop, node.target, names.own)
    return not is_of_rows(run, node.value) and is_older(run, names.loop, node.target, names.own)


def _replaces(
    run: RunState, target: cst.BaseExpression, new: cst.BaseExpression, names: _Names
) -> bool:
    """``x = x * 0.9``; not ``x = x + row``, nor ``previous = row``."""
    if not isinstance(target, cst.Name):
        if isinstance(target, (cst.Tuple, cst.List)):
            return bool(assigned(target) & names.carried & reads(new)) and not run.collating
        again = any(target.deep_equals(one) for one in walk(new))
        return again and not is_of_rows(run, new) and is_older(run, names.loop, target, names.own)
    name = target.value
    if name not in names.carried:
        return False
    if name not in reads(new):
        return not is_of_rows(run, new)
    others = [one for one in _terms(new) if not (isinstance(one, cst.Name) and one.value == name)]
    added = len(others) < len(list(_terms(new))) and not any(name in reads(one) for one in others)
    if run.collating:
        return not added and not any(is_of_rows(run, one) for one in _other_names(new, name))
    return not added or not all(is_of_rows(run, one) for one in others)


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


def _calls(run: RunState, node: cst.Call, method: cst.Attribute, names: _Names) -> bool:
    """``w.mul_(0.9)`` or ``found.append(1)`` of something older than the loop."""
    name = method.attr.value
    changing = changes_values(name) and name not in SETTING
    growing = name in _GROWING and not run.collating
    if not changing and not growing:
        return False
    given = any(is_of_rows(run, one.value) for one in node.args)
    return not given and is_older(run, names.loop, method.value, names.own) and bool(node.args)
