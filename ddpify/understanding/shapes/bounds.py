"""Bounds of slices, and other numbers that cut tensors: they count a rank's rows, or all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes.tensor_sizes import is_own_number
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import Const, Data, Instance, Number, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def of_slices(node: cst.Subscript) -> list[cst.BaseExpression]:
    """The bounds of all slices of an index."""
    return [bound for element in node.slice for bound in written(element.slice)]


def written(part_: cst.BaseSlice) -> list[cst.BaseExpression]:
    """The bounds that a slice is given."""
    given = (part_.lower, part_.upper) if isinstance(part_, cst.Slice) else ()
    return [bound for bound in given if bound is not None]


def is_fixed(run: RunState, node: cst.CSTNode) -> bool:
    """Whether this is ``x[:1]`` or the like: its bounds are the same numbers for each batch."""
    given = written(node.slice[0].slice) if isinstance(node, cst.Subscript) else []
    return bool(given) and all(isinstance(run.seen(one).constant(), int) for one in given)


def is_one_long(part_: cst.Slice) -> bool:
    """Whether a slice is ``i : i + 1``."""
    return part_.lower is not None and is_one_more(part_.upper, part_.lower)


def is_one_more(node: cst.BaseExpression | None, than: cst.BaseExpression) -> bool:
    """Whether this is ``i + 1``, of ``i``."""
    if not isinstance(node, cst.BinaryOperation):
        return False
    one = isinstance(node.right, cst.Integer) and node.right.value == "1"
    return one and isinstance(node.operator, cst.Add) and node.left.deep_equals(than)


def is_first(part_: cst.Slice) -> bool:
    """Whether a slice is ``:1``."""
    upper = part_.upper
    one = isinstance(upper, cst.Integer) and upper.value == "1"
    return one and part_.lower is None and part_.step is None


def counted(run: RunState, node: cst.Subscript) -> list[Data]:
    """Bounds of slices that are the number of this rank's rows: ``x[:len(batch)]``."""
    held = [d for bound in of_slices(node) for d in run.seen(bound).data]
    return [d for d in held if d.placement is Placement.COUNT and d.form is not NumberKind.ROUNDED]


def of_all_rows(run: RunState, node: cst.Subscript) -> Data | None:
    """What ``table[: len(x)]`` takes in a forward of what all ranks hold: rows for those of all.

    None for other slices, and elsewhere.
    """
    if not run.frames_forward() or run.collating or not run.module.editable:
        return None
    first = node.slice[0].slice
    held = [a for bound in written(first) for a in run.seen(bound).of(Data)]
    sizes = [a for a in held if isinstance(a, Data) and not a.opaque and _counts(a)]
    if not sizes or not isinstance(first, cst.Slice):
        return None
    count_sizes(run, written(first))
    return replace(sizes[0].placed(Placement.REPLICATE), form=Layout.GATHERED)


def _counts(size: Data) -> bool:
    """Whether this is the number of a rank's rows, or of all."""
    own = size.placement is Placement.COUNT and size.form is not NumberKind.ROUNDED
    return own or size.form is NumberKind.TOTAL


def begins_later(run: RunState, part_: cst.BaseSlice) -> bool:
    """Whether a slice leaves out a fixed number of the first rows, as ``x[1:len(x)]`` does."""
    lower = run.seen(part_.lower) if isinstance(part_, cst.Slice) and part_.lower else None
    return lower is not None and lower.constant() not in (0, None, ...)


def counted_in(run: RunState, part_: cst.Slice) -> list[cst.BaseExpression]:
    """The bounds of a slice that go by the number of this rank's rows."""
    return [bound for bound in written(part_) if is_counted(run, bound)]


def is_counted(run: RunState, bound: cst.BaseExpression | None) -> bool:
    """Whether a bound is the number of this rank's rows."""
    held = run.seen(bound).data if bound is not None else []
    return any(data.placement is Placement.COUNT and not data.opaque for data in held)


def takes_some(node: cst.Subscript) -> bool:
    """Whether an index leaves rows out."""
    first = node.slice[0].slice
    return not isinstance(first, cst.Slice) or any(written(first)) or first.step is not None


def count_sizes(run: RunState, sizes: Iterable[cst.BaseExpression]) -> None:
    """Let numbers of rows that cut the rows of all ranks be those of all ranks."""
    for size in [part for one in sizes for part in _counting(run, one)]:
        for data in run.seen(size).data:
            if data.placement is Placement.COUNT:
                before = data.definition_sites if data.form is not NumberKind.ROUNDED else ()
                run.facts.sizes.shape_uses.update(before)  # of this rank's rows
                run.demand(size, value(data), uses.ROWS_OF_ALL)
            elif data.form is NumberKind.SHAPE:
                run.demand(size, value(data), uses.ROWS_OF_ALL)


def count_unsure(run: RunState, size: Value) -> bool:
    """Let a size be that of all rows which is their number on one way, and another on another.

    Nothing tells at run time which of the two it is. Returns whether it is such a size.
    """
    others = [a.value for a in size.of(Const) if isinstance(a.value, int)]
    counted = [d for d in size.data if d.placement is Placement.COUNT]
    if not counted or not any(number > 0 for number in others) or _is_batch_size(run, size):
        return False
    for site in (one for data in counted for one in data.definition_sites):
        run.demand(site, run.seen(site), uses.ROWS_OF_ALL)
    return True


def _is_batch_size(run: RunState, size: Value) -> bool:
    """Whether a size may be the option that a loader has for its batch size.

    What is made of so many rows is split where it meets a rank's own, whichever it has.
    """
    options = _options(size)
    return any(options & _options(one.arguments.get("batch_size")) for one in run.facts.loaders)


def _options(number: Value | None) -> set[tuple[Instance, str]]:
    """The options of the command line that a number may be."""
    return {a.setting for a in number.of(Number) if a.setting} if number is not None else set()


def count_numbers(run: RunState, sizes: Iterable[cst.BaseExpression]) -> None:
    """Let numbers of a rank's rows, whole batches or what masks left of them, be those of all."""
    for size in sizes:
        count_sizes(run, [size])
        masked = (d for d in run.seen(size).data if is_own_number(d))
        run.demand(size, value(*masked), uses.ROWS_OF_ALL)


def _counting(run: RunState, size: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The number of rows in what is computed with it: ``len(x)`` of ``[len(x) // 2 + 1, 1]``."""
    parts = displayed(size)
    if parts is not None:
        return [one for part in parts for one in _counting(run, part)]
    counts = any(data.placement is Placement.COUNT for data in run.seen(size).data)
    if isinstance(size, (cst.List, cst.Tuple)):
        return [part for one in size.elements for part in _counting(run, one.value)]
    if counts or not isinstance(size, cst.BinaryOperation):
        return [size]
    return [*_counting(run, size.left), *_counting(run, size.right)]


def count_parts(run: RunState, node: cst.Subscript) -> None:
    """Let bounds such as half the number of rows be those of all ranks."""
    count_rounded(run, of_slices(node))


def count_rounded(run: RunState, sizes: Iterable[cst.BaseExpression]) -> bool:
    """Let sizes such as half the number of rows be those of all ranks; whether there are any."""
    rounded = [
        one
        for one in sizes
        if any(d.form is NumberKind.ROUNDED for d in run.seen(one).data if d.placement.partial)
    ]
    count_sizes(run, rounded)
    return bool(rounded)


def count_all_rows(run: RunState, indices: list[cst.BaseExpression]) -> None:
    """Let positions among the rows of all ranks go up to the number of those."""
    for index in indices:
        run.demand(index, value(*run.seen(index).positions), uses.ROWS_OF_ALL)
