"""What the round of one sample takes over from the rounds of the samples before it.

A loop over a rank's samples does for each of them what one process does only if its rounds are
independent. Where one reads what an earlier one has left, the loop needs the samples of all ranks.
Names are told by ``earlier_rounds``. Attributes, containers and iterators that a round changes are
noted while it is interpreted, also in the functions that it calls: where a round reads them as
well, the rounds depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import earlier_rounds
from ddpify.understanding.frames import Rounds
from ddpify.understanding.liveness import assigned
from ddpify.understanding.structure import walk
from ddpify.understanding.values import CONTAINERS, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ADDING = frozenset("append appendleft add extend extendleft update insert".split())


@contextmanager
def in_turn(run: RunState, node: cst.CSTNode, *, samples: bool) -> Iterator[None]:
    """Inside, the round of one sample runs; without ``samples``, that of something else."""
    if not samples:
        yield
        return
    run.rounds.append(run.rounds_of.setdefault(node, Rounds(node)))
    try:
        yield
    finally:
        run.rounds.pop()


def read_attribute(run: RunState, owner: Instance, key: str, node: cst.BaseExpression) -> None:
    """A round reads an attribute; adding to it is not yet to use it."""
    if not _is_added_to(run, node):
        _read(run, (owner, key))


def read_containers(run: RunState, node: cst.BaseExpression, held: Value) -> None:
    """A round reads containers; adding to them is not yet to use them."""
    found = [a for a in held.atoms if isinstance(a, Instance) and a.type in CONTAINERS]
    if found and not _is_added_to(run, node):
        for container in found:
            _read(run, container)


def advanced(run: RunState, node: cst.BaseExpression) -> None:
    """A round takes the next item of an iterator, perhaps of one that it has not made itself."""
    iterator = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    if run.rounds and isinstance(iterator, cst.Name) and not _is_made_in_round(run, iterator):
        for one in run.rounds:
            one.changed.add(iterator)
        _read(run, iterator)


def _read(run: RunState, place: object) -> None:
    for one in run.rounds:
        run.reads_change |= one.note(one.read, place)


def _is_made_in_round(run: RunState, name: cst.Name) -> bool:
    """Whether the round of a sample, or a function that it calls, assigns a name."""
    loop = run.rounds[-1].loop
    inside = run.module.holds(loop, name)  # and not in a function that a round calls
    around = loop if inside else run.module.structure.function(name)
    statements = (one for one in walk(around) if isinstance(one, cst.Assign)) if around else ()
    return any(name.value in assigned(one) for one in statements)


def _is_added_to(run: RunState, node: cst.CSTNode) -> bool:
    """Whether this is only added to, or written into, by the expression around it."""
    parents = run.module.parents
    above = parents.get(node)
    if isinstance(above, (cst.AugAssign, cst.AssignTarget)):
        return above.target is node
    if isinstance(above, cst.Attribute):
        call = parents.get(above)
        return isinstance(call, cst.Call) and call.func is above and above.attr.value in _ADDING
    written = parents.get(above) if isinstance(above, cst.Subscript) else None
    return isinstance(written, (cst.AssignTarget, cst.AugAssign)) and written.target is above


def go_on(run: RunState, node: cst.CSTNode) -> bool:
    """Whether rounds, of the loop over samples that ``node`` is, go on from earlier ones."""
    known = run.rounds_of.get(node)
    if known is None:
        return False
    known.asked = True
    return known.depend


def goes_on(run: RunState, loop: cst.For, node: cst.CSTNode) -> bool:
    """Whether what stands in a loop over samples goes by what earlier rounds have left."""
    return earlier_rounds.goes_by(run.module.structure, loop, node) or go_on(run, loop)


def is_written_of(run: RunState, target: cst.Subscript) -> bool:
    """Whether ``target = value``, in a loop over samples, goes by what earlier rounds have left."""
    loop = next((one.node for one in reversed(run.frame.loops) if one.rows), None)
    statement = next(
        (one for one in run.module.structure.up(target) if isinstance(one, cst.Assign)), None
    )
    if not isinstance(loop, cst.For) or statement is None:
        return False
    return goes_on(run, loop, statement.value)
