"""Methods of tensors, of batches made by hand, and of numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_pairs, by_position, local_data
from ddpify.understanding.arithmetic import (
    in_place,
    one_tensor,
    tensor_items,
    tensor_pairs,
    tensors,
    unsure_sizes,
    views,
)
from ddpify.understanding.batching import batch_sizes, handmade_batches, in_place_writes, part_steps
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries import random_numbers, sample_hooks, side_effects
from ddpify.understanding.libraries.instances import MOVES, generator
from ddpify.understanding.libraries.opaque import sink_method
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, tensor_sizes
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    ReplicatedTensor,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_STRING_METHODS = frozenset(
    "format join strip split replace startswith endswith ljust rjust center zfill encode".split()
)
_FACTS_OF_A_TENSOR = frozenset(
    "dim ndimension is_floating_point element_size stride get_device is_contiguous".split()
)
# What lays a tensor itself out anew, and the method that gives such a view of it.
IN_PLACE = {f"{name}_": name for name in "t transpose swapaxes swapdims unsqueeze".split()}
_LOOKING_THROUGH = ("index", "count")  # of a list that ``tolist()`` gives
_COPYING = ("expand", "repeat", "tile")
_UNDER_EACH_OTHER = ("repeat", "tile", "repeat_interleave")
_NEW = frozenset("new_zeros new_ones new_empty new_full".split())
_BY_SIZES = ("expand", "view", "reshape")


def of_batch(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: ReplicatedTensor, name: str, args, kwargs
) -> Value:
    """A method of a tensor that may be a batch made by hand."""
    if name == "backward":
        return REPLICATED
    if name in MOVES:
        side_effects.moved(run, node, args, kwargs)
        return value(atom)
    if name.startswith("new_"):
        return handmade_batches.made(run, name) or REPLICATED
    random_numbers.method(run, node, atom, name)
    pairs = [(_receiver(node), value(atom)), *argument_pairs(node, args, {})]
    repeated = _repeated(run, name, args)
    if repeated is not None:
        return repeated
    if atom.guessed and run.module.is_unused(node) and not name.endswith("_"):
        return sink_method(
            run, node, args, kwargs, name
        )  # no tensor after all: its result would be used
    if any(one.data for one in args):
        return tensors.function(run, node, name, pairs, kwargs, args)
    return tensors.on_batches(run, name, pairs, args, kwargs)


def _receiver(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value
    return node


def of_tensor(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Data, name: str, args, kwargs
) -> Value:
    """A method of a tensor that ranks hold in part, or of a number of its rows."""
    receiver = _receiver(node)
    if name == "backward":
        return backward(run, node, receiver, value(atom))
    drawn = random_numbers.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if name == "register_hook" and atom.placement is Placement.SHARD:
        if run.module.editable:
            sample_hooks.of_rows(run, node, atom, args[0] if args else UNKNOWN)
        else:
            packed = replace(atom, definition_sites=frozenset(), form=Layout.PACKED)
            run.demand(receiver, value(packed), uses.A_HOOK)
        return REPLICATED
    args, kwargs = by_position(name, args, kwargs, tensors=0)
    if name == "size" and args:
        rows = unsure_sizes.perhaps_of_rows(run, node, node, atom, args[0].constant())
        if rows is not None:
            return rows
    known = _read(run, receiver, atom, name) or _fact(node, atom, name, args)
    if known is not None:
        return known
    if name in in_place_writes.RESIZING:
        return _resized(atom, args)
    if name in _NEW:
        made = name.removeprefix("new_")
        return tensor_function(run, node, f"torch.{made}", made, args, kwargs)
    if name == "new_tensor":
        return tensor_function(run, node, f"torch.{name}", name, args, kwargs)
    if name in ("half", "bfloat16") and atom.placement.partial:  # each part would be rounded
        run.demand(receiver, value(atom), f"{name}(), which does not commute with a sum")
        return value(atom.placed(Placement.REPLICATE))
    if name in MOVES:
        side_effects.moved(run, node, args, kwargs)
        return one_tensor.fresh(
            value(replace(atom, form=Layout.TENSOR) if atom.form in SEVERAL_TENSORS else atom)
        )
    if name in ("items", "keys", "values"):
        pair = Tup((REPLICATED, value(atom)))
        return generator(run, node, value(pair) if name == "items" else value(atom))
    copied = _copied_for_each_row(run, node, atom, name, args, kwargs)
    if copied is not None:
        return copied
    if name in _LOOKING_THROUGH and atom.placement is Placement.SHARD and not run.collating:
        for shown, one in [(receiver, value(atom)), *argument_pairs(node, args, {})]:
            run.demand(shown, one, f"{name}()")
        return REPLICATED
    given = args
    if atom.form is Layout.GATHERED:
        bounds.count_sizes(run, [shown for shown, _ in argument_pairs(node, args, {})])
    if name == "split" and args and tensor_sizes.counts(args[0]):
        return tensor_items.pieces(run, value(atom), args[0])
    if name == "split" and isinstance(node, cst.Call) and node.args:
        tensor_items.cut_by_global_batches(
            run, (receiver, value(atom)), (node.args[0].value, args[0])
        )
    # For others a number of rows is a size, of a view perhaps.
    if name not in (*tensor_pairs.BINARY, *tensors.CHOOSING):
        args = [_sizes(run, one) for one in args]
    if name in ("view", "reshape") and atom.placement is Placement.SHARD:
        given = _own_size(run, node, given)
    limits = kwargs if tensors.broadcasts(name) else {}
    operands = [(receiver, value(atom)), *argument_pairs(node, args, limits)]
    rest = given if name in views.RESHAPING else args
    changed = in_place.changed(run, node, name, operands, atom, rest, kwargs)
    if changed is not None:
        return changed
    return tensors.function(run, node, name, operands, kwargs, rest)


def _read(run: RunState, receiver: cst.BaseExpression, atom: Data, name: str) -> Value | None:
    """What takes a tensor out of PyTorch, or out of its graph."""
    if name == "detach" and atom.reduced:
        return REPLICATED
    rows = atom.placement is Placement.SHARD and not atom.opaque
    if name == "tolist" and (rows or atom.form in (Layout.ROW, Layout.GATHERED)):
        return value(atom)
    if name in ("item", "tolist", "__float__", "__format__"):
        run.demand(receiver, value(atom), f"{name}()")
        return REPLICATED
    return None


def _resized(atom: Data, sizes: list[Value]) -> Value:
    """What gets the size of a rank's rows is made to hold those, whatever it held before."""
    rows = next((data for one in sizes for data in local_data(one)), None)
    return value(atom if rows is None else rows.placed(Placement.SHARD))


def _fact(node: cst.BaseExpression, atom: Data, name: str, args: list[Value]) -> Value | None:
    """What a tensor says of itself: sizes of this rank's, and what is alike on all ranks."""
    if name == "size":
        return tensor_sizes.size(atom, node, args)
    if name in ("dim", "ndimension") and atom.ndim:
        return value(Const(atom.ndim))
    if name == "type" and not args and isinstance(node, cst.Call) and not node.args:
        return REPLICATED
    if name in _FACTS_OF_A_TENSOR:
        return REPLICATED
    if name in ("numel", "nelement"):
        return tensor_sizes.elements(atom, node)
    return None


def _copied_for_each_row(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Data, name: str, args, kwargs
) -> Value | None:
    """``x.expand(len(batch), -1, -1)`` of a rank's rows: each beside each, in pairs.

    A mean or a sum must be the same number on every rank first.
    """
    if atom.placement is Placement.SHARD and name in _BY_SIZES and _has_a_total(args):
        return _beside_all(run, node, atom)
    counted = any(d.placement is Placement.COUNT for one in args for d in one.data)
    if counted and atom.placement.partial and name in _COPYING:
        run.demand(_receiver(node), value(atom), f"{name}() to the number of rows")
        return _repeated(run, name, args)
    if counted and atom.form is Layout.GATHERED and name in (*_COPYING, "repeat_interleave"):
        bounds.count_sizes(run, [shown for shown, _ in argument_pairs(node, args, kwargs)])
        return value(atom)
    rows = atom.placement is Placement.SHARD and not run.collating
    inside = run.frames_forward() and run.module.editable
    if counted and rows and inside and name in _UNDER_EACH_OTHER:
        bounds.count_sizes(run, [shown for shown, _ in argument_pairs(node, args, {})])
        made = _beside_all(run, node, atom)
        return value(*(replace(one, flat=True, opaque=True) for one in made.of(Data)))
    if not (counted and rows and name in _COPYING):
        return None
    if name == "expand" and _is_across(atom, args):
        bounds.count_sizes(run, [shown for shown, _ in argument_pairs(node, args, {})])
        return _beside_all(run, node, atom)
    if _is_tiled(atom, name, args) and not run.frames_forward():
        return _beside_all(run, node, atom)
    copied = tensors.function(run, node, name, [(_receiver(node), value(atom))], kwargs, args)
    for one in args:
        _note_sizes(run, one)
    return value(*(_paired(one, atom) for one in copied.atoms))


def _is_tiled(rows: Data, name: str, times: list[Value]) -> bool:
    """Whether ``x.repeat(len(x), 1)`` puts all rows under each other, once for each of them."""
    along = times[rows.dim].data if name == "repeat" and rows.dim < len(times) else []
    return any(data.placement is Placement.COUNT for data in along)


def _has_a_total(sizes: list[Value]) -> bool:
    """Whether one of several sizes is the number of the rows of all ranks."""
    held = (a for one in views.sizes_of(sizes) for a in one.atoms)
    return any(isinstance(a, Data) and a.form is NumberKind.TOTAL for a in held)


def _beside_all(run: RunState, node: cst.BaseExpression, rows: Data) -> Value:
    """What lays rows out beside those of all ranks, which it needs for that."""
    shown = _receiver(node)
    if run.frames_forward():
        run.demand(shown, value(rows), uses.A_STATISTIC)
        return value(replace(rows.placed(Placement.REPLICATE), form=Layout.GATHERED))
    return value(replace(rows.placed(Placement.COUPLED), names=rows.names or frozenset({shown})))


def _is_across(rows: Data, args: list[Value]) -> bool:
    """Whether ``y.expand(n, n)`` has a copy of all rows, or of each, for as many as there are.

    Which of two such sizes is that of the rows themselves is not asked: both are those of all.
    """
    sizes = views.sizes_of(args)
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
    simple = isinstance(node, cst.Call) and node.args and dotted(_receiver(node)) is not None
    if simple and run.module.editable and batch_sizes.names_size(run, node.args[0].value):  # type: ignore[attr-defined]
        run.facts.sizes.named_sizes.setdefault(node, run.site(node))
        return [value(Const(-1)), *args[1:]]
    return args


def backward(
    run: RunState, node: cst.BaseExpression, receiver: cst.BaseExpression, loss: Value
) -> Value:
    """A gradient is asked for: the loss must be the global batch's by then."""
    _, known = run.facts.backwards.get(node, (None, UNKNOWN))
    run.facts.backwards[node] = (run.site(node), join(known, loss))
    if run.running_entry:
        run.facts.gradients.reached_backwards.add(node)
    part_steps.note(run)
    run.demand(receiver, loss, uses.BACKWARD)
    for data in loss.of(Data):
        run.facts.trained |= {loader.site for loader in data.loaders}
    return REPLICATED


def of_plain(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: object, name: str, args, kwargs
) -> Value:
    """A method of a replicated value: a string, a number, a tensor."""
    constant = isinstance(atom, Const)
    literal = constant and isinstance(atom.value, (str, bytes))  # type: ignore[attr-defined]
    if name == "backward":
        return backward(run, node, _receiver(node), REPLICATED)
    if name in MOVES:
        side_effects.moved(run, node, args, kwargs)
    if literal or (name in _STRING_METHODS and not constant):
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, "a formatted string")
        return REPLICATED
    if isinstance(atom, Tup):
        return join(*atom.items) if name == "index" else REPLICATED
    drawn = random_numbers.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if run.module.is_unused(node) and not name.endswith("_"):
        return sink_method(run, node, args, kwargs, name)  # no tensor, either
    repeated = _repeated(run, name, args)
    if repeated is not None:
        return repeated
    operands = [(_receiver(node), REPLICATED), *argument_pairs(node, args, kwargs)]
    if name in _NEW and args:
        made = name.removeprefix("new_")
        return tensor_function(run, node, f"torch.{made}", made, args, kwargs)
    if name in in_place_writes.RESIZING:
        for data in (d for _, one in operands[1:] for d in tensor_sizes.counts(one)):
            run.facts.sizes.shape_uses.update(data.definition_sites)
            return value(data.placed(Placement.SHARD))
    counted = [shown for shown, one in operands[1:] if tensor_sizes.counts(one)]
    if counted:
        bounds.count_sizes(run, counted)  # what all ranks hold goes by the number of all rows
        whole = Data(Placement.REPLICATE, form=Layout.GATHERED, flat=True, opaque=True)
        return REPLICATED if rule_of(name) is Rule.ELEMENTWISE else value(whole)
    return tensors.function(run, node, name, operands, kwargs, args)


def _repeated(run: RunState, name: str, args: list[Value]) -> Value | None:
    """``x.expand(len(batch), -1)`` of what all ranks hold: a copy for each of this rank's rows."""
    for dim, one in enumerate(args if name in _COPYING else ()):
        for data in one.data:
            if data.placement is Placement.COUNT or tensor_sizes.is_own_number(data):
                run.facts.sizes.shape_uses.update(data.definition_sites)
                return value(replace(tensor_sizes.rows_as_many(data), dim=dim))
    return None
