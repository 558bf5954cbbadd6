"""Numbers of dimensions that are not known, counted from where a tensor got its name.

``h[:, None]`` has one more than ``h``, however many that has: rows that lie along the first
dimension of both do not meet each other where the two are broadcast.
"""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import NO_ROWS, Atom, Data, Tup, Value, value

_MOST = 8  # dimensions that one operator adds or takes away


def rooted(held: Value, source: cst.CSTNode) -> Value:
    """A value that gets its name at ``source``, from where its dimensions are counted."""
    if not any(_is_unknown(one) for one in held.atoms):
        return held
    return value(*(_rooted(one, source) for one in held.atoms))


def _rooted(one: Atom, source: cst.CSTNode) -> Atom:
    return counted_from(one, source) if isinstance(one, Data) else one


def counted_from(one: Data, source: cst.CSTNode) -> Data:
    """Rows whose dimensions, where nothing is known of them, are counted from here."""
    return replace(one, relative=(source, 0)) if _is_unknown(one) else one


def _is_unknown(one: Atom) -> TypeGuard[Data]:
    if not isinstance(one, Data) or one.ndim or one.relative is not None:
        return False
    return one.placement is Placement.SHARD and one.dim != NO_ROWS


def moved(made: Value, source: Data, added: int | None) -> Value:
    """``made``, known to have so many more dimensions than ``source``; how many may be unknown."""
    relative = further(source, added)
    if not any(isinstance(one, (Data, Tup)) for one in made.atoms):
        return made
    return value(*(_with(one, relative) for one in made.atoms))


def shortened(made: Value, source: cst.CSTNode) -> Value:
    """What lost each dimension of size one at ``source``: as it stands there, it had some."""
    return value(*(_shortened(one, source) for one in made.atoms))


def _shortened(one: Atom, source: cst.CSTNode) -> Atom:
    return replace(one, relative=(source, -1)) if _is_unknown(one) else one


def _with(one: Atom, relative: tuple[cst.CSTNode, int] | None) -> Atom:
    if isinstance(one, Tup):
        items = (value(*(_with(part, relative) for part in item.atoms)) for item in one.items)
        return Tup(tuple(items))
    if isinstance(one, Data) and one.relative != relative:
        return replace(one, relative=relative)
    return one


def further(source: Data, added: int | None) -> tuple[cst.CSTNode, int] | None:
    """Where so many more dimensions than those of ``source`` are counted from, and how many."""
    if source.relative is None or added is None or abs(added) > _MOST:
        return None
    return source.relative[0], source.relative[1] + added


def of_pair(left: Data | None, right: Data | None) -> tuple[cst.CSTNode, int] | None:
    """What broadcasting leaves of two tensors, or of one beside a number."""
    known = [one.relative for one in (left, right) if one is not None and one.relative]
    both = [one for one in (left, right) if one is not None]
    if len(known) < len(both) or len({source for source, _ in known}) != 1:
        return None
    return known[0][0], max(offset for _, offset in known)


def difference(left: Data, right: Data) -> int | None:
    """How many more dimensions the first has than the second; None where that is not known."""
    if left.ndim and right.ndim:
        return left.ndim - right.ndim
    one, other = left.relative, right.relative
    if one is None or other is None or one[0] is not other[0]:
        return None
    return one[1] - other[1]
