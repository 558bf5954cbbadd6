"""What ``first, *others = whole`` takes apart: a starred name gets the list of what is left."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.values import Atom, Instance, Tup, Value, value

_LISTS = ("list", "tuple")


def lined_up(target: cst.Tuple | cst.List, whole: Value) -> Value:
    """The parts of a value in the order of the names that get them, one for each name."""
    stars = [isinstance(one, cst.StarredElement) for one in target.elements]
    if not any(stars):
        return whole
    before, after = stars.index(True), len(stars) - stars.index(True) - 1
    return value(*(_lined_up(atom, before, after) for atom in whole.atoms))


def _lined_up(atom: Atom, before: int, after: int) -> Atom:
    if isinstance(atom, Instance) and atom.type in _LISTS:
        one = atom.elements
        return Tup((*[one] * before, value(atom), *[one] * after))
    if not isinstance(atom, Tup) or len(atom.items) < before + after:
        return atom
    end = len(atom.items) - after
    return Tup((*atom.items[:before], value(Tup(atom.items[before:end])), *atom.items[end:]))
