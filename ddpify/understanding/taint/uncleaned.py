"""Names that a collective makes whole, where it has not got them yet.

``if loss.item() > 10: break`` before ``all_reduce(loss)`` asks for a rank's own number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import Move
from ddpify.understanding.taint.locations import Slot
from ddpify.understanding.taint.reaching_definitions import last_of

_FURTHEST = 8  # names that are set to names; a chain in a loop has no end


class Uncleaned:
    """Replaces what is made of such a name by what is made of the value that it was set to."""

    def __init__(
        self,
        structures: dict[ModuleFile, Structure],
        cleaned: dict[Slot, list[cst.CSTNode]],
        moves_to: Callable[[set[Slot]], list[Move]],
    ) -> None:
        self._structures = structures.values()
        self._cleaned = {slot: nodes for slot, nodes in cleaned.items() if slot[0] == "name"}
        self._moves_to = moves_to

    def __call__(self, made: list[Dependency]) -> None:
        """Change what an expression depends on, in its place."""
        if any(one.slot in self._cleaned for one in made):
            made[:] = [inner for one in made for inner in self._before(one, _FURTHEST)]

    def _before(self, one: Dependency, further: int) -> list[Dependency]:
        move = self._last(one) if one.slot in self._cleaned and further else None
        if move is None:
            return [one]
        found = [inner for source in move.source for inner in self._before(source, further - 1)]
        return [replace(inner, pure=inner.pure and one.pure) for inner in found]

    def _last(self, one: Dependency) -> Move | None:
        """What surely has set a name before it is read here, with no collective in between."""
        assert one.slot is not None
        read = one.node
        structure = next((s for s in self._structures if read in s.order), None)
        if read is None or structure is None or not isinstance(read, cst.Name):
            return None
        places = self._cleaned[one.slot]
        around = structure.function(read)
        if any(at not in structure.order or structure.function(at) is not around for at in places):
            return None
        moves = [move for move in self._moves_to({one.slot}) if not move.passes]
        last = last_of(structure, read, [move.node for move in moves])
        if last is None or isinstance(last, cst.AugAssign):
            return None
        start, end = structure.order[last], structure.order[read]
        if any(start < structure.order[at] < end for at in places):
            return None
        return next((move for move in moves if move.node is last), None)
