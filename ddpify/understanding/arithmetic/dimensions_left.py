"""How many dimensions tensor functions leave, of rows and of what all ranks hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpify.records import replace
from ddpify.understanding.arithmetic.tensor_dimensions import (
    KEEPING_DIMENSIONS,
    OVER_A_DIMENSION,
    PARTING,
    SUMMING,
    goes_over_all,
    keeps_dimensions,
    told,
)
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import Atom, Data, Number, Tup, Value, value

_ONE_LESS = ("vecdot", "select")
_MANY = 64  # dimensions: what is left of them shows how many a function adds


def after(
    made: Value, name: str, ndim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """What a function has made of a tensor of so many dimensions, with those that it leaves."""
    number = is_a_number(name, rest, kwargs)
    made = noted(made, _left(name, ndim, rest, kwargs), number=number)
    return perhaps_single(made) if name in _ONE_LESS and ndim in (0, 2) else made


def perhaps_single(made: Value) -> Value:
    """Rows of which each is perhaps a single number."""
    return value(*(replace(a, one_each=True) if isinstance(a, Data) else a for a in made.atoms))


def added(
    name: str, source: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> int | None:
    """How many dimensions more a function leaves than a tensor has; None where not known."""
    if source.ndim or source.relative is None:
        return None
    if _makes_a_column(name, rest):
        return 1
    left = _left(name, _MANY, rest, kwargs)
    return left - _MANY if left else None


def _makes_a_column(name: str, rest: Sequence[Value]) -> bool:
    """Whether this is ``w.view(-1, 1)``, which one writes for a ``w`` of one dimension.

    One of two is taken for such a one: where it meets itself, that asks for the rows of all ranks.
    """
    sizes = [one.constant() for one in rest]
    return name in ("view", "reshape") and sizes == [-1, 1]


def _left(name: str, ndim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> int:
    """How many dimensions a function leaves of a tensor; 0 where that is not known."""
    if name in ("flatten", "ravel") and not rest and not kwargs:
        return 1
    if name == "repeat_interleave":  # which goes through all elements, if not told
        return ndim if len(rest) > 1 or "dim" in kwargs else 1
    if name not in OVER_A_DIMENSION or name in PARTING:
        return dimensions.after(name, ndim, rest)
    if name in KEEPING_DIMENSIONS:
        return ndim if rest or kwargs else 0  # NumPy's go through all elements, if not told
    given = named_dimensions(told(name, rest), kwargs)
    if not ndim or len(given) != 1 or not all(isinstance(dim, int) for dim in given[0]):
        return 0
    if keeps_dimensions(name, rest, kwargs):
        return ndim
    return max(ndim - len(given[0]), 0) * bool(given[0])


def is_a_number(name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function surely gives one number of all elements, as ``x.std()`` does."""
    everything = name in SUMMING and () in named_dimensions(told(name, rest), kwargs)
    everything |= goes_over_all(name, rest, kwargs)
    return everything and not rest and kwargs.keys() <= {"unbiased", "correction"}


def noted(made: Value, ndim: int, *, number: bool) -> Value:
    """What a function gives, known to have so many dimensions; 0 where that is not known."""
    return value(*(_noted(atom, ndim, number) for atom in made.atoms))


def _noted(atom: Atom, ndim: int, number: bool) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(noted(item, ndim, number=number) for item in atom.items))
    if isinstance(atom, Data):
        single = number and atom.reduced
        return replace(atom, ndim=ndim, one_each=atom.one_each or single)
    if isinstance(atom, Number) and (number or ndim):
        return replace(atom, ndim=ndim)
    return atom
