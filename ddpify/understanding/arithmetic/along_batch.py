"""Functions that are told a dimension, where that is the dimension of the samples.

``x.narrow(0, 0, 1)`` and ``torch.gather(x, 0, order)`` read the samples of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.arithmetic import across_samples, taken_rows
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators.dimensions import ALONG, PICKING, REARRANGING, REDUCING
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions, tensor_sizes
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import NO_ROWS, Atom, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OF_NARROW = 4  # operands: the tensor, the dimension, the start and the length
_TENSOR = ("input", "a", "arr", "x")  # how functions name the tensor that they are called on
# Forms of rows that lie along one dimension, whichever rows they are.
_ALONG_ONE = (
    Layout.TENSOR,
    Layout.STATE,
    Layout.STACKED,
    Layout.INTERLEAVED,
    Layout.MASKED,
    Layout.RAGGED,
)


def of_all_ranks(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: Sequence[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """What a function gives that goes along the samples; None for one that goes along others."""
    if name not in ALONG or not _is_called_on(node, operands[0][0]):
        return None
    if name == "unfold" and not _is_method(node, operands[0][0]):  # of images, by a kernel
        return None
    rows = [data for data in operands[0][1].data if _is_rows(data)]
    if not rows or not all(_goes_along(name, data, rest, kwargs) for data in rows):
        return None
    if name == "narrow" and _takes_all(run, operands, rows):
        return value(*(replace(data, definition_sites=frozenset()) for data in rows))
    own = [(shown, held) for shown, held in operands if _is_split(held)]
    if any(taken_rows.are_own_positions(run, data) for _, held in own[1:] for data in held.data):
        return None
    indexed = name in PICKING and len(own) == 1  # by what all ranks hold: as many as that has
    sizes = [shown for shown, held in operands[1:] if tensor_sizes.counts(held)]
    bounds.count_sizes(run, sizes)  # x.narrow(0, 0, len(x)): of the rows of all ranks
    unsure = any(_may_go_along(name, data, rest, kwargs) for data in rows)
    rearranged = name in REARRANGING or bool(sizes) or unsure
    kept = rearranged or (name not in REDUCING and not indexed)
    rows_left = None if indexed and _are_counted(run, operands[1:]) else kept
    made = across_samples.coupled_operands(run, node, own, rows=rows_left)
    return value(*map(_in_some_layout, made.atoms)) if rearranged else made


def _are_counted(run: RunState, indices: Sequence[Operand]) -> bool:
    """Whether a collate function may make as many indices as a batch has samples."""
    return run.collating and any(isinstance(a, Data) for _, one in indices for a in one.atoms)


def of_replicated(
    name: str, operands: Sequence[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """What such a function gives of the rows of all ranks; None where it leaves their number."""
    first, *others = (_of_all(held) for _, held in operands)
    if name not in REDUCING | PICKING or not first:
        return None
    if not all(_goes_along(name, data, rest, kwargs) for data in first):
        return None
    if name in REARRANGING or any(_may_go_along(name, data, rest, kwargs) for data in first):
        return value(*map(_in_some_layout, first))
    indices = [data for held in others for data in held]
    if name in PICKING and indices:
        return value(*(replace(data, form=Layout.GATHERED) for data in indices))
    return value(*(data.placed(Placement.REPLICATE) for data in first))


def _takes_all(run: RunState, operands: Sequence[Operand], rows: Sequence[Data]) -> bool:
    """Whether ``x.narrow(0, 0, len(x))`` takes all the rows that a rank has."""
    if len(operands) != _OF_NARROW or any(data.form is not Layout.TENSOR for data in rows):
        return False
    start, length = (run.seen(shown) for shown, _ in operands[2:])
    counts = tensor_sizes.counts(length)
    whole = bool(counts) and all(one.form is NumberKind.NUMBER for one in counts)
    return whole and start.constant() == 0


def _in_some_layout(atom: Atom) -> Atom:
    """Rows of all ranks, of which nothing is known but that there may be some."""
    of_all = isinstance(atom, Data) and atom.form is Layout.GATHERED
    return replace(atom, flat=True, opaque=True) if of_all else atom  # type: ignore[type-var]


def _of_all(held: Value) -> list[Data]:
    """The rows of all ranks, or the order of those."""
    of_all = (Layout.GATHERED, Layout.PERMUTATION)
    return [a for a in held.atoms if isinstance(a, Data) and a.form in of_all]


def _is_called_on(node: cst.BaseExpression, operand: cst.BaseExpression) -> bool:
    """Whether an operand is the tensor itself, and no index into it: ``torch.gather(v, 0, t)``."""
    if not isinstance(node, cst.Call):
        return True
    if _is_method(node, operand):
        return True
    given = next((one for one in node.args if one.value is operand), None)
    if given is None:
        return True
    named = given.keyword is not None and given.keyword.value in _TENSOR
    return named or (given.keyword is None and given is node.args[0])


def _is_method(node: cst.BaseExpression, operand: cst.BaseExpression) -> bool:
    """Whether this is a method of the operand."""
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.value is operand


def _is_rows(data: Data) -> bool:
    known = data.form in _ALONG_ONE and not data.opaque
    return data.placement is Placement.SHARD and known and data.dim != NO_ROWS


def _is_split(held: Value) -> bool:
    return any(data.placement is Placement.SHARD for data in held.data)


def _goes_along(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function is told the dimension of the samples."""
    given = _named(name, rest, kwargs)
    places = [dimensions.place(dim, data.ndim) for dims in given for dim in dims]
    unsure = _may_go_along(name, data, rest, kwargs)
    return data.dim in places or (None in places and data.ndim != 1) or unsure


def _may_go_along(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether the dimension that a function is told may be that of the samples, or another."""
    return any(dimensions.may_be_of_rows(data, dims) for dims in _named(name, rest, kwargs))


def _named(
    name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> list[tuple[object, ...]]:
    """The dimensions that a function may be told."""
    place, default = ALONG[name]
    named = {"dim", "axis"} & kwargs.keys()
    return named_dimensions(rest[place:], kwargs) if named or len(rest) > place else [(default,)]
