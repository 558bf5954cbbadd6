"""Of what an expression may be: what the operation that is applied to it leaves.

A tensor beside the list that may hold it is an item of that; None beside something else is not
what a line takes an item, an attribute or a round of a loop from.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.records import replace
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Const, Data, Instance, Tup


def taken_apart(atoms: Sequence[Atom]) -> list[Atom]:
    """What is gone through or counted: not a tensor beside the tuple or list that may hold it."""
    if len(atoms) < 2:
        return list(atoms)
    atoms = without_none(atoms)
    held = [item for atom in atoms if isinstance(atom, Tup) for item in atom.items]
    held += [a.elements for a in atoms if isinstance(a, Instance) and a.type == "list"]
    parts = [atom for item in held for atom in item.data]
    return [a for a in atoms if not (isinstance(a, Data) and any(_are_alike(a, p) for p in parts))]


def without_none(atoms: Sequence[Atom]) -> Sequence[Atom]:
    """What is not None, where it may be something else."""
    return [atom for atom in atoms if not is_none(atom)] or atoms


def is_none(atom: Atom) -> bool:
    """Whether this is None, which has neither items nor attributes."""
    return type(atom) is Const and atom.value is None


def _are_alike(alone: Data, part: Data) -> bool:
    """Whether two are tensors of one kind: other models, and expressions, may have made them."""
    if _kind(alone) == _kind(part) and alone.placement is Placement.SHARD:
        return not alone.loaders.isdisjoint(part.loaders)
    return _without_sites(alone) == _without_sites(part)


def _kind(atom: Data) -> tuple[object, ...]:
    return atom.placement, atom.form, atom.dim


def _without_sites(atom: Data) -> Data:
    """A tensor whatever the expressions that made it: two may be written alike."""
    return replace(atom, definition_sites=frozenset(), names=frozenset())
