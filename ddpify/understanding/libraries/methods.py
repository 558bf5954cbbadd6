"""Calls of methods, by what they are called on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import picked_views
from ddpify.understanding.batching import (
    in_place_writes,
    persistent_state,
    row_numbers,
    samples_by_place,
)
from ddpify.understanding.libraries import (
    autograd_functions,
    loaded_files,
    lookup_by_name,
    object_methods,
    side_effects,
    tensor_attributes,
)
from ddpify.understanding.libraries.methods_of_parts import of_tensor
from ddpify.understanding.libraries.model_methods import of_parameters
from ddpify.understanding.libraries.opaque import call_unknown
from ddpify.understanding.libraries.tensor_methods import IN_PLACE, of_batch, of_plain
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.values import (
    REPLICATED,
    Atom,
    Class,
    Data,
    Instance,
    Method,
    Number,
    Params,
    ReplicatedTensor,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def call_method(
    run: RunState, node: cst.BaseExpression, method: Method, args: list[Value], kwargs: Keywords
) -> Value:
    """A method of a tensor, a number, a container or a library object."""
    side_effects.acts_array(run, node, method)
    if tensor_attributes.fill(run, node):
        return REPLICATED
    results = []
    name = IN_PLACE.get(method.name, method.name)
    known = any(isinstance(atom, (Instance, ReplicatedTensor)) for atom in method.receiver.atoms)
    for atom in method.receiver.atoms:
        if known and isinstance(atom, Number):
            continue  # what else may come here is the same kind of object, as far as is known
        called = name if isinstance(atom, Data) else method.name
        results.append(_of_atom(run, node, atom, called, args, kwargs))
    shown = _receiver(node)
    if changes_values(method.name):
        given = argument_pairs(node, args, kwargs)
        picked_views.change(run, method.receiver, [shown for shown, _ in given])
        if not in_place_writes.is_in_place(node):
            persistent_state.changed(run, method.receiver, given)
    made = picked_views.of_call(run, node, name, shown, join(*results))
    if name != method.name and isinstance(node, cst.Call):
        _laid_out(run, node, made)
    return made


def _of_atom(
    run: RunState,
    node: cst.BaseExpression,
    atom: Atom,
    name: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """A method of one of the things that a value may be."""
    if isinstance(atom, Data):
        if atom.is_position and not any(one.data for one in args):
            return row_numbers.shifted(value(atom))
        samples_by_place.changed(run, node, atom, name)
        return of_tensor(run, node, atom, name, args, kwargs)
    if isinstance(atom, ReplicatedTensor):
        return of_batch(run, node, atom, name, args, kwargs)
    if isinstance(atom, Instance):
        return object_methods.call(run, node, atom, name, args, kwargs)
    if isinstance(atom, Params):
        return of_parameters(run, node, atom, name, args, kwargs)
    if isinstance(atom, Class):
        return _of_class(run, node, atom, name, args, kwargs)
    plain = of_plain(run, node, atom, name, args, kwargs)
    return loaded_files.method(run, atom, name, args, plain)


def _of_class(
    run: RunState,
    node: cst.BaseExpression,
    atom: Class,
    name: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    if name == "__setattr__":
        return lookup_by_name.set_attribute(run, node, [value(atom), *args])
    if name == "apply":
        return autograd_functions.apply(run, node, atom, args, kwargs)
    return call_unknown(run, node, args, kwargs)


def _receiver(node: cst.BaseExpression) -> cst.BaseExpression:
    called = node.func if isinstance(node, cst.Call) else node
    return called.value if isinstance(called, cst.Attribute) else called


def _laid_out(run: RunState, node: cst.Call, made: Value) -> None:
    """``x.transpose_(0, 1)`` leaves its dimensions in another order under the tensor's name."""
    tensor = node.func.value if isinstance(node.func, cst.Attribute) else None
    if isinstance(tensor, cst.Name) and made.data:
        run.bind(tensor.value, made)
