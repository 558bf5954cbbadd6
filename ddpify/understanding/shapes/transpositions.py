"""Where functions that change the order of a tensor's dimensions put the rows of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpify.understanding.shapes import dimensions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import NO_ROWS, Value

_OF_ALL = frozenset("T H".split())  # dimensions, as NumPy's transpose() without arguments
_OF_THE_LAST = frozenset("mT mH adjoint matrix_transpose".split())
_SWAPPING = frozenset("transpose swapaxes swapdims".split())
_MOVING = frozenset("movedim moveaxis rollaxis".split())
ATTRIBUTES = frozenset("T H mT mH".split())
TRANSPOSING = _OF_ALL | _OF_THE_LAST | _SWAPPING | _MOVING | {"t", "permute"}
# How arguments that name dimensions may be called.
_NAMES = (
    "dims",
    "dim0",
    "dim1",
    "axis0",
    "axis1",
    "source",
    "destination",
    "axes",
    "axis",
    "start",
)


def place(
    name: str, dim: int, ndim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> int | None:
    """Which dimension the rows lie along afterwards; None where that is not known.

    Where the number of dimensions is not known, ``T`` is taken for that of a matrix. A single
    sample has no rows, however its dimensions lie.
    """
    if dim == NO_ROWS:
        return dim
    if name == "t" or (name in _OF_ALL and not ndim):
        return 1 - dim if dim < 2 else None
    if name in _OF_THE_LAST:
        return _swapped(dim, [ndim - 1, ndim - 2]) if ndim else None
    given = [*rest, *(kwargs[one] for one in _NAMES if one in kwargs)]
    lists = [dims for one in given for dims in named_dimensions((one,), {})]
    if name in _OF_ALL or not lists:
        return ndim - 1 - dim if ndim else None
    if name in _MOVING:
        return _moved(name, dim, ndim, lists)
    order = [one for dims in lists for one in dims]
    return _ordered(name, dim, ndim, order)


def _ordered(name: str, dim: int, ndim: int, order: Sequence[object]) -> int | None:
    """Where ``transpose(0, 1)`` and ``permute(1, 0, 2)`` put a dimension."""
    if name in _SWAPPING and len(order) == 2:
        return _swapped(dim, [dimensions.place(one, ndim) for one in order])
    places = [dimensions.place(one, len(order)) for one in order]
    return places.index(dim) if dim in places else None


def _swapped(dim: int, pair: Sequence[object]) -> int | None:
    """Where a swap of two dimensions puts one."""
    if dim not in pair:
        return dim if all(isinstance(one, int) and one >= 0 for one in pair) else None
    other = pair[1] if pair[0] == dim else pair[0]
    return other if isinstance(other, int) and other >= 0 else None


def _moved(name: str, dim: int, ndim: int, lists: Sequence[Sequence[object]]) -> int | None:
    """Where ``movedim`` puts a dimension that it may not name."""
    if name == "rollaxis":
        lists = [lists[0], lists[1] if len(lists) > 1 else (0,)]
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        return None
    source, destination = ([dimensions.place(one, ndim) for one in dims] for dims in lists)
    named = [one for one in (*source, *destination) if isinstance(one, int) and one >= 0]
    if len(named) != 2 * len(source):
        return None
    if name == "rollaxis" and destination[0] > source[0]:  # type: ignore[operator]
        destination = [destination[0] - 1]  # type: ignore[operator]
    length = ndim or max(*named, dim) + 1
    left = iter(one for one in range(length) if one not in source)
    order = [
        source[destination.index(at)] if at in destination else next(left) for at in range(length)
    ]
    return order.index(dim)
