"""Calls of project functions, classes and models; library calls go to :mod:`library`."""

from __future__ import annotations

from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from ddpify.understanding import definition_sites, mapping_classes, merged_calls
from ddpify.understanding.batching import (
    collating_calls,
    current_batch,
    handmade_batches,
    model_inputs,
    named_parts,
)
from ddpify.understanding.facts import Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.frames import Frame
from ddpify.understanding.language import (
    attributes,
    overloads,
    set_attributes,
    shared_objects,
    star_args,
)
from ddpify.understanding.language.set_attributes import Entered
from ddpify.understanding.libraries import (
    container_methods,
    criteria,
    instances,
    layer_calls,
    layers_apart,
    library,
    made_callables,
    methods,
    mode_switches,
    object_kinds,
    opaque,
    own_tensors,
    partial_calls,
    replicated_calls,
    sample_hooks,
    unread_models,
    vectorised,
)
from ddpify.understanding.libraries.distributed import held_forwards
from ddpify.understanding.model_structure import is_batchnorm
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import relative_ranks
from ddpify.understanding.syntax import dotted, parameters
from ddpify.understanding.values import (
    UNKNOWN,
    Bound,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Method,
    QualifiedName,
    ReplicatedTensor,
    Scope,
    Tup,
    Value,
    deep_atoms,
    either,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_DEEPEST = 40
_MOST_WITHIN_ITSELF = 6  # calls of one function: in more, arguments may grow without an end
_LARGEST = 40  # things in an argument that a function hands on to itself
Keywords = dict[str, Value]


class _Call(NamedTuple):
    """A call of a project function."""

    function: Function
    args: list[Value]
    kwargs: Keywords
    receiver: Instance | Class | None
    site: Site | None
    forward: bool  # whether it is a model's forward
    # What a caller knows that it has set last of the object, by attribute.
    entered: Entered | None = None

    def key(self, run: RunState) -> object:
        """What its result goes by."""
        named = _by_name(self.kwargs)
        place = self.site.node if self.site else None
        modes = bool(run.no_grad), bool(run.all_replicated), self.forward, run.training
        args = tuple(self.args), named, _captured(self.function)
        return self.function.node, place, self.receiver, args, modes, self.entered

    def joint_key(self, run: RunState) -> object:
        """What the calls have in common that are taken together.

        In a brief run that is not what sorts of values they give.
        """
        modes = bool(run.no_grad), bool(run.all_replicated), self.forward, run.training
        given = [] if run.ways.bounds.once else [*self.args, *self.kwargs.values()]
        sorts = tuple(map(merged_calls.sorts, given))
        shape = len(self.args), tuple(self.kwargs), sorts, _captured(self.function)
        return self.function.node, self.receiver, shape, modes


def _by_name(named: Keywords) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(named.items(), key=lambda pair: pair[0]))


def _captured(function: Function) -> tuple[tuple[str, Value], ...]:
    """What the names of the functions around stand for that a function inside may read."""
    structure = function.module.structure
    outer = structure.function(function.node)
    names = structure.captured.get(outer, frozenset()) if outer is not None else frozenset()
    if not names:
        return ()
    scopes: list[Scope] = []
    scope: Scope | None = function.scope
    while scope is not None and scope.parent is not None:
        scopes.append(scope)
        scope = scope.parent
    held = ((name, one.held(name)) for one in scopes for name in one.names if name in names)
    return tuple(sorted(held, key=lambda pair: pair[0]))


def call(
    run: RunState, node: cst.BaseExpression, callee: Value, args: list[Value], kwargs: Keywords
) -> Value:
    """The result of calling any value."""
    if not callee:
        return opaque.call_unknown(run, node, args, kwargs)
    called = [a for a in callee.atoms if not isinstance(a, Const)]  # a literal, as None, is not
    if any(isinstance(a, (Function, Class)) for a in called):  # nor is a tensor of that name
        called = [a for a in called if not isinstance(a, Data) or a.opaque]
    meant = overloads.fitting(node, called or callee.atoms, args, kwargs)
    return join(*[_call_atom(run, node, atom, args, kwargs) for atom in meant])


def _call_atom(run, node, atom, args, kwargs) -> Value:  # type: ignore[no-untyped-def]
    if run.collating and isinstance(atom, (QualifiedName, Method)):
        collating_calls.note(run, node, atom, args, kwargs)
    if isinstance(atom, Function):
        shown = _rows_named(run, node, args)
        return call_function(run, atom, shown, kwargs, None, run.site(node))
    if isinstance(atom, Bound) and _is_a_models_forward(run, atom):
        return call_instance(run, node, atom.receiver, args, kwargs)  # type: ignore[arg-type]
    if isinstance(atom, Bound):
        return _call_method(run, node, atom, args, kwargs)
    if isinstance(atom, Class):
        return _instantiate(run, node, atom, args, kwargs)
    if isinstance(atom, QualifiedName):
        return library.call(run, node, atom.name, args, kwargs)
    if isinstance(atom, Method):
        return methods.call_method(run, node, atom, args, kwargs)
    if isinstance(atom, Instance) and atom.type == partial_calls.TYPE:
        function, given, named = partial_calls.completed(atom, args, kwargs)
        return join(*(_call_atom(run, node, one, given, named) for one in function.atoms))
    if isinstance(atom, Instance) and atom.type == vectorised.TYPE:
        return vectorised.call(run, node, atom, args)
    if made_callables.is_one(atom) and (not run.collating or made_callables.is_known(atom)):
        return made_callables.call(run, node, atom, args, kwargs)
    if isinstance(atom, Instance):
        return call_instance(run, node, atom, args, kwargs)
    return opaque.call_unknown(run, node, args, kwargs, atom)


def _rows_named(run: RunState, node: cst.BaseExpression, args: list[Value]) -> list[Value]:
    """Arguments whose rows, if nothing has named them, get their names where they are given."""
    shown = [one.value for one in node.args] if isinstance(node, cst.Call) else []
    if run.frames_forward() or run.collating or len(shown) < len(args):
        return args
    pairs = zip(shown, args, strict=False)
    return [
        definition_sites.rows_named(held, one) if any(map(_is_unnamed, held.data)) else held
        for one, held in pairs
    ]


def _is_unnamed(data: Data) -> bool:
    return data.placement is Placement.SHARD and not data.names


def _call_method(run, node, method: Bound, args, kwargs) -> Value:  # type: ignore[no-untyped-def]
    model = method.receiver if isinstance(method.receiver, Instance) else None
    is_model = model is not None and _acts_as_model(run, model)
    if is_model and run.frame.receiver is not model:
        args = handmade_batches.named_arguments(run, node, args)
    with run.in_mode(mode_switches.of_call(run, node, model) if is_model else run.training):  # type: ignore[arg-type]
        entered = set_attributes.handed_on(run, node, model, method.function) if model else None
        site = run.site(node)
        return call_function(
            run, method.function, args, kwargs, method.receiver, site, entered=entered
        )


def _acts_as_model(run: RunState, model: Instance) -> bool:
    """Whether an object is a model that holds layers, or will: one that is being made has none."""
    if not object_kinds.is_model(model):
        return False
    return set_attributes.is_being_made(run, model) or not criteria.is_criterion(run, model)


def _is_a_models_forward(run: RunState, method: Bound) -> bool:
    """Whether ``model.forward`` is called, from outside of the model: as good as the model."""
    model = method.receiver
    if (
        not isinstance(model, Instance)
        or not object_kinds.is_model(model)
        or run.frame.receiver is model
    ):
        return False
    own = model.type.find("forward") if isinstance(model.type, Class) else None
    return own is not None and method.function in own.atoms


def _instantiate(
    run: RunState, node: cst.BaseExpression, made: Class, args: list[Value], kwargs: Keywords
) -> Value:
    makers = [
        one
        for found in (made.find_in_metaclass("__call__"), made.find("__new__"))
        for one in (found or UNKNOWN).of(Function)
    ]
    shared = bool(makers) or shared_objects.share_attributes(made)
    instance = run.only_instance(made) if shared else run.instance(node, run.module, made)
    other = join(*(run.call(node, value(one), [value(made), *args], kwargs) for one in makers))
    if other.data:  # no object of the class, but something of a batch
        return other
    initialiser = made.find("__init__")
    instances.instantiated(run, node, instance, args, kwargs)
    if initialiser is not None:
        for function in initialiser.of(Function):
            call_function(run, function, args, kwargs, instance, run.site(node))
    else:
        instances.given_to_base(run, node, instance, args, kwargs)
        _fill_fields(run, node, instance, made, args, kwargs)
        if mapping_classes.is_mapping(instance):
            container_methods.of_container(run, node, instance, "update", args, {})
            for name, given in kwargs.items():
                run.put(instance, f"[{name!r}]", given)
    return own_tensors.made(instance, args)


def _fill_fields(run, node, instance: Instance, made: Class, args, kwargs) -> None:  # type: ignore[no-untyped-def]
    """A data class or a named tuple keeps what it is made with."""
    names = made.fields()
    for name in names[len(args) :] if star_args.may_give_more(kwargs) else ():
        if (made.find(name) or UNKNOWN).constant() is not ...:  # the default of an option
            run.put(instance, name, UNKNOWN)
    for name, given in [*zip(names, args, strict=False), *kwargs.items()]:
        if name in names:
            run.put(instance, name, given)
        if name in names and made.is_named_tuple:
            run.put(instance, f"[{names.index(name)}]", given)
    after = made.find("__post_init__") if names else None
    for function in after.of(Function) if after is not None else ():
        call_function(run, function, [], {}, instance, run.site(node))


def call_instance(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """``instance(...)``: a model's forward, a project object's ``__call__``, a library object."""
    if not object_kinds.is_model(target):
        return _call_object(run, node, target, args, kwargs)
    run.facts.event(target, "call", run.site(node), gradient=not run.no_grad)
    if not run.frames_forward():  # its batch normalisation goes by how the batch is shared
        current_batch.used(run, node, (d for one in args for d in one.data))
    if not object_kinds.is_loss(target):
        args, kwargs = model_inputs.entered(run, node, target, args, kwargs)
    _run_wrapped(run, node, target, args, kwargs)
    result = _call_object(run, node, target, args, kwargs)
    if not run.frames_forward():
        sample_hooks.called(run, node, target, [*args, *kwargs.values()])
    replicated_calls.note(run, node, target, [*args, *kwargs.values()], result)
    return result


def _run_wrapped(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value], kwargs: Keywords
) -> None:
    """Learn what the forward of a model in a DDP or FSDP object does with what that is given."""
    for model, function in held_forwards(target):
        call_function(run, function, args, kwargs, model, run.site(node), forward=True)


def call_layer(
    run: RunState, node: cst.BaseExpression, layer: Instance, args: list[Value], kwargs: Keywords
) -> Value:
    """What a layer of a model in progress, which a container calls, makes of these arguments."""
    found = layer.type.find("forward") if isinstance(layer.type, Class) else None
    functions = found.of(Function) if found is not None else ()
    site = run.site(node)
    return join(
        *(call_function(run, f, args, kwargs, layer, site, forward=True) for f in functions)
    )


def _call_object(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    own = target.attribute("forward")
    if own is not None:
        return _call_set_forward(run, node, target, own, args, kwargs)
    if isinstance(target.type, Class) and not _normalises_apart(run, node, target):
        found = target.type.find("__call__")  # a model may have its own, past its forward
        if found is None and object_kinds.is_model(target):
            found = target.type.find("forward")
        functions = list(found.of(Function)) if found is not None else []
        if functions:
            forward = object_kinds.is_model(target) and not criteria.is_criterion(run, target)
            site = run.site(node)
            with run.in_mode(mode_switches.of_call(run, node, target) if forward else run.training):
                results = [
                    call_function(
                        run,
                        f,
                        args,
                        kwargs,
                        target,
                        site,
                        forward=forward,
                        entered=set_attributes.handed_on(run, node, target, f),
                    )
                    for f in functions
                ]
            result = join(*results)
            return result if result else opaque.opaque(run, node, target, args, kwargs)
    given = [*args, *kwargs.values()]
    if opaque.is_unread_criterion(run, node, target, given):
        return opaque.judged(run, node, args, kwargs)
    unread_models.called(run, node, target, given)
    return layer_calls.call(run, node, target, args, kwargs)


def _call_set_forward(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    own: Value,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """Call the function that was set as the forward of an object: ``model.forward = function``."""
    forward = object_kinds.is_model(target) and not criteria.is_criterion(run, target)
    made = []
    for atom in own.atoms:
        function = atom.function if isinstance(atom, Bound) else atom
        receiver = atom.receiver if isinstance(atom, Bound) else None
        if isinstance(function, Function):
            site = run.site(node)
            made.append(call_function(run, function, args, kwargs, receiver, site, forward=forward))
        else:
            made.append(call(run, node, value(atom), args, kwargs))
    return join(*made)


def _normalises_apart(run: RunState, node: cst.BaseExpression, target: Instance) -> bool:
    """Whether a class of the project's is a BatchNorm, and its object is part of no model."""
    if not is_batchnorm(target) or not isinstance(node, cst.Call):
        return False
    return layers_apart.normalises(run, node, target)


def call_function(
    run: RunState,
    function: Function,
    args: list[Value],
    kwargs: Keywords,
    receiver: Instance | Class | None,
    site: Site | None,
    *,
    forward: bool = False,
    entered: Entered | None = None,
) -> Value:
    """Run a project function with these arguments; a call seen before gives its known result."""
    if not run.follow and site is not None:
        return UNKNOWN
    run.called.add(function.node)
    set_attributes.forget(run, receiver, (*args, *kwargs.values()))
    if site is not None and run.facts.called_from(function.node, site):
        run.modes.searches.clear()
    args, kwargs = [*function.given, *args], {**function.given_by_name, **kwargs}
    call = _Call(function, args, kwargs, receiver, site, forward, entered)
    if not _switches_grad_off(function):
        return _result(run, call)
    with run.without_grad():
        return _result(run, call)


def _result(run: RunState, call: _Call) -> Value:
    """The known result, that of the pass before within a recursion, or that of running it now."""
    key = call.key(run)
    if key not in run.results:
        if _is_too_deep(run, call):
            return UNKNOWN  # else what it gave in the pass before would grow in each pass
        steps = run.budget.used - run.begun
        node = call.function.node
        if key not in run.running and not run.ways.is_apart(node, call.receiver, steps):
            return _result_of_all(run, call._replace(entered=None))
        result = _of_body(run, call, key)
    else:
        result = _known(run, key)
    if call.entered is not None and key in run.left:
        set_attributes.take_up(run.frame, call.entered.name, run.left[key])
    return result


def _known(run: RunState, key: object) -> Value:
    """The result of a body that has run in this pass, which would write the same again."""
    run.note_written(run.wrote.get(key, set()))
    return run.results[key]


def _of_body(run: RunState, call: _Call, key: object) -> Value:
    """What the body gives; what it gave in the pass before where it is in progress already."""
    if key in run.running:
        run.recalled.add(key)
        return run.previous.get(key, UNKNOWN)
    run.running.add(key)
    try:
        with run.noting_writes(key):
            result = _run_body(run, call, key)
    finally:
        run.running.discard(key)
    known = run.previous.get(key, UNKNOWN)
    late = join(known, result) if run.settling and key in run.recalled else result
    # A trial knows nothing of those before it: that of the next pass recalls the same.
    if key in run.recalled and not run.trials and known != late:
        run.reads_change = True
    run.results[key], run.previous[key] = result, late
    _note_lists(run, call, result)
    return result


def _result_of_all(run: RunState, call: _Call) -> Value:
    """What a call gives that is taken together with others, and may be what those give."""
    key = call.joint_key(run)
    given = [*call.args, *call.kwargs.values()]
    all_calls, grown = run.ways.together(key, given)
    begun = key in run.running or (run.ways.bounds.once and key in run.results)
    if grown and begun:
        run.reads_change = True  # the body in progress, or that of this pass, has begun with less
    if key not in run.results or (grown and not run.ways.bounds.once):
        number = len(call.args)
        named = dict(zip(call.kwargs, all_calls.given[number:], strict=True))
        call = call._replace(args=all_calls.given[:number], kwargs=named)
        all_calls.gives(_of_body(run, call, key))
    elif key in run.results:
        _known(run, key)
    if all_calls.mixed and call.site is not None:
        run.facts.taken_together.setdefault(call.function.node, call.site)
    return run.results.get(key, run.previous.get(key, UNKNOWN))


def _note_lists(run: RunState, call: _Call, result: Value) -> None:
    """Note the lists that a function makes of the rows of all ranks: they hold those, too."""
    given = (a for one in (*call.args, *call.kwargs.values()) for a in one.of(Data))
    if any(a.form is Layout.GATHERED for a in given):
        run.of_all_ranks.update(a for a in result.of(Instance) if a.type == "list")


def _is_too_deep(run: RunState, call: _Call) -> bool:
    """Whether so many calls are in progress that this one is not followed."""
    same = [f for f in run.frames if f.runs is call.function.node and f.receiver is call.receiver]
    if len(run.frames) > _DEEPEST or len(same) >= _MOST_WITHIN_ITSELF:
        return True
    given = (*call.args, *call.kwargs.values()) if same else ()
    return any(sum(1 for _ in deep_atoms(one)) > _LARGEST for one in given)


def _run_body(run: RunState, call: _Call, key: object) -> Value:
    function, receiver = call.function, call.receiver
    scope = Scope(parent=function.scope)
    inside = call.forward or run.frames_forward()
    own = receiver if isinstance(receiver, Instance) else None
    kept = shared_objects.keeps_results(function)
    frame = Frame(function.module, scope, call.site, own, function.node, inside, kept)
    if attributes.is_static(function):
        receiver = None
    bind_parameters(run, function, call.args, call.kwargs, receiver, scope)
    with run.running_in(frame):
        _bind_further(run, function, call.kwargs, scope)
        if isinstance(function.node, cst.Lambda):
            return run.eval(function.node.body)
        if call.entered is not None:
            set_attributes.enter(frame, call.entered)
        if run.block(function.node.body):
            set_attributes.note_end(frame)
    if frame.left:
        run.left[key] = set_attributes.left(frame)
    return _returned(run, function, frame.returned or frame.returned_against)


def call_in(frame: FrameType) -> tuple[cst.CSTNode, Site] | None:
    """The function that a frame of Python's own stack runs, with its call; None for other frames.

    An error that has unwound the stack has left no other trace of the calls in progress.
    """
    call = frame.f_locals.get("call") if frame.f_code is _run_body.__code__ else None
    return (call.function.node, call.site) if call is not None and call.site else None


def _returned(run: RunState, function: Function, returned: list[Value]) -> Value:
    """The joined results; what a generator yields goes into one object that iterates them."""
    returned = [handmade_batches.returned(run, one, function) for one in returned]
    if function.node in function.module.structure.generators:
        made = run.instance(function.node, function.module, "generator")
        for one in returned:
            for atom in one.of(Tup):
                run.put(made, "*", join(*atom.items))
        return value(made)
    return definition_sites.forget_definition_sites(either(*returned))


def _switches_grad_off(function: Function) -> bool:
    decorators = function.node.decorators if type(function.node) is cst.FunctionDef else ()
    for decorator in decorators:
        target = decorator.decorator
        name = dotted(target.func if isinstance(target, cst.Call) else target) or ""
        if name.split(".")[-1] in ("no_grad", "inference_mode"):
            return True
    return False


def bind_parameters(
    run: RunState,
    function: Function,
    args: list[Value],
    kwargs: Keywords,
    receiver: Instance | Class | None,
    scope: Scope,
) -> None:
    """Bind arguments to a function's parameters; missing ones get their defaults."""
    params = function.node.params
    given = [value(receiver), *args] if receiver is not None else list(args)
    computes = _computes(function, args, kwargs)
    names = [*params.posonly_params, *params.params]
    for parameter in names:
        name = parameter.name.value
        if given or name in kwargs:
            scope.passes(name)
        if given:
            scope.names[name] = given.pop(0)
        else:
            scope.names[name] = _keyword(run, function, parameter, kwargs)
            if parameter.default is not None and name not in kwargs:
                _leave_out(run, name, receiver, scope, computes)
                if _is_chosen_by_calls(run, function, parameter, names.index(parameter)):
                    scope.passes(name)
    for parameter in params.kwonly_params:
        if parameter.name.value in kwargs:
            scope.passes(parameter.name.value)
        elif computes:
            scope.left_out.add(parameter.name.value)
        scope.names[parameter.name.value] = _keyword(run, function, parameter, kwargs)
    for parameter in (*names, *params.kwonly_params):
        name = parameter.name.value
        scope.names[name] = relative_ranks.rooted(scope.names[name], parameter)
    if isinstance(params.star_arg, cst.Param):
        scope.names[params.star_arg.name.value] = value(Tup(tuple(given)))


def _bind_further(run: RunState, function: Function, kwargs: Keywords, scope: Scope) -> None:
    """Bind ``**kwargs`` to a dictionary of this call's own."""
    collecting = function.node.params.star_kwarg
    if collecting is None:
        return
    extra = run.instance(collecting, function.module, "dict")
    known = {parameter.name.value for parameter in parameters(function.node)}
    for name, one in kwargs.items():
        if name == "**":
            run.put(extra, "*", named_parts.any_part(one))
        elif name not in known:
            run.put(extra, f"[{name!r}]", one)
    scope.names[collecting.name.value] = value(extra)


def _computes(function: Function, args: list[Value], kwargs: Keywords) -> bool:
    """Whether a call gives a function rows to compute something of, and not to train on them."""
    given = (atom for one in (*args, *kwargs.values()) for atom in one.atoms)
    if not any(isinstance(a, (Data, ReplicatedTensor)) for a in given):
        return False
    return function.node not in function.module.structure.holding_backward


def _is_chosen_by_calls(
    run: RunState, function: Function, parameter: cst.Param, position: int
) -> bool:
    """Whether a training function's flag is told by other calls: ``epoch(net, training=False)``.

    Then what leaves it out means its default, which is no setting.
    """
    flag = isinstance(parameter.default, cst.Name) and parameter.default.value in ("True", "False")
    node, structure = function.node, function.module.structure
    if not flag or not isinstance(node, cst.FunctionDef) or node not in structure.holding_backward:
        return False
    places = (parameter.name.value, position - (function.owner is not None))
    return any(
        (node.name.value, place) in file.structure.arguments_given
        for file in run.project.files
        for place in places
    )


def _leave_out(
    run: RunState, name: str, receiver: Instance | Class | None, scope: Scope, computes: bool
) -> None:
    """Note a parameter that is left to its default: of a loss, this is no setting.

    It is how the loss is computed unless told otherwise.
    """
    model = receiver if isinstance(receiver, Instance) and object_kinds.is_model(receiver) else None
    if model is not None and not computes:
        scope.passes_if(name, partial(criteria.is_criterion, run, model))
    elif model is not None and criteria.is_criterion(run, model):
        scope.passes(name)
    elif computes:
        scope.left_out.add(name)


def _keyword(run: RunState, function: Function, parameter: cst.Param, kwargs: Keywords) -> Value:
    name = parameter.name.value
    if name in kwargs:
        return kwargs[name]
    if parameter.default is None:
        return UNKNOWN
    default = function.defaults.get(name) or run.default(parameter.default)
    told = default.constant() is not ... and star_args.may_give_more(kwargs)
    return UNKNOWN if told else default
