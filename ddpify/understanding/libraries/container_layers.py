"""Layers in PyTorch's containers, where what they give is not one tensor with a row a sample.

A Sequential's last block may also return what it attends to: one of several tensors is no row of a
single one. A layer that gets targets too may give a loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import batch_layers
from ddpify.understanding.frames import Frame
from ddpify.understanding.layer_containers import LAYER_CONTAINERS, SEQUENTIAL
from ddpify.understanding.libraries.object_kinds import is_loss, is_model
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_LISTS = ("list", "dict")
_ORDERED = "collections.OrderedDict"
# Layers whose result is a new tensor, whatever they are made with.
_COMPUTING = (
    "Conv Linear Bilinear BatchNorm LayerNorm GroupNorm InstanceNorm MaxPool AvgPool Adaptive"
    " Embedding".split()
)
_DRAWING = ("Linear", "Bilinear", "Conv", "Embedding", "RNN", "LSTM", "GRU", "MultiheadAttention")
_GIVING = ("values", "items", "pop", "get_submodule", "__getitem__")
_ADDING = ("add_module", "register_module", "append", "insert", "extend", "update")


def gives_new(layer: Instance, around: tuple[Instance, ...] = ()) -> bool:
    """Whether a layer's result shows the elements of no other tensor, as a convolution's does.

    Nor does that of layers one after the other where one of them does not. One that was made of
    the children of an attribute which it replaces is seen inside itself, ``around`` it.
    """
    if any(layer is outer for outer in around):
        return False
    if layer.kind == SEQUENTIAL:
        held = (a for one in layer.arguments.values() for a in one.of(Instance))
        return any(gives_new(one, (*around, layer)) for one in held)
    name = layer.kind.removeprefix("torch.nn.")
    return name != layer.kind and any(map(name.startswith, _COMPUTING))


def holds_several(made: Value) -> bool:
    """Whether this is a tuple, a list or another object, of which an item is no sample."""
    return any(isinstance(atom, (Tup, Instance)) for atom in made.atoms)


def giving_the_result(target: Instance) -> list[Instance]:
    """The project's layers of which a container's call may give the result; none if others may."""
    ends = [*dict.fromkeys(_ends(target, {target}))]
    return ends if all(isinstance(one.type, Class) for one in ends) else []


def _ends(container: Instance, seen: set[Instance]) -> Iterator[Instance]:
    """What may come last in a Sequential, and any layer of a list or a dictionary of them."""
    added = [*(container.attribute("*") or UNKNOWN).atoms][-1:]
    last = value(*added) if container.type == SEQUENTIAL and added else _last(container)
    for atom in (atom for one in (last and [last]) or _given(container) for atom in one.atoms):
        if not isinstance(atom, Instance) or atom in seen:
            continue
        seen.add(atom)
        if atom.type in (*LAYER_CONTAINERS, *_LISTS, _ORDERED):
            yield from _ends(atom, seen)
        else:
            yield atom


def last_layer(target: Instance) -> Instance | None:
    """The last layer of a Sequential, where it can be one alone."""
    held = [*_last(target).atoms]
    return held[0] if len(held) == 1 and isinstance(held[0], Instance) else None


def _last(target: Instance) -> Value:
    numbered = [key for key in target.arguments if key.isdigit()]
    if target.type != SEQUENTIAL or not numbered:
        return UNKNOWN
    return target.arguments[max(numbered, key=int)]


def kind_of(layer: Instance) -> str:
    """The library's class that says what a layer does: its own, or that of which it is derived."""
    if not isinstance(layer.type, Class):
        return layer.kind
    return next((base for base in layer.type.library_bases() if base.startswith("torch.nn.")), "")


def holds_layers(layer: Instance) -> bool:
    """Whether this is one of PyTorch's lists, dictionaries or rows of layers."""
    return kind_of(layer) in LAYER_CONTAINERS


def in_any_order(container: Instance) -> list[Instance]:
    """The library's layers in a container, of which any may be called, whenever that may be."""
    return [*dict.fromkeys(_library_layers(container, {container}))]


def _library_layers(container: Instance, seen: set[Instance]) -> Iterator[Instance]:
    for atom in (atom for one in _given(container) for atom in deep_atoms(one)):
        if not isinstance(atom, Instance) or atom in seen or not is_model(atom):
            continue
        seen.add(atom)
        if holds_layers(atom) and not is_in_order(atom):
            yield from _library_layers(atom, seen)
        elif kind_of(atom):
            yield atom


def are_recurrent(container: Instance) -> bool:
    """Whether all that a list or a dictionary of layers holds gives outputs and states."""
    layers = in_any_order(container) if holds_layers(container) else []
    several = bool(layers) and kind_of(container) != SEQUENTIAL
    return several and all(one.kind in batch_layers.RECURRENT for one in layers)


def is_in_order(layer: Instance) -> bool:
    """Whether this is a Sequential whose layers are all told one by one when it is made."""
    told = [one for key, held in layer.arguments.items() for one in held.atoms if key.isdigit()]
    layers = all(isinstance(one, Instance) and is_model(one) for one in told)
    return layer.type == SEQUENTIAL and bool(told) and layers and not layer.attributes


def in_turn(sequential: Instance) -> Iterator[Instance]:
    """The layers of a Sequential in their order, those of others in it among them."""
    for place in range(len(sequential.arguments)):
        for one in sequential.arguments.get(str(place), UNKNOWN).of(Instance):
            yield from in_turn(one) if is_in_order(one) and one is not sequential else (one,)


def own_of(run: RunState, node: cst.BaseExpression, model: Instance) -> Value:
    """What ``children()`` of a model gives: any of its layers.

    Each counts as the model, but in a forward that would call itself.
    """
    if run.frame.receiver is not model or not _is_forward(run.frame):
        return value(model)
    made = run.instance(node, run.module, "torch.nn.ModuleList")
    held = (a for one in _given(model) for a in deep_atoms(one) if isinstance(a, Instance))
    for number, layer in enumerate(dict.fromkeys(a for a in held if a is not model)):
        if is_model(layer):
            run.give(made, str(number), value(layer))
    return value(made)


def _is_forward(frame: Frame) -> bool:
    """Whether a forward is in progress, perhaps of a layer that the loop calls by itself."""
    named = isinstance(frame.runs, cst.FunctionDef) and frame.runs.name.value == "forward"
    return frame.in_forward or named


def is_of_several(model: Instance) -> bool:
    """Whether a class of the project is one of PyTorch's containers of layers."""
    return isinstance(model.type, Class) and bool(
        {*model.type.library_bases()} & {*LAYER_CONTAINERS}
    )


def draws_weights(name: str) -> bool:
    """Whether a class of PyTorch's layers draws its weights at random."""
    head, _, last = name.rpartition(".")
    return head.startswith("torch.nn") and last.startswith(_DRAWING)


def adds(container: Instance, name: str) -> bool:
    """Whether a method puts a further layer into a container of layers."""
    return container.type in LAYER_CONTAINERS and name in _ADDING


def gives_layers(container: Instance, name: str) -> bool:
    """Whether a method gives layers of a container, for any of which it stands itself."""
    return holds_layers(container) and name in _GIVING


def computing_a_loss(target: Instance, args: list[Value]) -> list[Instance]:
    """The project's layers in a container that take all these arguments, several of them rows."""
    return taking(target, len(args)) if sum(map(_has_rows, args)) > 1 else []


def taking(target: Instance, count: int) -> list[Instance]:
    """The project's layers and PyTorch's losses in a container that take so many arguments."""
    layers = dict.fromkeys(_held(target, set())) if target.type in LAYER_CONTAINERS else {}
    return [one for one in layers if _takes(one, count)]


def _has_rows(one: Value) -> bool:
    return any(isinstance(atom, Data) and atom.placement.local for atom in deep_atoms(one))


def _held(container: Instance, seen: set[Instance]) -> Iterator[Instance]:
    """The project's layers in a container, and in those that it holds."""
    seen.add(container)
    for atom in (atom for one in _given(container) for atom in deep_atoms(one)):
        if isinstance(atom, Instance) and (isinstance(atom.type, Class) or is_loss(atom)):
            yield atom
        elif isinstance(atom, Instance) and atom.type in LAYER_CONTAINERS and atom not in seen:
            yield from _held(atom, seen)


def at(container: Instance, key: str) -> Value | None:
    """The library's layer under a literal position or name, where nothing was added later."""
    if container.kind not in LAYER_CONTAINERS or "*" in container.attributes:
        return None
    if container.kind == SEQUENTIAL:
        found = container.arguments.get(key[1:-1])
    else:
        lists = [a for a in container.arguments.get("0", UNKNOWN).atoms if isinstance(a, Instance)]
        found = lists[0].attribute(key) if len(lists) == 1 and lists[0].kind in _LISTS else None
        found = None if found is not None and lists[0].attribute("*") else found
    held = list(found.atoms) if found is not None else []
    plain = (
        len(held) == 1 and isinstance(held[0], Instance) and held[0].kind.startswith("torch.nn.")
    )
    return found if plain else None


def _given(container: Instance) -> tuple[Value, ...]:
    return (*container.arguments.values(), *container.attributes.values())


def _takes(layer: Instance, count: int) -> bool:
    """Whether a layer's forward takes so many arguments beside itself."""
    if is_loss(layer):
        return count > 1
    found = layer.type.find("forward") if isinstance(layer.type, Class) else None
    for function in (found or UNKNOWN).of(Function):
        parameters = function.node.params
        named = len(parameters.posonly_params) + len(parameters.params) - 1
        if named >= count or isinstance(parameters.star_arg, cst.Param):
            return True
    return False
