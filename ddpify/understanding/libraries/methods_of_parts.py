"""Methods of tensors that ranks hold in part, and of numbers of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords, argument_pairs, by_position, local_data
from ddpify.understanding.arithmetic import (
    in_place,
    one_tensor,
    pieces,
    replicated_rows,
    row_writes,
    tensor_pairs,
    tensors,
    unsure_sizes,
    views,
)
from ddpify.understanding.batching import batch_sizes, in_place_writes, samples_by_place
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries import random_numbers, sample_hooks, side_effects
from ddpify.understanding.libraries.instances import MOVES, generator
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.libraries.tensor_methods import (
    COPYING,
    NEW,
    as_function,
    backward,
    receiver_of,
    repeated,
    takes_sizes,
)
from ddpify.understanding.operators.in_place import OPERATORS
from ddpify.understanding.operators.table import broadcasts
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions, tensor_sizes
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_FACTS_OF_A_TENSOR = frozenset(
    "dim ndimension is_floating_point element_size stride get_device is_contiguous".split()
)
_IN_A_LIST = ("__iadd__", "__imul__", "__setitem__", "__delitem__")
_LOOKING_THROUGH = ("index", "count")  # of a list that ``tolist()`` gives
_UNDER_EACH_OTHER = ("repeat", "tile", "repeat_interleave")
_BY_SIZES = ("expand", "view", "reshape")


@record
class _Call:
    """A call of a method of a tensor that ranks hold in part, or of a number of its rows.

    ``receiver`` is the expression whose value ``atom`` is.
    """

    run: RunState
    node: cst.BaseExpression
    receiver: cst.BaseExpression
    atom: Data
    name: str
    args: list[Value]
    kwargs: Keywords

    def given(self, options: Keywords | None = None) -> list[tuple[cst.BaseExpression, Value]]:
        """The arguments, but for options, and their expressions."""
        return argument_pairs(self.node, self.args, options or {})


def of_tensor(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Data, name: str, args, kwargs
) -> Value:
    """A method of a tensor that ranks hold in part, or of a number of its rows."""
    args, kwargs = by_position(name, args, kwargs, tensors=0)
    call = _Call(run, node, receiver_of(node), atom, name, args, kwargs)
    known = first_answer(_RULES, call)
    return _operator(call) if known is None else known


def _operator(call: _Call) -> Value:
    """What an operator gives that is a method."""
    run, node, atom, name = call.run, call.node, call.atom, call.name
    args = given = call.args
    # For others a number of rows is a size, of a view perhaps.
    if name not in (*tensor_pairs.BINARY, *replicated_rows.CHOOSING):
        args = [_sizes(run, one) for one in args]
    if name in ("view", "reshape") and atom.placement is Placement.SHARD:
        given = _own_size(run, node, given)
    limits = call.kwargs if broadcasts(name) else {}
    operands = [(call.receiver, value(atom)), *argument_pairs(node, args, limits)]
    rest = given if name in views.RESHAPING else args
    changed = in_place.changed(run, node, name, operands, atom, rest, call.kwargs)
    if changed is not None:
        return changed
    return tensors.function(run, node, name, operands, call.kwargs, rest)


# ---------------------------------------------------------------------- rules of some methods
def _backward(call: _Call) -> Value | None:
    if call.name != "backward":
        return None
    return backward(call.run, call.node, call.receiver, value(call.atom))


def _drawn(call: _Call) -> Value | None:
    return random_numbers.method(call.run, call.node, call.atom, call.name)


def _hooked(call: _Call) -> Value | None:
    """A hook on the gradients of a rank's rows."""
    run, atom = call.run, call.atom
    if call.name != "register_hook" or atom.placement is not Placement.SHARD:
        return None
    if run.module.editable:
        sample_hooks.of_rows(run, call.node, atom, call.args[0] if call.args else UNKNOWN)
    else:
        packed = replace(atom, definition_sites=frozenset(), form=Layout.PACKED)
        run.demand(call.receiver, value(packed), uses.A_HOOK)
    return REPLICATED


def _unsure_size(call: _Call) -> Value | None:
    """A size along a dimension that may be that of the rows."""
    if call.name != "size" or not call.args:
        return None
    dim = call.args[0].constant()
    return unsure_sizes.perhaps_of_rows(call.run, call.node, call.node, call.atom, dim)


def _read(call: _Call) -> Value | None:
    """What takes a tensor out of PyTorch, or out of its graph."""
    atom, name = call.atom, call.name
    if name == "detach" and atom.reduced:
        return REPLICATED
    rows = atom.placement is Placement.SHARD and not atom.opaque
    if name == "tolist" and (rows or atom.form in (Layout.ROW, Layout.GATHERED)):
        return value(replace(atom, listed=True))
    if name in ("item", "tolist", "__float__", "__format__"):
        call.run.demand(call.receiver, value(atom), f"{name}()")
        return REPLICATED
    return None


def _fact(call: _Call) -> Value | None:
    """What a tensor says of itself: sizes of this rank's, and what is alike on all ranks."""
    node, atom, name = call.node, call.atom, call.name
    if name == "size":
        return tensor_sizes.size(atom, node, call.args)
    if name in ("dim", "ndimension") and atom.ndim:
        return value(Const(atom.ndim))
    if name == "type" and not call.args and isinstance(node, cst.Call) and not node.args:
        return REPLICATED
    if name in _FACTS_OF_A_TENSOR:
        return REPLICATED
    if name in ("numel", "nelement"):
        return tensor_sizes.elements(atom, node)
    return None


def _resized(call: _Call) -> Value | None:
    """What gets the size of a rank's rows is made to hold those, whatever it held before."""
    if call.name not in in_place_writes.RESIZING:
        return None
    rows = next((data for one in call.args for data in local_data(one)), None)
    if rows is not None:
        return value(rows.placed(Placement.SHARD))
    if call.atom.placement is Placement.SHARD and not call.run.collating:  # the first elements
        packed = replace(call.atom, definition_sites=frozenset(), form=Layout.PACKED)
        call.run.demand(call.receiver, value(packed), uses.A_CHANGE)
    return value(call.atom)


def _new(call: _Call) -> Value | None:
    """A new tensor of the same kind."""
    made = call.name
    if made in NEW or takes_sizes(made, call.args):
        made = as_function(made)
    elif made != "new_tensor":
        return None
    return tensor_function(call.run, call.node, f"torch.{made}", made, call.args, call.kwargs)


def _rounded(call: _Call) -> Value | None:
    """Of a mean or a sum, each part would be rounded."""
    if call.name not in ("half", "bfloat16") or not call.atom.placement.partial:
        return None
    what = f"{call.name}(), which does not commute with a sum"
    call.run.demand(call.receiver, value(call.atom), what)
    return value(call.atom.placed(Placement.REPLICATE))


def _moved(call: _Call) -> Value | None:
    """The same tensor on another device."""
    atom = call.atom
    if call.name not in MOVES:
        return None
    side_effects.moved(call.run, call.node, call.args, call.kwargs)
    if atom.form in SEVERAL_TENSORS:
        atom = replace(atom, form=Layout.TENSOR)
    return one_tensor.fresh(value(atom))


def _items(call: _Call) -> Value | None:
    """Those of a dictionary that a loader gives."""
    held = value(call.atom)
    if call.name not in ("items", "keys", "values"):
        return None
    pair = value(Tup((REPLICATED, held)))
    return generator(call.run, call.node, pair if call.name == "items" else held)


def _by_key(call: _Call) -> Value | None:
    """What lies under a name in a dictionary that a loader gives, also if it is taken out of it."""
    key = call.args[0].constant() if call.args else ...
    named = call.name in ("get", "pop", "setdefault") and isinstance(key, str)
    return value(call.atom) if named else None


def _of_sizes(call: _Call) -> Value | None:
    """``x.shape.__eq__(other)``: what is computed of sizes needs those of the global batch."""
    if call.atom.form is not NumberKind.SHAPE:
        return None
    call.run.demand(call.receiver, value(call.atom), f"{call.name}()")
    return REPLICATED


def _by_operator(call: _Call) -> Value | None:
    """``z.__setitem__(i, y)`` changes the rows of all ranks."""
    run = call.run
    if call.name not in OPERATORS or call.atom.listed:
        return None
    if run.collating:
        run.mixes(call.node, call.atom)
        return value(call.atom)
    if call.atom.placement.local:
        row_writes.write_into_all(run, receiver_of(call.node), call.atom)
    for shown, one in call.given():
        run.demand_held(shown, one, f"{call.name}()")
    return value(call.atom)


def _with_places_changed(call: _Call) -> Value | None:
    """A list or an array of a rank's rows that is changed so that they lie at other places."""
    run, node, atom = call.run, call.node, call.atom
    sorts = call.name == "sort" and isinstance(run.module.parents.get(node), cst.Expr)  # in place
    rows = atom.placement is Placement.SHARD and atom.form is Layout.TENSOR and not atom.opaque
    moves = call.name in samples_by_place.MOVING_ITEMS
    moves |= atom.listed and call.name in _IN_A_LIST
    if not rows or run.collating or not (sorts or moves):
        return None
    row_writes.write_into_all(run, receiver_of(node), atom)
    return REPLICATED


def _looked_through(call: _Call) -> Value | None:
    """Something is looked for among rows: among those of all ranks."""
    rows = call.atom.placement is Placement.SHARD and not call.run.collating
    if call.name not in _LOOKING_THROUGH or not rows:
        return None
    for shown, one in [(call.receiver, value(call.atom)), *call.given()]:
        call.run.demand(shown, one, f"{call.name}()")
    return REPLICATED


def _split(call: _Call) -> Value | None:
    """Pieces of as many rows as a count says; other sizes are only noted."""
    run, node, atom, args = call.run, call.node, call.atom, call.args
    if atom.form is Layout.GATHERED:
        bounds.count_sizes(run, [shown for shown, _ in call.given()])
    if call.name != "split":
        return None
    if args and tensor_sizes.counts(args[0]):
        return pieces.pieces(run, value(atom), args[0])
    if isinstance(node, cst.Call) and node.args:
        sizes = (node.args[0].value, args[0])
        pieces.cut_by_global_batches(run, (call.receiver, value(atom)), sizes)
    return None


def _copied_for_each_row(call: _Call) -> Value | None:
    """``x.expand(len(batch), -1, -1)`` of a rank's rows: each beside each, in pairs.

    A mean or a sum must be the same number on every rank first.
    """
    run, node, atom, name = call.run, call.node, call.atom, call.name
    if atom.placement is Placement.SHARD and name in _BY_SIZES and _has_a_total(call.args):
        return _beside_all(run, node, atom)
    if not any(d.placement is Placement.COUNT for one in call.args for d in one.data):
        return None
    replicated = atom.placement is Placement.REPLICATE and atom.form is Layout.TENSOR
    if (atom.placement.partial or replicated) and name in COPYING:
        run.demand(call.receiver, value(atom), f"{name}() to the number of rows")
        return repeated(run, name, call.args)
    if atom.form is Layout.GATHERED and name in COPYING:
        bounds.count_sizes(run, [shown for shown, _ in call.given(call.kwargs)])
        return value(atom)
    rows = atom.placement is Placement.SHARD and not run.collating
    return _rows_copied(call) if rows else None


def _rows_copied(call: _Call) -> Value | None:
    """A rank's rows, as often as there are rows."""
    run, node, atom, name = call.run, call.node, call.atom, call.name
    if run.frames_forward() and run.module.editable and name in _UNDER_EACH_OTHER:
        bounds.count_sizes(run, [shown for shown, _ in call.given()])
        made = _beside_all(run, node, atom)
        return value(*(replace(one, flat=True, opaque=True) for one in made.of(Data)))
    if name not in COPYING:
        return None
    if name == "expand" and _is_across(atom, call.args):
        bounds.count_sizes(run, [shown for shown, _ in call.given()])
        return _beside_all(run, node, atom)
    if _is_tiled(atom, name, call.args) and not run.frames_forward():
        return _beside_all(run, node, atom)
    own = [(call.receiver, value(atom))]
    copied = tensors.function(run, node, name, own, call.kwargs, call.args)
    for one in call.args:
        _note_sizes(run, one)
    return value(*(_paired(one, atom) for one in copied.atoms))


_RULES = (
    _backward,
    _drawn,
    _hooked,
    _unsure_size,
    _read,
    _fact,
    _resized,
    _new,
    _rounded,
    _moved,
    _items,
    _by_key,
    _by_operator,
    _with_places_changed,
    _copied_for_each_row,
    _looked_through,
    _split,
    _of_sizes,
)
"""The first that says something of a call is right; all other methods are operators."""


# ---------------------------------------------------------------------- what they ask
def _is_tiled(rows: Data, name: str, times: list[Value]) -> bool:
    """Whether ``x.repeat(len(x), 1)`` puts all rows under each other, once for each of them."""
    along = times[rows.dim].data if name == "repeat" and rows.dim < len(times) else []
    return any(data.placement is Placement.COUNT for data in along)


def _has_a_total(sizes: list[Value]) -> bool:
    """Whether one of several sizes is the number of the rows of all ranks."""
    held = (a for one in dimensions.sizes_of(sizes) for a in one.atoms)
    return any(isinstance(a, Data) and a.form is NumberKind.TOTAL for a in held)


def _beside_all(run: RunState, node: cst.BaseExpression, rows: Data) -> Value:
    """What lays rows out beside those of all ranks, which it needs for that."""
    shown = receiver_of(node)
    if run.frames_forward():
        run.demand(shown, value(rows), uses.A_STATISTIC)
        return value(replace(rows.placed(Placement.REPLICATE), form=Layout.GATHERED))
    return value(replace(rows.placed(Placement.COUPLED), names=rows.names or frozenset({shown})))


def _is_across(rows: Data, args: list[Value]) -> bool:
    """Whether ``y.expand(n, n)`` has a copy of all rows, or of each, for as many as there are.

    Which of two such sizes is that of the rows themselves is not asked: both are those of all.
    """
    sizes = dimensions.sizes_of(args)
    counts = [any(d.placement is Placement.COUNT for d in one.data) for one in sizes]
    own = rows.dim + (len(sizes) - rows.ndim if rows.ndim else 0)
    return counts.count(True) > (0 <= own < len(counts) and counts[own])


def _paired(copied: Atom, rows: Data) -> Atom:
    """Copies of rows for each row: only the rows themselves can be gathered.

    Copies of positions are positions: how far these go is what they are told.
    """
    if not isinstance(copied, Data) or copied.counting:
        return copied
    return replace(copied, form=Layout.PAIRS, names=rows.names)


def _note_sizes(run: RunState, one: Value) -> None:
    """Note where numbers of rows come from that are used as sizes."""
    for data in one.data:
        if data.placement is Placement.COUNT:
            run.facts.sizes.shape_uses.update(data.definition_sites)


def _sizes(run: RunState, one: Value) -> Value:
    """An argument that may be a size: a number of rows is one of this rank's tensor."""
    _note_sizes(run, one)
    return tensor_sizes.without_counts(one)


def _own_size(run: RunState, node: cst.BaseExpression, args: list[Value]) -> list[Value]:
    """The arguments of a view whose first size is named as the loader's: that of its rows."""
    simple = isinstance(node, cst.Call) and node.args and dotted(receiver_of(node)) is not None
    if simple and run.module.editable and batch_sizes.names_size(run, node.args[0].value):  # type: ignore[attr-defined]
        run.facts.sizes.named_sizes.setdefault(node, run.site(node))
        return [value(Const(-1)), *args[1:]]
    return args
