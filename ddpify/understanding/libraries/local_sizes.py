"""What in the arguments of a call is this rank's: rows, their number, their shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.forms import NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Data, Instance, Tup, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

TYPED = frozenset(
    "Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor"
    " IntTensor LongTensor BoolTensor".split()
)
_VARIADIC = frozenset("randn rand zeros ones empty".split()) | TYPED  # torch.zeros(2, 3)
_MOST_DIMENSIONS = 6


@record
class Part:
    """Something in a call's arguments that is this rank's: rows, their number or their shape.

    ``dim`` is the dimension of the rows in the result, ``ndim`` how many it has, 0 if not known.
    """

    node: cst.BaseExpression
    data: Data
    dim: int
    ndim: int = 0


def parts_of(run: RunState, node: cst.Call, name: str) -> Iterator[Part]:
    """What in a call's arguments is this rank's, with the dimension of its rows in the result."""
    sizes = [argument for argument in node.args if argument.keyword is None]
    variadic = name in _VARIADIC
    ndim = len(sizes) if variadic and not any(argument.star for argument in sizes) else 0
    for position, argument in enumerate(node.args):
        named = argument.keyword.value if argument.keyword is not None else ""
        if variadic and not named:
            yield from parts_in(run, argument.value, position, ndim)
        elif named not in ("generator", "device", "dtype", "out"):
            yield from parts_in(run, argument.value, 0, 0)


def parts_in(run: RunState, node: cst.BaseExpression, place: int, ndim: int) -> Iterator[Part]:
    """The parts in an expression whose first element is the size of dimension ``place``."""
    for data in run.seen(node).data:
        if data.placement is Placement.COUNT:
            yield Part(node, data, place, ndim)
            return
        if data.placement is Placement.SHARD:
            dim = data.dim + (place if data.form is NumberKind.SHAPE else 0)
            yield Part(node, data, dim, 0 if place else data.ndim)
            return
    listed = _listed_shape(run, node) if place == 0 and isinstance(node, cst.Name) else None
    if listed is not None:
        yield Part(node, listed, listed.dim)
    elif isinstance(node, (cst.Tuple, cst.List)):
        starred = any(isinstance(one, cst.StarredElement) for one in node.elements)
        for position, element in enumerate(node.elements):
            size = 0 if starred or place else len(node.elements)
            yield from parts_in(run, element.value, place + position, size)
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        yield from parts_in(run, node.left, place, 0)
        known = len(node.left.elements) if isinstance(node.left, cst.Tuple) else 0
        yield from parts_in(run, node.right, place + known, 0)


def _listed_shape(run: RunState, node: cst.Name) -> Data | None:
    """A name for sizes in a list or tuple, the number of this rank's rows among them: a shape."""
    held = [*_sizes_of(run.seen(node).atoms)]
    for dim, size in enumerate(held[0] if held else ()):
        for data in size.data:
            if data.placement is Placement.COUNT:
                return replace(data.placed(Placement.SHARD), form=NumberKind.SHAPE, dim=dim)
    return None


def _sizes_of(atoms: Iterable[Atom]) -> Iterator[list[Value]]:
    """The elements of tuples and lists, as far as their positions are known."""
    for atom in atoms:
        if isinstance(atom, Tup):
            yield [*atom.items]
        elif isinstance(atom, Instance) and atom.type == "list":
            known = (atom.attribute(f"[{position}]") for position in range(_MOST_DIMENSIONS))
            yield [*takewhile(lambda size: size is not None, known)]  # type: ignore[list-item]
