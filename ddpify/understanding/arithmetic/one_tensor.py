"""What an operation makes of one tensor whose rows are split, by rules: the first that knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import across_samples, indexed_rows, views
from ddpify.understanding.arithmetic.along_dimension import along_dimension, normalised
from ddpify.understanding.arithmetic.operation import Operation
from ddpify.understanding.arithmetic.tensor_dimensions import kept_form
from ddpify.understanding.batching import collating, per_sample_lists
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, transpositions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import NO_ROWS, REPLICATED, UNKNOWN, Data, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

LINEAR = frozenset(
    "to cpu cuda float double type type_as detach detach_ clone squeeze unsqueeze"
    " squeeze_ unsqueeze_ neg_ negative_ view reshape"
    " contiguous mean sum neg negative numpy requires_grad_ flatten ravel expand expand_as data"
    " retain_grad astype copy asarray array as_tensor from_numpy tensor item_ Tensor FloatTensor"
    " DoubleTensor".split()
)
# What gives a global value of all rows, without being a sum of what each rank gives.
_SAME_ELEMENTS = frozenset("long int detach clone contiguous numpy Variable squeeze".split())
REORDERING = frozenset("flip roll flipud fliplr".split())
# What gives one number of all elements, where no dimension is named.
_TO_ONE = frozenset("mean sum prod norm max min std var".split())
# What gives a tensor of its own, or a view that nothing else is called by.
_ANEW = _TO_ONE | frozenset("argmax argmin clone unsqueeze gather cat stack".split())
_NUMBERS = (NumberKind.NUMBER, NumberKind.MULTIPLE, NumberKind.ROUNDED)
_POSITIONS_OF_SOME = ("nonzero", "argwhere", "flatnonzero")
_DOTS = frozenset("dot vdot".split())
_UNDER_EACH_OTHER = frozenset({"repeat", "tile"})
_REPEATING = frozenset("expand expand_as repeat tile repeat_interleave".split())


def of_one(one: Operation) -> Value:
    """What an operation makes of one of its tensors."""
    if one.data.placement.partial:
        part = _on_partial(one)
        return _single(part) if one.name in _TO_ONE and one.of_all_elements else part
    _know_better(one)
    for rule in _RULES:
        made = rule(one)
        if made is not None:
            return made
    return _kept(one)


def _know_better(one: Operation) -> None:
    """Note of the tensor what its expression, and the operation, tell of its dimensions."""
    if not one.data.ndim and isinstance(one.operand, cst.Name):
        one.data = replace(one.data, ndim=dimensions.unpacked(one.run, one.operand))
    if one.data.opaque and _names_a_dimension(one.rest, one.kwargs):
        # A tensor of several dimensions, and no loss or list.
        one.data = replace(one.data, opaque=False)


def _of_rows_by_position(one: Operation) -> Value | None:
    if one.data.placement is not Placement.ROWS:
        return None
    if per_sample_lists.is_item_of_list(one.data):
        return value(replace(one.data, form=Layout.TENSOR))
    scalar = one.name in _DOTS or (one.name in _TO_ONE and one.of_all_elements)
    mixed = one.data.placed(Placement.COUPLED)
    return value(replace(mixed, definition_sites=one.data.definition_sites) if scalar else one.data)


def _row_of_a_sample(one: Operation) -> Value | None:
    """``x.unsqueeze(0)`` of a single sample."""
    first = one.rest[0].constant() if one.rest else ...
    unsqueezed = one.data.dim == NO_ROWS and one.name == "unsqueeze" and first == 0
    return value(collating.one_row(one.data)) if unsqueezed else None


def _picked(one: Operation) -> Value | None:
    data = one.data
    if not _picks_rows(one.run, one.name, data, one.rest, one.kwargs):
        return None
    if one.name in _POSITIONS_OF_SOME:
        return value(found(one.run, one.operand, data))
    return value(replace(data, dim=0, definition_sites=frozenset(), form=Layout.MASKED))


def _with_dimensions_moved(one: Operation) -> Value | None:
    name, data = one.name, one.data
    if name in ("unsqueeze", "squeeze") and _may_move_rows(name, data, one.rest, one.kwargs):
        return across_samples.coupled(one.run, one.node, one.operand, data)
    dim = _dimension_after(name, data, one.rest, one.kwargs)
    if dim is not None:
        behind_one = name == "unsqueeze" and data.dim == 0 < dim and data.form is Layout.TENSOR
        form = Layout.STATE if behind_one else data.form
        one_each = _may_stay_one_each(name, data, moved=dim > data.dim)
        return value(
            replace(data, dim=dim, definition_sites=data.counting, form=form, one_each=one_each)
        )
    if name in transpositions.TRANSPOSING and not data.opaque and data.dim != NO_ROWS:
        return across_samples.coupled(one.run, one.node, one.operand, data)
    return None


def _may_stay_one_each(name: str, data: Data, *, moved: bool) -> bool:
    """Whether rows may be the last dimension after one has been added, dropped or moved."""
    if name == "squeeze":
        return dimensions.may_leave_one_each(data, 1)
    return name == "unsqueeze" and moved and data.one_each and not data.ndim


def _squeezed(one: Operation) -> Value | None:
    """Without the dimensions of size one; where that is all, it is known to have one element."""
    if one.name != "squeeze":
        return None
    if _has_another_name(one):
        _forbid_single_rows(one)
    if one.run.collating:  # of a single row its own dimension goes, too, and a rank may have one
        one.run.mixes(one.operand, one.data)
    else:
        known = one.run.facts.sizes.squeezes
        known.setdefault(one.node, (one.run.site(one.node), one.data.dim))
        # Of (samples, 1, 1), as a product in batches is, no more is left either.
        most = 1 if one.rest or one.kwargs else 2
        single = any(dimensions.may_leave_one_each(one.data, n + 1) for n in range(most))
        single |= one.data.ndim == 1
        one.data = replace(one.data, one_each=single)
    if one.data.form not in (Layout.STATE, Layout.STATES):
        return None
    of_one_layer = replace(one.data, dim=0, definition_sites=frozenset(), form=Layout.TENSOR)
    return value(of_one_layer)


def _has_another_name(one: Operation) -> bool:
    """Whether it is in place, of what more is known by than the name that is bound again."""
    func = one.node.func if isinstance(one.node, cst.Call) else None
    if not isinstance(func, cst.Attribute) or func.attr.value != "squeeze_":
        return False
    made = func.value.func if isinstance(func.value, cst.Call) else None
    anew = isinstance(made, cst.Attribute) and made.attr.value in _ANEW
    return not (one.run.module.editable and (anew or isinstance(func.value, cst.Name)))


def _forbid_single_rows(one: Operation) -> None:
    """Its dimensions would be told wrongly there, or stay a single row's."""
    if not one.run.collating and one.data.dim != NO_ROWS:
        packed = replace(one.data, definition_sites=frozenset(), form=Layout.PACKED)
        one.run.demand(one.operand, value(packed), uses.A_VIEW)


def _reshaped(one: Operation) -> Value | None:
    data, first = one.data, one.rest[0].constant() if one.rest else ...
    if one.name not in views.RESHAPING:
        return None
    if one.run.collating and data.dim == NO_ROWS:
        return value(collating.one_row(data) if first == 1 else replace(data, ndim=0))
    return views.reshaped(one.run, one.name, data, one.rest, one.operand)


def _renormed(one: Operation) -> Value | None:
    data = one.data
    if one.name != "renorm" or data.dim == NO_ROWS:
        return None
    if len(one.rest) > 1 and one.rest[1].constant() == data.dim:
        return value(replace(data, definition_sites=frozenset()))
    return value(across_samples.on_all_rows(one.run, one.node, one.operand, data))


def _gradients(one: Operation) -> Value | None:
    """``torch.autograd.grad``: one gradient for each input."""
    if one.name != "grad":
        return None
    return value(replace(one.data, definition_sites=frozenset(), form=Layout.PIECES))


def _reordered(one: Operation) -> Value | None:
    name, data = one.name, one.data
    if name in REORDERING and data.counting:
        return value(replace(data, form=NumberKind.COMPUTED))
    if name in REORDERING and _moves_rows(name, data, one.rest, one.kwargs):
        return value(indexed_rows.regrouped(one.run, one.node, one.operand, data))
    return None


def _way_back(one: Operation) -> Value | None:
    if one.name != "argsort" or one.data.form is not Layout.PERMUTATION:
        return None
    return value(replace(one.data, definition_sites=frozenset()))


def _of_a_permutation(one: Operation) -> Value | None:
    same = one.name in LINEAR or one.name in _SAME_ELEMENTS
    if one.data.form is not Layout.PERMUTATION or same:
        return None
    if one.name == "sort":
        return across_samples.ordered(one.data, one.name)
    return value(replace(one.data.placed(Placement.REPLICATE), form=Layout.GATHERED))


def _dot(one: Operation) -> Value | None:
    if one.name not in _DOTS:
        return None
    return value(replace(one.data.placed(Placement.SUM), one_each=True))


def _one_hot(one: Operation) -> Value | None:
    """``one_hot(y)``: as many columns as the largest class of the whole batch asks for."""
    told = [*one.rest[:1], *(one.kwargs[key] for key in ("num_classes",) if key in one.kwargs)]
    known = bool(told) and told[0].constant() != -1
    if one.name != "one_hot" or known or one.data.placement is not Placement.SHARD:
        return None
    if one.data.form is Layout.TENSOR and (one.run.module.editable or one.run.collating):
        return value(across_samples.on_all_rows(one.run, one.node, one.operand, one.data))
    return across_samples.coupled(one.run, one.node, one.operand, one.data)


def _by_table(one: Operation) -> Value | None:
    return across_samples.by_rule(one.run, one.node, one.name, one.operand, one.data, one.rest)


def _under_each_other(one: Operation) -> Value | None:
    plain = one.data.form is Layout.TENSOR and not one.data.dim
    if one.name == "expand" and plain:
        behind = _new_in_front(dimensions.sizes_of(one.rest), one.data.ndim)
        if behind > 0:  # x.expand(2, -1, -1) of a matrix
            return value(replace(one.data.placed(Placement.SHARD), dim=behind))
    return value(_repeated(one.data, one.rest)) if one.name in _UNDER_EACH_OTHER and plain else None


def _new_in_front(sizes: Sequence[Value], ndim: int) -> int:
    """How many dimensions ``x.expand(2, *x.shape)`` puts in front of those of ``x``."""
    for at, one in enumerate(sizes):
        shapes = [d for d in one.data if d.form is NumberKind.SHAPE and not d.opaque]
        if shapes and shapes[0].dim <= 0:  # of which the first ones may be left out
            return at + shapes[0].dim
        if one.constant() == -1 and not ndim:
            return at  # the first that is no copy
    return sum(max(dimensions.length(size), 1) for size in sizes) - ndim if ndim else 0


def _kept(one: Operation) -> Value:
    """The same rows, as a new tensor."""
    data = one.data
    # A state that is repeated is several of them by now.
    repeated = one.name in _REPEATING and data.form is Layout.STATE
    form = Layout.TENSOR if repeated else kept_form(data)
    if data.form is Layout.ORDER and one.name in _SAME_ELEMENTS:
        form = data.form
    several = data.several or (one.name == "repeat_interleave" and data.dim == 0)
    return value(replace(data, definition_sites=data.counting, form=form, several=several))


_RULES: tuple[Callable[[Operation], Value | None], ...] = (
    _of_rows_by_position,
    _row_of_a_sample,
    _picked,
    _with_dimensions_moved,
    _squeezed,
    _reshaped,
    _way_back,
    _renormed,
    _of_a_permutation,
    along_dimension,
    _gradients,
    _reordered,
    normalised,
    _dot,
    _one_hot,
    _by_table,
    _under_each_other,
)


def _repeated(data: Data, times: Sequence[Value]) -> Data:
    """``x.repeat(2, 1)``: the rows under each other, or behind a new dimension."""
    counts = dimensions.sizes_of(times)
    new = len(counts) - data.ndim if data.ndim else 0
    if new > 0:
        return replace(data.placed(Placement.SHARD), dim=new, form=Layout.TENSOR)
    once = bool(counts) and counts[0].constant() == 1
    form = Layout.TENSOR if once else Layout.STACKED
    return replace(data.placed(Placement.SHARD), form=form)


def found(run: RunState, mask: cst.BaseExpression, data: Data) -> Data:
    """The positions at which a mask holds: a rank's own, until the mask is that of all rows."""
    inside = run.frames_forward() and (run.collating or not run.module.editable)
    located = data.dim == 0 and not data.opaque and not inside
    found_in = frozenset({mask}) if located else data.found_in
    return replace(data, dim=0, definition_sites=frozenset(), form=Layout.MASKED, found_in=found_in)


def indices(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> list[Data]:
    """The rows that ``index_select(x, dim, index)`` selects by."""
    index = kwargs.get("index") or (rest[1] if len(rest) > 1 else UNKNOWN)
    return [d for d in index.data if d.placement is Placement.SHARD]


def _names_a_dimension(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function works along a dimension behind the first."""
    dim = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    return isinstance(dim, int) and not isinstance(dim, bool) and dim > 0


def _picks_rows(
    run: RunState, name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a function leaves as many rows as a mask, or positions of a rank's rows, say.

    A forward treats each sample alone: one position for each puts its rows in another order.
    """
    if name in ("masked_select", *_POSITIONS_OF_SOME):
        return True
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    positions = indices(rest, kwargs)
    each = any(d.form in (NumberKind.RANGE, Layout.ORDER) for d in positions)
    each |= run.frames_forward() and not any(d.ragged for d in positions)
    return name == "index_select" and along == data.dim and bool(positions) and not each


def _dimension_after(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> int | None:
    """The dimension of the rows after a function that moves, adds or drops one; None for others."""
    if name in transpositions.TRANSPOSING:
        return transpositions.place(name, data.dim, data.ndim, rest, kwargs)
    if name == "unsqueeze" and rest:
        place = dimensions.place(rest[0].constant(), data.ndim and data.ndim + 1)
        return data.dim + (isinstance(place, int) and 0 <= place <= data.dim)
    if name == "squeeze" and (rest or "dim" in kwargs):
        place = (rest[0] if rest else kwargs["dim"]).constant()
        place = dimensions.place(place, data.ndim)
        return data.dim - (isinstance(place, int) and 0 <= place < data.dim)
    return None


def _may_move_rows(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a new dimension, or one that is dropped, may lie before that of the rows."""
    named = [dim for dims in named_dimensions(rest, kwargs) for dim in dims]
    if name == "unsqueeze":  # counted from the end of what it makes, which has one more
        named = [dim + 1 if isinstance(dim, int) and dim < 0 else dim for dim in named]
    plain = data.dim != NO_ROWS and not data.opaque and data.placement is Placement.SHARD
    return plain and dimensions.may_be_of_rows(data, named)


def _moves_rows(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``flip`` or ``roll`` moves rows of the batch among themselves."""
    if name in ("flipud", "fliplr"):
        return data.dim == (name == "fliplr")
    given = [kwargs["dims"]] if "dims" in kwargs else rest[name == "roll" :]
    dims = [dim for one in given for dims in named_dimensions((one,), {}) for dim in dims]
    places = [dimensions.place(dim, data.ndim) for dim in dims]
    return not dims or data.dim in places or dimensions.may_be_of_rows(data, places)


def _single(made: Value) -> Value:
    """Known to be one number."""
    return value(*(replace(a, one_each=True) if isinstance(a, Data) else a for a in made.atoms))


def fresh(whole: Value) -> Value:
    """The value under a linear operation: the same placement, as a new tensor.

    What has a denominator of its own is still reduced where the code for that is valid.
    """
    atoms = [
        replace(a, definition_sites=frozenset())
        if isinstance(a, Data) and a.placement.partial and a.form not in _NUMBERS and not a.counted
        else a
        for a in whole.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def _on_partial(one: Operation) -> Value:
    data, name = one.data, one.name
    if data.placement is Placement.COUNT:
        one.run.demand(one.operand, value(data), f"{name}()")
        return REPLICATED
    if name in LINEAR:
        return fresh(value(data))
    one.run.demand(one.operand, value(data), f"{name}(), which does not commute with a sum")
    return value(data.placed(Placement.REPLICATE))
