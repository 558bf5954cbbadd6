"""Views of tensors: where the rows of the batch lie in them, and which ones cut across the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import tensor_dimensions
from ddpify.understanding.batching import collating
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions
from ddpify.understanding.values import NO_ROWS, Data, Instance, Number, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState
RESHAPING = frozenset("view reshape flatten ravel".split())
_BY_SIZES = frozenset({"view", "reshape"})
_OF_STATES = 3  # the dimensions of a recurrent layer's states


def reshaped(
    run: RunState, name: str, data: Data, rest: Sequence[Value], operand: cst.BaseExpression
) -> Value:
    """What a view makes of rows: rows, unless it cuts across them.

    A view that does suits the rows of the whole batch, which could be gathered before: at
    ``operand``. A model's forward makes it of those.
    """
    made = _with_several(_reshaped(run, name, data, rest, operand), name, data, rest)
    if all(_keeps_rows(one) for one in made.data):
        return made
    if run.collating and data.dim != NO_ROWS:
        return collating.mixed(run, operand, data, known=False, rows=False)
    if run.frames_forward() and run.module.editable and not run.collating:
        run.demand(operand, value(data), uses.A_STATISTIC)
        whole = replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED)
        return value(replace(whole, flat=True, opaque=True))
    return made


def _with_several(made: Value, name: str, data: Data, rest: Sequence[Value]) -> Value:
    """What a view made, which may have laid out several rows of each sample one after the other."""
    sizes = dimensions.sizes_of(rest) if name in _BY_SIZES else []
    whole = not sizes and (not rest or rest[0].constant() in (0, ...))  # flatten()
    parts = bool(sizes) and not _one_for_each_sample(sizes)
    several = data.ndim != 1 and (whole or parts) if data.dim == 0 else data.several
    several |= data.several and not sizes
    return value(*(replace(a, several=several) if isinstance(a, Data) else a for a in made.atoms))


def _keeps_rows(made: Data) -> bool:
    """Whether a view has left each row in one piece, and its neighbours beside it."""
    return made.placement is not Placement.ROWS and made.form not in (Layout.MIXED, Layout.PACKED)


def _reshaped(
    run: RunState, name: str, data: Data, rest: Sequence[Value], operand: cst.BaseExpression
) -> Value:
    if name in ("flatten", "ravel") and data.dim > 0:
        return value(_flattened(data, [one.constant() for one in rest]))
    sizes = dimensions.sizes_of(rest) if name in _BY_SIZES else []
    if data.ragged and _one_for_each_sample(sizes):
        return value(
            replace(_kept(data, 0), form=Layout.TENSOR)
        )  # as many were taken of each sample
    if data.form is Layout.STACKED and _joins_rows(data, rest, sizes):
        told = len(sizes) > 1 and not run.frames_forward()
        return _cut(run, data, operand) if told else value(_mixed_up(data))
    if [one for one in sizes if bounds.count_unsure(run, one)]:
        return _cut(run, data, operand)
    if _counted(sizes) is None and any(map(_may_be_of_rows, sizes)):
        return _cut(run, data, operand)
    if _are_put_together(sizes):  # perhaps several samples make one row of the view
        return _cut(run, data, operand)
    if data.dim > 0 and _are_of_all_rows(data, sizes):
        return _cut(run, data, operand)
    place = _place(sizes)
    if place and data.form is Layout.INTERLEAVED:
        return value(replace(_kept(data, place), form=Layout.TENSOR))  # put back behind each other
    if place and data.dim > 0:
        return value(_kept(data, place))
    if data.dim == 0 and _has_own_first(sizes):
        return value(replace(data.placed(Placement.ROWS), definition_sites=frozenset({operand})))
    if _cuts_across(data, sizes):
        return _cut(run, data, operand)
    if data.dim == 0 and len(sizes) > 1 and sizes[0].constant() == 1:
        return value(replace(_kept(data, 1), form=Layout.STATE))  # behind a dimension of size one
    # The rows of each place follow each other.
    behind = data.dim > 0 and data.form is not Layout.STATE
    if behind and len(sizes) > 1 and data.ndim == data.dim + 1:
        return _cut(run, data, operand)
    if behind and data.several and len(sizes) > 1 and isinstance(sizes[-1].constant(), int):
        return _cut(run, data, operand)  # perhaps wider than a row, with parts of two of them
    if behind and len(sizes) == 1 and data.ndim not in (0, data.dim + 1):
        return value(_mixed_up(data))
    kept = replace(_kept(data, 0), form=Layout.INTERLEAVED) if behind else _kept(data, 0)
    return value(replace(kept, flat=_lays_out(run, data, sizes)))


def _joins_rows(data: Data, rest: Sequence[Value], sizes: Sequence[Value]) -> bool:
    """Whether a view may make one dimension of the rows and of what each of them holds."""
    if data.dim or data.ndim == 1:
        return False
    if _one_for_each_sample(sizes):
        return True  # of the several that the tensors under each other have
    if not sizes:  # flatten() and ravel()
        return not rest or rest[0].constant() in (0, ...)
    wide = isinstance(sizes[-1].constant(), int)  # perhaps wider than a row, or not as wide
    return len(sizes) == 1 or (sizes[0].constant() == -1 and (wide or data.ndim != len(sizes)))


def _lays_out(run: RunState, data: Data, sizes: Sequence[Value]) -> bool:
    """Whether ``x.view(-1, k)`` may lay out several rows of each sample one after the other."""
    fewer = data.ndim == 0 or data.ndim > len(sizes)
    rest = len(sizes) > 1 and sizes[0].constant() == -1
    return rest and fewer and data.dim == 0 and not run.frames_forward()


def _are_put_together(sizes: Sequence[Value]) -> bool:
    """Whether sizes stand in a list such as ``[-1, k] + sizes[1:]``, so that none has its place."""
    return len(sizes) == 1 and any(one.type == "list" for one in sizes[0].of(Instance))


def _counted(sizes: Sequence[Value]) -> tuple[int, Data] | None:
    """Which size is the number of this rank's rows or a multiple of it, if one is."""
    for place, size in enumerate(sizes):
        for data in size.data:
            if data.placement is Placement.COUNT:
                return place, data
    return None


def _may_be_of_rows(size: Value) -> bool:
    """Whether this may be the size of the rows, or be without it, as ``x.shape[:-2]`` may."""
    return any(data.form is NumberKind.SHAPE and data.opaque for data in size.data)


def _one_for_each_sample(sizes: Sequence[Value]) -> bool:
    """Whether a view has a row for each of this rank's samples: their number is its first size."""
    counted = _counted(sizes)
    return counted is not None and counted[0] == 0 and counted[1].form is NumberKind.NUMBER


def _place(sizes: Sequence[Value]) -> int | None:
    """Which size is that of the rows: what counts them, or else one that is left to follow."""
    counted = _counted(sizes)
    if counted is not None:
        return counted[0]
    inferred = [place for place, size in enumerate(sizes) if size.constant() == -1]
    return inferred[0] if inferred else None


def _has_own_first(sizes: Sequence[Value]) -> bool:
    """Whether the first of several sizes is a number of its own."""
    constant = sizes[0].constant() if len(sizes) > 1 else ...
    if constant is ...:
        return len(sizes) > 1 and not sizes[0].data and any(sizes[0].of(Number))
    return isinstance(constant, int) and constant > 1


def _are_of_all_rows(data: Data, sizes: Sequence[Value]) -> bool:
    """Whether numbers of the script's own say how many rows there are: those of the whole batch.

    So they do where they are all sizes, and where the one that is left to follow is another.
    """
    if len(sizes) < 2 or _counted(sizes) is not None or not all(map(_is_a_number, sizes)):
        return False
    place = _place(sizes)
    if place is None:
        return True
    if data.form is Layout.STATE:
        return place > 0 and _has_own_first(sizes)
    return 0 < place != data.dim + _added_before(data, sizes, place)


def _added_before(data: Data, sizes: Sequence[Value], place: int) -> int:
    """How many dimensions a view adds before that of the rows, as far as is known."""
    ndim = _OF_STATES if data.form is Layout.STATES else data.ndim
    if ndim:
        return max(len(sizes) - ndim, 0)
    return sum(size.constant() == 1 for size in sizes[:place])


def _is_a_number(size: Value) -> bool:
    return not size.data and (isinstance(size.constant(), int) or any(size.of(Number)))


def _cuts_across(data: Data, sizes: Sequence[Value]) -> bool:
    """Whether a view of tensors with their rows behind others has them first, as many as before."""
    behind = data.dim == 1 and data.form is not Layout.STATE
    if not (behind or data.form is Layout.INTERLEAVED) or data.opaque or len(sizes) < 2:
        return False
    counted = _counted(sizes)
    if counted is not None:
        return counted[0] == 0 and counted[1].form not in (NumberKind.MULTIPLE, NumberKind.ROUNDED)
    return data.form is Layout.STATES and sizes[0].constant() == -1


def _cut(run: RunState, data: Data, operand: cst.BaseExpression) -> Value:
    if not run.frames_forward() or (run.module.editable and not run.collating):
        return value(replace(data.placed(Placement.ROWS), definition_sites=frozenset({operand})))
    unreducible = replace(
        data, definition_sites=frozenset(), form=Layout.PACKED
    )  # no reduction suits it
    run.demand(operand, value(unreducible), uses.A_VIEW)
    return value(_kept(data, 0))


def _kept(data: Data, dim: int) -> Data:
    """The rows along a dimension, as a new tensor."""
    return replace(
        data, dim=dim, definition_sites=data.counting, form=tensor_dimensions.kept_form(data)
    )


def _flattened(data: Data, limits: Sequence[object]) -> Data:
    """Dimensions from the first to the last bound become one."""
    first, last = [*limits, *(0, -1)[len(limits) :]][:2]
    if not isinstance(first, int) or not isinstance(last, int) or first < 0:
        return _kept(data, 0)
    if first >= data.dim:
        return _kept(data, data.dim)
    if 0 <= last < data.dim:
        return _kept(data, data.dim - (last - first))
    if last == data.dim or (last == -1 and data.ndim == data.dim + 1):
        return replace(_kept(data, first), form=Layout.INTERLEAVED)
    return _mixed_up(data)


def _mixed_up(data: Data) -> Data:
    """Elements of rows that were not first, or not of one tensor: only before could they be had."""
    return replace(_kept(data, 0), form=Layout.MIXED)
