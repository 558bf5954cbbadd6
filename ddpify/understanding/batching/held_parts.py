"""Whether what a name holds holds parts of a batch, at any depth: a question that reads no content.

Before each batch, all names are asked for parts that are of an earlier one. Most collections hold
none, and come to hold numbers, or layers, later in the pass. That would not change the answer, so
it asks for no other pass. An answer is looked at again when the pass has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.understanding.values import CONTAINERS, Data, Instance, Tup, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_HOLDING = (*CONTAINERS, "argparse.Namespace")


def may_be_in(run: RunState, held: Value) -> bool:
    """Whether there may be parts in a value: if not, no more need be asked of what it holds."""
    if _are_in(held):
        return True
    run.without_parts.add(held)
    return False


def outdated(run: RunState) -> bool:
    """Whether anything holds parts by now that was asked for them in this pass, and held none."""
    return any(map(_are_in, run.without_parts))


def _are_in(held: Value) -> bool:
    todo, seen = [held], set[int]()
    while todo:
        for atom in todo.pop().atoms:
            if isinstance(atom, Data):
                if atom.placement.local:
                    return True
            elif isinstance(atom, Tup):
                todo += atom.items
            elif isinstance(atom, Instance) and atom.kind in _HOLDING and id(atom) not in seen:
                seen.add(id(atom))
                todo.append(atom.held_so_far)
    return False
