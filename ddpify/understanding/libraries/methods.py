"""Calls of methods, by what they are called on; those of library objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import mapping_classes, uses
from ddpify.understanding.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.arithmetic import picked_views
from ddpify.understanding.batching import (
    in_place_writes,
    persistent_state,
    row_numbers,
    samples_by_place,
)
from ddpify.understanding.libraries import (
    autograd_functions,
    command_line_options,
    distributions,
    entered_contexts,
    given_options,
    loaded_files,
    lookup_by_name,
    mode_switches,
    path_objects,
    per_sample_functions,
    random_numbers,
    side_effects,
    tensor_attributes,
)
from ddpify.understanding.libraries.container_methods import of_container
from ddpify.understanding.libraries.instances import RETURNS_MODEL, given_to_base, trains
from ddpify.understanding.libraries.made_callables import is_of_python
from ddpify.understanding.libraries.methods_of_parts import of_tensor
from ddpify.understanding.libraries.model_methods import of_model, of_parameters
from ddpify.understanding.libraries.object_kinds import GRAD_SCALERS, is_loader, is_loss, is_model
from ddpify.understanding.libraries.opaque import (
    call_unknown,
    foreign,
    is_unread_object,
    sink_method,
)
from ddpify.understanding.libraries.tensor_methods import (
    IN_PLACE,
    of_batch,
    of_plain,
)
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Class,
    Data,
    Function,
    Instance,
    Method,
    Number,
    Params,
    ReplicatedTensor,
    Tup,
    Value,
    join,
    library_value,
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


def _of_atom(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Atom, name: str, args, kwargs
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
        return _object_method(run, node, atom, name, args, kwargs)
    if isinstance(atom, Params):
        return of_parameters(run, node, atom, name, args, kwargs)
    if isinstance(atom, Class):
        return _of_class(run, node, atom, name, args, kwargs)
    plain = of_plain(run, node, atom, name, args, kwargs)
    return loaded_files.method(run, atom, name, args, plain)


def _of_class(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Class, name: str, args, kwargs
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


def _may_set(run: RunState, owner: Instance) -> None:
    """A method of an object that is not read may set what the script has set of it."""
    found = [owner]
    for one in found:
        lookup_by_name.set_any(run, one)
        held = [a for a in one.held() if isinstance(a, Instance) and a.type == owner.type]
        found.extend(a for a in held if a not in found)


def _object_method(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if atom.type in CONTAINERS or mapping_classes.has(atom, name):
        return of_container(run, node, atom, name, args, kwargs)
    if name == "__setattr__":
        return lookup_by_name.set_attribute(run, node, [value(atom), *args])
    entered = entered_contexts.method(run, node, name, args)
    if entered is not None:
        return entered
    if atom.type == autograd_functions.CONTEXT:
        return autograd_functions.saved(atom, name, args)
    if name in ("forward", "__call__") and is_loss(atom):
        return run.call(node, value(atom), args, kwargs)
    if name in ("parameters", "named_parameters") and not args and atom.role is None:
        run.reads_change |= not is_model(atom)
        atom.role = "model"
    if is_model(atom):
        return of_model(run, node, atom, name, args, kwargs)
    if name == "__init__" and is_loader(atom):  # super().__init__(dataset, collate_fn=...)
        given_to_base(run, node, atom, args, kwargs)
        return REPLICATED
    if name == "__iter__" and is_loader(atom):
        return run.call(node, library_value("builtins.iter"), [value(atom)], {})
    if atom.role == "optimizer" and name == "step":
        for one in args:
            _closure(run, node, one)
        return REPLICATED
    if atom.role == "optimizer" and name == "add_param_group":
        trains(run, node, atom, [*args, *kwargs.values()])
        return REPLICATED
    if atom.type in command_line_options.PARSERS and name == "add_argument":
        _add_argument(run, atom, args, kwargs)
    if atom.type in command_line_options.PARSERS and name in ("parse_args", "parse_known_args"):
        return _arguments(run, node, atom, name, [*args, *kwargs.values()])
    if atom.type in command_line_options.PARSERS and name == "set_defaults":
        _set_defaults(run, atom, kwargs)
    drawn = random_numbers.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if atom.type in GRAD_SCALERS and name == "scale":
        return args[0] if args else UNKNOWN
    other = mode_switches.is_other_method(name, [*args, *kwargs.values()])
    if atom.role is None and name in RETURNS_MODEL and isinstance(atom.type, str) and not other:
        side_effects.moved(run, node, args, kwargs)
        run.facts.event(atom, "move", run.site(node))  # of use if it turns out to be a model
        return value(atom)
    distributions.meet(run, node, atom, args)
    of_rows = distributions.method(run, node, atom, name, args)
    if of_rows is not None:
        return of_rows
    side_effects.acts_method(run, node, atom, name, args, kwargs)
    if atom.role is None and isinstance(atom.type, str):
        _may_set(run, atom)
    one = per_sample_functions.of_sample(atom.kind, name, args)
    if one is not None and not run.collating:
        return one
    used = not run.module.is_unused(node)
    local = any(True for one in (*args, *kwargs.values()) for _ in local_data(one))
    if used and local and (is_of_python(atom.kind) or is_unread_object(run, node, atom)):
        return foreign(run, node, name, args, kwargs)  # a pool, an executor: what they run may mix
    taken = sink_method(run, node, args, kwargs, name)
    return path_objects.made(run, node, atom, name) or taken


def _closure(run: RunState, node: cst.BaseExpression, closure: Value) -> None:
    """An optimizer calls a closure, and reads the loss that it returns."""
    run.call(node, closure, [], {})
    for function in closure.of(Function):
        for part in walk(function.node.body):
            if isinstance(part, cst.Return) and part.value is not None:
                run.demand(part.value, run.seen(part.value), uses.AN_OPTIMIZER)


def _add_argument(run: RunState, atom: Instance, args: list[Value], kwargs: Keywords) -> None:
    """An option may be what its default says, and is what the script's arguments do."""
    name = command_line_options.attribute_of(args, kwargs.get("dest"))
    made = run.instance(atom.site, atom.module, "argparse.Namespace")
    if name is not None and run.project.arguments:
        run.put(made, name, given_options.option(run.project.arguments, args, kwargs))
    elif name is not None and "default" in kwargs:
        run.put(made, name, join(REPLICATED, kwargs["default"]))


def _set_defaults(run: RunState, atom: Instance, kwargs: Keywords) -> None:
    made = run.instance(atom.site, atom.module, "argparse.Namespace")
    for name, default in kwargs.items() if run.project.arguments else ():
        run.put(made, name, join(REPLICATED, default))


def _arguments(
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args: list[Value]
) -> Value:
    """The options that a parser has read, by themselves or beside what is left."""
    made = run.instance(atom.site, atom.module, "argparse.Namespace")
    if args:
        lookup_by_name.set_any(run, made)  # it reads others than the script's
    run.facts.runtime.reads_arguments.setdefault(node, run.site(node))
    if name == "parse_known_args":
        return value(Tup((value(made), REPLICATED)))
    return value(made)
