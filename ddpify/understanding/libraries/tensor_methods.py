"""Methods of batches made by hand, and of what all ranks hold: tensors, numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.arithmetic import (
    tensors,
)
from ddpify.understanding.batching import (
    handmade_batches,
    in_place_writes,
    part_steps,
    per_sample_lists,
)
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import dotted_names, random_numbers, side_effects
from ddpify.understanding.libraries.instances import MOVES
from ddpify.understanding.libraries.opaque import sink_method
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, tensor_sizes
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Instance,
    Number,
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
# What lays a tensor itself out anew, and the method that gives such a view of it.
IN_PLACE = {f"{name}_": name for name in "t transpose swapaxes swapdims squeeze unsqueeze".split()}
COPYING = ("expand", "repeat", "tile", "broadcast_to", "repeat_interleave")
NEW = frozenset("new_zeros new_ones new_empty new_full".split())


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
        return like_another(run, node, name, args, kwargs)
    random_numbers.method(run, node, atom, name)
    pairs = [(receiver_of(node), value(atom)), *argument_pairs(node, args, {})]
    copied = repeated(run, name, args)
    if copied is not None:
        return copied
    if atom.guessed and run.module.is_unused(node) and not name.endswith("_"):
        return sink_method(
            run, node, args, kwargs, name
        )  # no tensor after all: its result would be used
    if any(one.data for one in args):
        return tensors.function(run, node, name, pairs, kwargs, args)
    return tensors.on_batches(run, name, pairs, args, kwargs)


def receiver_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """What a method is called on."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value
    return node


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


def like_another(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, name: str, args, kwargs
) -> Value:
    """A new tensor of the kind of another: of a rank's rows, if its sizes are; perhaps a batch."""
    sized = any(tensor_sizes.counts(one) for one in args)
    made = None if sized else handmade_batches.made(run, name)
    return made or of_plain(run, node, Number(), name, args, kwargs)


def takes_sizes(name: str, args: list[Value]) -> bool:
    """Whether this is ``x.new(2, n)``, and not ``x.new([2, n])``, which holds these numbers."""
    atoms = [atom for one in args for atom in one.atoms]
    listed = any(isinstance(atom, (Tup, Instance)) for atom in atoms)
    return name == "new" and not listed and any(tensor_sizes.counts(one) for one in args)


def as_function(name: str) -> str:
    """The function of PyTorch's that does what ``x.new_zeros(..)`` or ``x.new(..)`` does."""
    return "empty" if name == "new" else name.removeprefix("new_")


def of_plain(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: object, name: str, args, kwargs
) -> Value:
    """A method of a replicated value: a string, a number, a tensor."""
    constant = isinstance(atom, Const)
    literal = constant and isinstance(atom.value, (str, bytes))  # type: ignore[attr-defined]
    if name == "backward":
        return backward(run, node, receiver_of(node), REPLICATED)
    if name in MOVES:
        side_effects.moved(run, node, args, kwargs)
    if literal or (name in _STRING_METHODS and not constant):
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, "a formatted string")
            per_sample_lists.take_all(run, one)
        text = atom.value if literal else None  # type: ignore[attr-defined]
        return dotted_names.part_of(run, node, text, name, args, kwargs) or REPLICATED
    if isinstance(atom, Tup):
        return join(*atom.items) if name == "index" else REPLICATED
    drawn = random_numbers.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if run.module.is_unused(node) and not name.endswith("_"):
        side_effects.acts_unseen(run, node, name, args, kwargs)
        return sink_method(run, node, args, kwargs, name)  # no tensor, either
    copied = repeated(run, name, args)
    if copied is not None:
        return copied
    receiver = value(Number(ndim=atom.ndim)) if isinstance(atom, Number) else REPLICATED
    operands = [(receiver_of(node), receiver), *argument_pairs(node, args, kwargs)]
    if (name in NEW or takes_sizes(name, args)) and args:
        made = as_function(name)
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


def repeated(run: RunState, name: str, args: list[Value]) -> Value | None:
    """``x.expand(len(batch), -1)`` of what all ranks hold: a copy for each of this rank's rows."""
    sizes = args if name in COPYING else []
    if name == "repeat_interleave":  # told how often, and along which dimension
        sizes = args[:1] if not args[1:] or args[1].constant() == 0 else []
    for dim, one in enumerate(sizes):
        for data in one.data:
            if data.placement is Placement.COUNT or tensor_sizes.is_own_number(data):
                run.facts.sizes.shape_uses.update(data.definition_sites)
                return value(replace(tensor_sizes.rows_as_many(data), dim=dim))
    return None
