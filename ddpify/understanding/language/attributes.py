"""Attributes: of modules, objects, classes and tensors, and what setting one does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import alternatives, mapping_classes
from ddpify.understanding.arguments import local_data
from ddpify.understanding.arithmetic import gradients, tensor_parts, tensors
from ddpify.understanding.batching import batch_rows, carried_values, earlier_samples
from ddpify.understanding.language import imports, set_attributes
from ddpify.understanding.libraries import (
    distributions,
    instances,
    library_settings,
    lookup_by_name,
    object_kinds,
    own_methods,
    tensor_attributes,
)
from ddpify.understanding.operators.results import FIELDS
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import transpositions
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    ANY_NAME,
    CHANGED,
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Device,
    Function,
    Instance,
    Method,
    Namespace,
    Number,
    Params,
    QualifiedName,
    ReplicatedTensor,
    Super,
    Tup,
    Value,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


# What classes of a project call as tensors do.
_OF_TENSORS_TOO = frozenset(
    "to cuda cpu float half double type numpy detach clone copy data size shape dim item tolist"
    " backward mean sum std var min max norm log exp abs view reshape permute transpose expand"
    " repeat split chunk squeeze unsqueeze flatten pin_memory fill_ zero_ normal_ uniform_".split()
)


def evaluate(run: RunState, node: cst.Attribute) -> Value:
    """What ``owner.name`` is, whatever the owner may be."""
    owner = run.eval(node.value)
    name = node.attr.value
    for atom in owner.atoms if name == "grad" else ():
        gradients.read(run, node, atom)
    own = set_attributes.found(run, node, owner)
    if own is not None:
        return own
    if run.added_to is node:
        run.unread = [one for one in owner.of(Instance) if not one.has_read(name)]
    return join(*[attribute_of(run, node, atom, name) for atom in _having(owner, name)])


def _having(owner: Value, name: str) -> Sequence[Atom]:
    """What has an attribute of a name: no tensor that a container holds beside such an object.

    Nor has None, or a list without a method of that name, where it may be something else. A tensor
    that may be a batch may be none as well, but is asked once.
    """
    atoms = [a for a in owner.atoms if not _lacks(a, name)] or owner.atoms
    classes = [a.type for a in atoms if isinstance(a, Instance) and isinstance(a.type, Class)]
    if name in _OF_TENSORS_TOO or all(one.find(name) is None for one in classes):
        batch = any(isinstance(atom, ReplicatedTensor) for atom in atoms)
        return [a for a in atoms if not (batch and isinstance(a, Number))]
    return [atom for atom in atoms if not isinstance(atom, (Data, ReplicatedTensor, Number, Const))]


def _lacks(atom: Atom, name: str) -> bool:
    """Whether asking this for an attribute is an error: None, or a list without such a method."""
    if isinstance(atom, Instance):
        return atom.kind == "list" and not hasattr(list, name)
    return alternatives.is_none(atom)


def attribute_of(run: RunState, node: cst.BaseExpression, atom: Atom, name: str) -> Value:
    """What ``atom.name`` is."""
    of_tensor = tensor_attributes.read(run, atom, name, called=_is_called(run, node))
    if of_tensor is not None:
        return of_tensor
    if isinstance(atom, QualifiedName):
        return _member_of_package(run, atom, name)
    if isinstance(atom, Namespace):
        return _member_of(run, node, atom, name)
    if isinstance(atom, Instance):
        return _instance_attribute(run, node, atom, name)
    if isinstance(atom, Class):
        return _of_class(run, node, atom, name)
    if isinstance(atom, Super):
        return _super_attribute(run, node, atom.receiver, name)
    if isinstance(atom, Data):
        called = _is_called(run, node)
        if name in transpositions.ATTRIBUTES and atom.placement is Placement.SHARD:
            return tensors.function(run, node, name, [(_owner(node), value(atom))], {})
        return tensor_parts.attribute(atom, name, called=called)
    if isinstance(atom, ReplicatedTensor):
        return batch_rows.attribute(run, atom, name, called=_is_called(run, node))
    if isinstance(atom, Tup) and name in FIELDS and not _is_called(run, node):
        return join(*atom.items)
    if isinstance(atom, Params) and name == "grad":
        run.facts.gradients.stepped.add(atom.owner)
        run.facts.event(atom.owner, "optimize", run.site(node))
        return REPLICATED
    if isinstance(atom, (Params, Number)) and name in ("data", "real"):
        return value(atom)
    if isinstance(atom, Number) and name in (*transpositions.ATTRIBUTES, "flat", "imag"):
        return value(Number(ndim=_VIEWED.get(name, atom.ndim)))
    if isinstance(atom, Params) and name in transpositions.ATTRIBUTES:
        return value(replace(atom, ndim=_VIEWED.get(name, atom.ndim)))
    if isinstance(atom, (Number, Tup, Const, Params, Device)):
        return value(Method(value(atom), name))
    return UNKNOWN


def _owner(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.value if isinstance(node, cst.Attribute) else node


def _is_called(run: RunState, node: cst.BaseExpression) -> bool:
    parent = run.module.parents.get(node)
    return isinstance(parent, cst.Call) and parent.func is node


def defined(run: RunState, node: cst.BaseExpression, atom: Namespace) -> Instance:
    """The names of a module of the project, as a dictionary."""
    return lookup_by_name.named_in(run, node, atom.scope)


def _member_of(run: RunState, node: cst.BaseExpression, atom: Namespace, name: str) -> Value:
    if name == "__dict__":
        return value(defined(run, node, atom))
    found = atom.scope.names.get(name)
    if found is None:
        found = imports.member(run, atom.module, "", name, 0) if atom.module.name == name else None
    if found is None:
        local = run.project.resolve(f"{atom.module.name}.{name}", run.module)
        found = value(run.namespace(local)) if local else UNKNOWN
    return found


def _member_of_package(run: RunState, atom: QualifiedName, name: str) -> Value:
    """What a library has, or a folder of the project that has no code of its own."""
    local = run.project.resolve(f"{atom.name}.{name}", run.module)
    if local is not None:
        return value(run.namespace(local))
    return library_value(object_kinds.canonical(f"{atom.name}.{name}"))


def _instance_attribute(
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str
) -> Value:
    held = atom.attribute(name)
    if (atom, name) in run.facts.parameters and run.frame.receiver is not atom:
        return value(Params(atom))
    if held is not None:
        held = join(held, atom.attribute(ANY_NAME) or UNKNOWN)
        if run.rounds:
            earlier_samples.read_attribute(run, atom, name, node)
        held = carried_values.read(run, atom, name, held)
        option = atom.type == "argparse.Namespace"
        return instances.option(atom, name, held) if option else _or_another(atom, name, held)
    if isinstance(atom.type, Class):
        found = atom.type.find(name)
        if found is not None:
            bound = join(*(_bind(run, node, atom, one) for one in found.atoms))
            return _or_another(atom, name, bound)
        held = atom.of_prefix(name)
        if held is not None:
            return held
    if name.startswith("__") and name.endswith("__") and not _is_called(run, node):
        if name == "__dict__":
            lookup_by_name.note_change(run, node, atom)
        held = as_dictionary(run, node, atom) if name == "__dict__" else None
        return held or REPLICATED  # about the object, as its class is
    special = instances.instance_attribute(run, node, atom, name)
    if special is not None:
        return special
    called = _is_called(run, node)
    of_rows = None if called else distributions.attribute(atom, name)
    if of_rows is not None:
        return of_rows
    own = (
        None
        if object_kinds.is_model(atom)
        else mapping_classes.made_up(run, node, atom, name, called=called)
    )
    return own if own is not None else atom.method(name)


def as_dictionary(run: RunState, node: cst.BaseExpression, atom: Instance) -> Value:
    """The attributes of an object that holds something of a batch, by name; nothing of others."""
    held_by_name = list(atom.attributes.items())
    local = any(True for _, held in held_by_name for _ in local_data(held))
    if object_kinds.is_model(atom) or not local:
        return UNKNOWN
    made = run.instance(node, run.module, "dict")
    for name, held in held_by_name:
        run.put(made, name if name.startswith(("[", "*")) else f"[{name!r}]", held)
    return value(made)


def _or_another(atom: Instance, name: str, held: Value) -> Value:
    """A setting as it is seen to be set; it may be another where something else sets it, too.

    Then it is what an option of the command line is: one number, whichever. Names stay what they
    are, but for those of reductions: a model that is chosen by its name is one that is seen.
    """
    makes_up = isinstance(atom.type, Class) and atom.type.find("__getattr__") is not None
    constant = all(isinstance(one, Const) for one in held.atoms)
    if makes_up and constant:
        return join(held, value(Number()))
    changed = atom.attribute(CHANGED) is not None and not object_kinds.is_model(atom)
    return value(Number((atom, name))) if changed and any(map(_decides, held.atoms)) else held


def _decides(setting: Atom) -> bool:
    """Whether a constant may say what an operator does: along which dimension, how it reduces."""
    if not isinstance(setting, Const):
        return False
    return isinstance(setting.value, int) or setting.value in _REDUCTIONS


_VIEWED = {"T": 2, "H": 2, "flat": 1}  # the dimensions of what all ranks hold, seen so
_REDUCTIONS = ("mean", "sum", "none", "batchmean")


def _super_attribute(
    run: RunState, node: cst.BaseExpression, receiver: Instance | Class, name: str
) -> Value:
    if isinstance(receiver, Class):
        return value(Method(value(receiver), name))
    if isinstance(receiver.type, Class):
        for base in receiver.type.project_bases():
            found = base.find(name)
            if found is not None:
                return join(*(_bind(run, node, receiver, one) for one in found.atoms))
    return receiver.method(name)


def _of_class(run: RunState, node: cst.BaseExpression, atom: Class, name: str) -> Value:
    found = atom.find(name) or UNKNOWN
    if name == "apply" and not found and object_kinds.is_own_function(atom):
        return value(Method(value(atom), name))
    of_type = UNKNOWN if found else atom.find_in_metaclass(name) or UNKNOWN
    if not found and not of_type and not name.startswith("__"):
        asked = own_methods.called(run, node, value(atom), "getattr", (node, REPLICATED))
        if asked is not None:
            return asked
    if of_type:
        return join(*(_bind(run, node, atom, one) for one in of_type.atoms))
    return join(*(_bound_to_class(run, node, atom, one) for one in found.atoms))


def _bound_to_class(run: RunState, node: cst.BaseExpression, made: Class, one: Atom) -> Value:
    if isinstance(one, Instance) and one.type in own_methods.WRAPPING:
        return own_methods.unwrapped(run, node, one, made)
    return value(Bound(made, one)) if _is_class_method(one) else value(one)


def _is_class_method(one: Atom) -> TypeGuard[Function]:
    return isinstance(one, Function) and "classmethod" in _decorators(one)


def _bind(run: RunState, node: cst.BaseExpression, atom: Instance | Class, one: Atom) -> Value:
    """What ``one``, which a class has, is for ``atom``, an object of that class."""
    if isinstance(one, Instance) and one.type in own_methods.WRAPPING:
        return own_methods.unwrapped(run, node, one, atom)
    if not isinstance(one, Function):
        got = own_methods.called(run, node, value(one), "get", (node, value(atom)))
        return value(one) if got is None else got
    decorators = _decorators(one)
    if "setter" in decorators:
        return join(*(_bind(run, node, atom, f) for f in _getters(atom, one)))
    if "property" in decorators or "cached_property" in decorators:
        return run.call(node, value(Bound(atom, one)), [], {})
    own = atom.type if isinstance(atom, Instance) else UNKNOWN
    if _is_class_method(one) and isinstance(own, Class):
        return value(Bound(own, one))
    return value(one) if is_static(one) else value(Bound(atom, one))


def _getters(atom: Instance | Class, setter: Function) -> Iterator[Function]:
    """The property of which a function is the setter, which has its name."""
    made, own = atom if isinstance(atom, Class) else atom.type, setter.node
    body = made.node.body.body if isinstance(made, Class) else ()
    name = own.name.value if isinstance(own, cst.FunctionDef) else ""
    for node in body:
        if not isinstance(node, cst.FunctionDef) or node.name.value != name:
            continue
        if "property" in _decorators(one := replace(setter, node=node)):
            yield one


def set_by_class(run: RunState, node: cst.Attribute, owner: Instance | Class, new: Value) -> bool:
    """Run what an object's class does where an attribute is set; whether it does anything."""
    if isinstance(owner, Class):
        return _set_by_method(run, node, owner, new)
    if not isinstance(owner.type, Class) or object_kinds.is_model(owner):
        return False
    name, given = node.attr.value, (node, new)
    found = owner.type.find(name) or UNKNOWN
    setters: list[Atom] = [
        Bound(owner, f) for f in found.of(Function) if "setter" in _decorators(f)
    ]
    for made in found.of(Instance):
        setters += own_methods.accessor(made, "fset", owner).atoms
    if setters:
        run.call(node, value(*setters), [new], {})
        return True
    if own_methods.called(run, node, found, "set", (node, value(owner)), given) is not None:
        return True
    return _set_by_method(run, node, owner, new)


def _set_by_method(run: RunState, node: cst.Attribute, owner: Instance | Class, new: Value) -> bool:
    """Run ``__setattr__`` where the class of an object has one; of a class, its metaclass."""
    name = (node, value(Const(node.attr.value)))
    return own_methods.called(run, node, value(owner), "setattr", name, (node, new)) is not None


def is_static(function: Function) -> bool:
    """Whether a method takes no receiver."""
    return "staticmethod" in _decorators(function)


def _decorators(function: Function) -> set[str]:
    if isinstance(function.node, cst.Lambda) or not function.node.decorators:
        return set()
    names = (dotted(d.decorator) for d in function.node.decorators)
    return {name.split(".")[-1] for name in names if name}


def attribute_set(run: RunState, node: cst.Attribute, owner: Instance, new: Value) -> None:
    """Note what setting an attribute means: a model that gets another layer, a frozen parameter."""
    library_settings.note(run, node, owner, node.attr.value, new)
    first = next(iter(run.frame.scope.names), None)
    own = isinstance(node.value, cst.Name) and node.value.value == first
    if object_kinds.is_model(owner) and own and _makes_a_parameter(run, node):
        run.facts.parameters.add((owner, node.attr.value))
    layers = any(
        isinstance(a, Params) or (isinstance(a, Instance) and object_kinds.is_model(a))
        for a in new.atoms
    )
    other = node.attr.value in ("requires_grad", "forward")
    if object_kinds.is_model(owner) and not own and (layers or other):
        run.facts.event(owner, "change", run.site(node))


def _makes_a_parameter(run: RunState, target: cst.Attribute) -> bool:
    """Whether an attribute is set to a new ``nn.Parameter``."""
    above = run.module.parents[target]
    statement = run.module.parents[above] if isinstance(above, cst.AssignTarget) else above
    made = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    called = run.seen(made.func) if isinstance(made, cst.Call) else UNKNOWN
    return value(QualifiedName("torch.nn.Parameter")) == called
