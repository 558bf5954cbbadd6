"""Methods of objects: of a library's, of containers, of models and of what is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding import mapping_classes, uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords, local_data
from ddpify.understanding.libraries import (
    autograd_functions,
    command_line_options,
    distributions,
    entered_contexts,
    given_options,
    lookup_by_name,
    mode_switches,
    path_objects,
    per_sample_functions,
    random_numbers,
    side_effects,
)
from ddpify.understanding.libraries.container_methods import of_container
from ddpify.understanding.libraries.instances import RETURNS_MODEL, given_to_base, trains
from ddpify.understanding.libraries.made_callables import is_of_python
from ddpify.understanding.libraries.model_methods import of_model
from ddpify.understanding.libraries.object_kinds import GRAD_SCALERS, is_loader, is_loss, is_model
from ddpify.understanding.libraries.opaque import foreign, is_unread_object, sink_method
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    UNKNOWN,
    Function,
    Instance,
    Tup,
    Value,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


@record
class _Called:
    """A method that is called on an object."""

    run: RunState
    node: cst.BaseExpression
    owner: Instance
    name: str
    args: list[Value]
    kwargs: Keywords

    @property
    def given(self) -> list[Value]:
        """All that it gets."""
        return [*self.args, *self.kwargs.values()]


def call(
    run: RunState,
    node: cst.BaseExpression,
    owner: Instance,
    name: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """What a method of an object gives."""
    called = _Called(run, node, owner, name, args, kwargs)
    known = first_answer(_RULES, called)
    return _any_other(called) if known is None else known


# ---------------------------------------------------------------------- rules for objects
def _of_container(called: _Called) -> Value | None:
    run, node, owner, name, args, kwargs = _parts(called)
    held = owner.type in CONTAINERS or mapping_classes.has(owner, name)
    return of_container(run, node, owner, name, args, kwargs) if held else None


def _set_attribute(called: _Called) -> Value | None:
    if called.name != "__setattr__":
        return None
    return lookup_by_name.set_attribute(
        called.run, called.node, [value(called.owner), *called.args]
    )


def _of_context(called: _Called) -> Value | None:
    """A ``with`` block's, by hand, or what an autograd Function keeps for its backward."""
    entered = entered_contexts.method(called.run, called.node, called.name, called.args)
    if entered is not None:
        return entered
    keeps = called.owner.type == autograd_functions.CONTEXT
    return autograd_functions.saved(called.owner, called.name, called.args) if keeps else None


def _of_loss(called: _Called) -> Value | None:
    if called.name not in ("forward", "__call__") or not is_loss(called.owner):
        return None
    return called.run.call(called.node, value(called.owner), called.args, called.kwargs)


def _of_model(called: _Called) -> Value | None:
    """A method of a model, which is one as soon as somebody asks for its parameters."""
    run, node, owner, name, args, kwargs = _parts(called)
    if name in ("parameters", "named_parameters") and not args and owner.role is None:
        run.reads_change |= not is_model(owner)
        owner.role = "model"
    return of_model(run, node, owner, name, args, kwargs) if is_model(owner) else None


def _of_loader(called: _Called) -> Value | None:
    run, node, owner, name, args, kwargs = _parts(called)
    if name == "__init__" and is_loader(owner):  # super().__init__(dataset, collate_fn=...)
        given_to_base(run, node, owner, args, kwargs)
        return REPLICATED
    if name == "__iter__" and is_loader(owner):
        return run.call(node, library_value("builtins.iter"), [value(owner)], {})
    return None


def _of_optimizer(called: _Called) -> Value | None:
    if called.owner.role != "optimizer" or called.name not in ("step", "add_param_group"):
        return None
    if called.name == "add_param_group":
        trains(called.run, called.node, called.owner, called.given)
    else:
        for one in called.args:
            _closure(called.run, called.node, one)
    return REPLICATED


def _of_parser(called: _Called) -> Value | None:
    run, node, owner, name, args, kwargs = _parts(called)
    if owner.type not in command_line_options.PARSERS:
        return None
    if name in ("parse_args", "parse_known_args"):
        return _arguments(run, node, owner, name, called.given)
    if name == "add_argument":
        _add_argument(run, owner, args, kwargs)
    elif name == "set_defaults":
        _set_defaults(run, owner, kwargs)
    return None


def _drawn(called: _Called) -> Value | None:
    return random_numbers.method(called.run, called.node, called.owner, called.name)


def _scaled(called: _Called) -> Value | None:
    if called.owner.type not in GRAD_SCALERS or called.name != "scale":
        return None
    return called.args[0] if called.args else UNKNOWN


def _moved(called: _Called) -> Value | None:
    """``unseen.to(device)`` gives the same object."""
    run, node, owner, name, args, kwargs = _parts(called)
    other = mode_switches.is_other_method(name, called.given)
    unknown = owner.role is None and isinstance(owner.type, str)
    if not unknown or name not in RETURNS_MODEL or other:
        return None
    side_effects.moved(run, node, args, kwargs)
    run.facts.event(owner, "move", run.site(node))  # of use if it turns out to be a model
    return value(owner)


def _of_distribution(called: _Called) -> Value | None:
    run, node, owner, name, args, _ = _parts(called)
    distributions.meet(run, node, owner, args)
    return distributions.method(run, node, owner, name, args)


_RULES = (
    _of_container,
    _set_attribute,
    _of_context,
    _of_loss,
    _of_model,
    _of_loader,
    _of_optimizer,
    _of_parser,
    _drawn,
    _scaled,
    _moved,
    _of_distribution,
)
"""The first that says something of a call is right; other objects may read what they get."""


def _parts(
    called: _Called,
) -> tuple[RunState, cst.BaseExpression, Instance, str, list[Value], Keywords]:
    return called.run, called.node, called.owner, called.name, called.args, called.kwargs


def _any_other(called: _Called) -> Value:
    run, node, owner, name, args, kwargs = _parts(called)
    side_effects.acts_method(run, node, owner, name, args, kwargs)
    if owner.role is None and isinstance(owner.type, str):
        _may_set(run, owner)
    one = per_sample_functions.of_sample(owner.kind, name, args)
    if one is not None and not run.collating:
        return one
    used = not run.module.is_unused(node)
    local = any(True for one in called.given for _ in local_data(one))
    if used and local and (is_of_python(owner.kind) or is_unread_object(run, node, owner)):
        return foreign(run, node, name, args, kwargs)  # a pool, an executor: what they run may mix
    taken = sink_method(run, node, args, kwargs, name)
    return path_objects.made(run, node, owner, name) or taken


def _may_set(run: RunState, owner: Instance) -> None:
    """A method of an object that is not read may set what the script has set of it."""
    found = [owner]
    for one in found:
        lookup_by_name.set_any(run, one)
        held = [a for a in one.held() if isinstance(a, Instance) and a.type == owner.type]
        found.extend(a for a in held if a not in found)


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
