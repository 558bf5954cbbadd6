"""What a layer, or another object of a library that is called, makes of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords, argument_pairs, of_layer
from ddpify.understanding.arithmetic import patterns, sequences, tensors
from ddpify.understanding.arithmetic.denominators import LossCall
from ddpify.understanding.batching import batch_layers
from ddpify.understanding.forms import Layout
from ddpify.understanding.layer_containers import SEQUENTIAL
from ddpify.understanding.libraries import (
    container_layers,
    coupling_layers,
    escaping_loaders,
    losses,
    opaque,
    random_numbers,
    replaced_functions,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import columns, dimensions
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
    without_views,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def call(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """``object(...)`` of a library object."""
    replaced = replaced_functions.call_layer(run, node, target, args, kwargs)
    if replaced is not None:
        return replaced
    if not (isinstance(target.type, str) and losses.is_module(target.type)):
        args, kwargs = of_layer(target.kind, node, args, kwargs)
        _number_all(run, node, args, kwargs)
    made = _call_instance(_Called(run, node, target, args, kwargs))
    both = coupling_layers.gives_indices(target) and any(isinstance(a, Data) for a in made.atoms)
    return value(Tup((made, made))) if both else made


def _number_all(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> None:
    """Let a layer, which makes values of numbers, get the places of samples among all of them."""
    for expression, one in argument_pairs(node, args, kwargs):
        run.demand(expression, value(*(d for d in one.data if d.counting)), uses.POSITIONS)


@record
class _Called:
    """A call of an object of a library, with what it gets."""

    run: RunState
    node: cst.BaseExpression
    target: Instance
    args: list[Value]
    kwargs: Keywords


def _call_instance(called: _Called) -> Value:
    known = first_answer(_RULES, called)
    return _any_other(called) if known is None else known


# ---------------------------------------------------------------------- rules for layers
def _layers_of_a_container(called: _Called) -> Value | None:
    """Layers in a container that mix samples, or that are recurrent: as each of them would."""
    run, node, target, args, kwargs = _parts(called)
    mixing = coupling_layers.mixing(target, args)
    if not mixing and not container_layers.are_recurrent(target):
        return None
    _run_layers(run, node, target, args, kwargs)
    layers = mixing or container_layers.in_any_order(target)
    return join(*(_call_instance(_Called(run, node, one, args, kwargs)) for one in layers))


def _along_a_dimension(called: _Called) -> Value | None:
    """What a layer that is a function of one dimension, as ``nn.Softmax(0)``, makes of rows."""
    target, args = called.target, called.args
    name = coupling_layers.OF_A_DIMENSION.get(target.kind)
    arguments = target.arguments
    dim = arguments.get("dim") or arguments.get("start_dim") or arguments.get("0")
    if name is None or dim is None or not args or not any(args[0].of(Data)):
        return None
    operands = argument_pairs(called.node, args, {})
    given = {"start_dim" if name == "flatten" else "dim": dim}
    return tensors.function(called.run, called.node, name, operands, given, args[1:])


def _pattern(called: _Called) -> Value | None:
    run, node, target, args, _ = _parts(called)
    return patterns.layer(run, node, target, args) if target.kind in patterns.LAYERS else None


def _coupling(called: _Called) -> Value | None:
    """A layer that mixes samples; one that is recurrent gets the states of a rank's own."""
    sequences.note_states(*_parts(called))
    return coupling_layers.through(*_parts(called))


def _loss(called: _Called) -> Value | None:
    run, node, target, args, kwargs = _parts(called)
    if not isinstance(target.type, str) or not losses.is_module(target.type):
        return None
    name = losses.function_name(target.type)
    return losses.call(run, LossCall(node, name, args, kwargs, target))


def _of_batches_by_hand(called: _Called) -> Value | None:
    run, _, target, args, kwargs = _parts(called)
    return batch_layers.layer(run, target, args, kwargs) if run.choices.by_hand else None


def _recurrent(called: _Called) -> Value | None:
    return sequences.through_layer(called.target, called.args)


def _drawn(called: _Called) -> Value | None:
    return random_numbers.layer(called.run, called.node, called.target)


def _container_with_a_loss(called: _Called) -> Value | None:
    """A container whose layers end with a loss, where one of them gives a part of a number."""
    run, node, target, args, kwargs = _parts(called)
    losing = container_layers.computing_a_loss(target, [*args, *kwargs.values()])
    if not losing:
        return None
    made = run.call(node, value(*losing), args, kwargs)
    found = (a.placement for a in deep_atoms(made) if isinstance(a, Data))
    lost = any(placement.partial or not placement.local for placement in found)
    return made if lost else None


_RULES = (
    _layers_of_a_container,
    _along_a_dimension,
    _pattern,
    _coupling,
    _loss,
    _of_batches_by_hand,
    _recurrent,
    _drawn,
    _container_with_a_loss,
)
"""The first that says something of a call is right; any other object treats rows one by one."""


def _parts(
    called: _Called,
) -> tuple[RunState, cst.BaseExpression, Instance, list[Value], Keywords]:
    return called.run, called.node, called.target, called.args, called.kwargs


def _any_other(called: _Called) -> Value:
    run, node, target, args, kwargs = _parts(called)
    if target.kind.startswith("torch.nn."):
        escaping_loaders.enter_a_model(run, args)
    given, ndim = _run_layers(run, node, target, args, kwargs)
    if container_layers.holds_several(given):
        return given
    _note_all_rows(run, node, target, args)
    if target.kind.endswith(".ToPILImage"):
        name = "torchvision.transforms.functional.to_pil_image"
        return opaque.foreign(run, node, name, args, kwargs)
    result = opaque.opaque(run, node, target, args, kwargs)
    if container_layers.gives_new(target):
        result = without_views(result)
    own = isinstance(target.type, str) and target.type.startswith("torch.nn.")
    return _of_layer(target, args, result, ndim) if own else result


def _of_layer(target: Instance, args: list[Value], result: Value, ndim: int) -> Value:
    """What a layer of PyTorch's own makes of rows, with its dimensions."""
    dim = _batch_dimension(args)
    ndim = dimensions.of_layer(target, args) or ndim
    made = join(value(*(_seen(a, dim, ndim) for a in result.atoms)))
    made = columns.marked(made, columns.of_layer(target, args))
    if target.kind == "torch.nn.MultiheadAttention":  # and its weights, with the batch first
        weights = (replace(a, dim=0) if isinstance(a, Data) else a for a in made.atoms)
        return value(Tup((made, value(*weights))))
    ending = container_layers.last_layer(target)
    states = sequences.through_layer(ending, [made]) if ending is not None else None
    return states or made


def _note_all_rows(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value]
) -> None:
    """Note a layer with weights that works on the rows of all ranks, in a forward."""
    held = any(isinstance(a, Data) and a.form is Layout.GATHERED for one in args for a in one.atoms)
    if held and run.frames_forward() and target.kind.startswith(_WITH_WEIGHTS):
        run.facts.forwards.on_all_rows.setdefault(node, run.site(node))


_WITH_WEIGHTS = ("torch.nn.Conv", "torch.nn.Linear", "torch.nn.Bilinear", SEQUENTIAL)


def _run_layers(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> tuple[Value, int]:
    """The project's layers in a container do what they do with rows.

    Those of a Sequential get what the one before gives; of others, any may be what is called.
    Returns what the container's call gives, where that is what the project's layers give, and how
    many dimensions the rows of a Sequential keep from layer to layer, 0 where they may change.
    """
    given = [_without_definition_sites(one) for one in args]
    chained = target.type == SEQUENTIAL and len(args) == 1
    giving, result = container_layers.giving_the_result(target), UNKNOWN
    passed_on = given[:1]
    for layer in container_layers.taking(target, len(args) + len(kwargs)) if any(given) else ():
        made = run.call_layer(node, layer, given, kwargs)
        passed_on.append(made)
        escaping_loaders.enter_a_model(run, [made])
        if chained and _goes_on(made):
            given = [_without_definition_sites(made)]
        if layer in giving:
            result = join(result, made)
    return result, _kept_dimensions(target, passed_on) if chained else 0


def _kept_dimensions(sequential: Instance, passed_on: list[Value]) -> int:
    """The dimensions of what goes into each layer of a Sequential, if that is one number."""
    found = {data.ndim for one in passed_on for data in one.data}
    library = (a for a in container_layers.in_any_order(sequential) if isinstance(a.type, str))
    kept = all({dimensions.of_layer(one, passed_on[:1])} == found for one in library)
    return found.pop() if len(found) == 1 and kept else 0


def _goes_on(made: Value) -> bool:
    """Whether the next layer of a Sequential is known to get this: rows, or several things."""
    rows = bool(made.data) and all(d.placement is Placement.SHARD for d in made.data)
    return rows or container_layers.holds_several(made)


def _without_definition_sites(one: Value) -> Value:
    return join(
        value(
            *(
                replace(a, definition_sites=frozenset()) if isinstance(a, Data) else a
                for a in one.atoms
            )
        )
    )


def _batch_dimension(args: list[Value]) -> int:
    return next((d.dim for one in args for d in one.data if d.placement is Placement.SHARD), 0)


def _seen(atom: Atom, dim: int, ndim: int) -> Atom:
    """What a layer of PyTorch's own makes of rows are rows, along the same dimension."""
    if not isinstance(atom, Data):
        return Number()
    return replace(atom, opaque=False, dim=dim, ndim=ndim)
