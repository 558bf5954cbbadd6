"""Numbers that a loop over a rank's rows counts, and what is computed of them.

The row at such a number is the rank's own in each round. What is computed of it, as ``i - 1``, may
be the number of another row, which another rank may have.
"""

from __future__ import annotations

from collections.abc import Iterable

from ddpify.records import replace
from ddpify.understanding.forms import NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Data, Value, value


def negated(made: Value) -> Value:
    """What ``-len(x)`` makes of a number of rows: a multiple of it, which counts none."""
    return value(*map(_negated, made.atoms))


def _negated(atom: Atom) -> Atom:
    if not isinstance(atom, Data) or atom.placement is not Placement.COUNT:
        return atom
    return replace(atom, form=NumberKind.MULTIPLE) if atom.form is NumberKind.NUMBER else atom


def shifted(made: Value) -> Value:
    """What an operation makes of such numbers, or takes them in another order."""
    return value(*map(_shifted, made.atoms)) if made.positions else made


def computed_of(operands: Iterable[tuple[object, Value]]) -> Value | None:
    """What a function makes of such numbers, and of nothing else of a batch; None of others."""
    held = [data for _, one in operands for data in one.data]
    numbers = value(*(data for data in held if data.is_position))
    return shifted(numbers) if held and len(numbers.positions) == len({*held}) else None


def are_shifted(index: Value) -> bool:
    """Whether an index may be the number of another row than the one that a round is for."""
    return any(data.form is NumberKind.SHIFTED for data in index.positions)


def _shifted(atom: Atom) -> Atom:
    if isinstance(atom, Data) and atom.form is NumberKind.POSITION:
        return replace(atom, form=NumberKind.SHIFTED)
    return atom
