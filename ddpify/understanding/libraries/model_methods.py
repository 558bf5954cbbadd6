"""Methods of models and of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.batching import batch_layers, model_inputs
from ddpify.understanding.libraries import (
    container_layers,
    layer_calls,
    made_dimensions,
    mode_switches,
    sample_hooks,
    side_effects,
)
from ddpify.understanding.libraries.actions import WRITING_METHODS
from ddpify.understanding.libraries.instances import (
    MOVES,
    RETURNS_MODEL,
    generator,
    library_model,
)
from ddpify.understanding.libraries.opaque import opaque
from ddpify.understanding.libraries.tensor_methods import (
    backward,
    like_another,
    of_plain,
    receiver_of,
)
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Data,
    Instance,
    Number,
    Params,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_SETTING_UP = frozenset(
    "__init__ add_module load_state_dict register_buffer register_parameter state_dict"
    " zero_grad".split()
)


# What numbers, or an array, are made of a parameter by: these are none.
_READING = frozenset(
    "item tolist numpy numel nelement size dim norm sum mean std var max min amax amin prod median"
    " all any argmax argmin".split()
)


@record
class _Call:
    """A call of a method of a model."""

    run: RunState
    node: cst.BaseExpression
    model: Instance
    name: str
    args: list[Value]
    kwargs: Keywords

    @property
    def given(self) -> list[Value]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()]

    def note(self, kind: str) -> None:
        """Note what happens to the model here."""
        self.run.facts.event(self.model, kind, self.run.site(self.node))


def of_model(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    """A method that models have, or one of the script's library."""
    if container_layers.adds(atom, name) and args:
        run.put(atom, "*", args[-1])
        run.facts.event(atom, "change", run.site(node))
        return value(atom)
    call = _Call(run, node, atom, name, args, kwargs)
    if mode_switches.is_other_method(name, call.given):
        return opaque(run, node, None, args, kwargs)
    known = first_answer((_itself, _parts, _layers, _pretrained, _set_up, _written), call)
    return _opaque(call) if known is None else known


def _itself(call: _Call) -> Value | None:
    """What gives the model back, on another device perhaps or in another mode."""
    if call.name not in RETURNS_MODEL:
        return None
    if call.name in MOVES:
        side_effects.moved(call.run, call.node, call.args, call.kwargs)
        call.note("move")
    elif call.name == "requires_grad_":
        call.note("change")
    elif call.name in ("train", "eval"):
        mode_switches.switched(call.run, call.node, call.model, call.name, call.given)
    return value(call.model)


def _parts(call: _Call) -> Value | None:
    """Its parameters, buffers and layers, with or without their names."""
    run, node, model, name = call.run, call.node, call.model, call.name
    if name == "get_parameter":
        return value(Params(model))
    kind = name.removeprefix("named_")
    if name == "named_buffers" or kind not in ("parameters", "modules", "buffers", "children"):
        return None
    if kind == "children":
        found = container_layers.own_of(run, node, model)
    else:
        found = value(Params(model) if kind == "parameters" else model)
    return found if kind == name else _named(call, found)


def _named(call: _Call, found: Value) -> Value:
    return generator(call.run, call.node, value(Tup((REPLICATED, found))))


def _layers(call: _Call) -> Value | None:
    """What a dictionary or a list of layers gives: any of them, for which it stands itself."""
    if not container_layers.gives_layers(call.model, call.name):
        return None
    found = value(call.model)
    return _named(call, found) if call.name == "items" else found


def _pretrained(call: _Call) -> Value | None:
    """One of PyTorch's classes, with weights that are loaded."""
    if call.name != "from_pretrained" or not call.model.kind.startswith("torch.nn."):
        return None
    return library_model(call.run, call.node, call.model.kind, [], {})


def _set_up(call: _Call) -> Value | None:
    """What puts something into the model."""
    run, model, name, args = call.run, call.model, call.name, call.args
    if name == "load_state_dict":
        call.note("load")
    if name == "add_module" or (name == "__init__" and container_layers.is_of_several(model)):
        for number, one in enumerate(args):
            run.give(model, f"{name} {number}", one)
    if name == "register_buffer" and args:
        _register_buffer(call, args[0].constant())
    return REPLICATED if name in _SETTING_UP else None


def _written(call: _Call) -> Value | None:
    run, node, name = call.run, call.node, call.name
    if name not in WRITING_METHODS and name != "save":
        return None
    side_effects.acts_method(run, node, call.model, name, call.args, call.kwargs)
    return REPLICATED


def _opaque(call: _Call) -> Value:
    """A forward, a hook, or what its library does."""
    run, node, model, name = call.run, call.node, call.model, call.name
    args, kwargs = call.args, call.kwargs
    _note_hook(run, node, name)
    if name in sample_hooks.OF_LAYERS:
        sample_hooks.of_layer(run, node, name, args[0] if args else UNKNOWN, model)
        return REPLICATED
    if name in ("forward", "__call__"):
        run.facts.event(model, "bypass", run.site(node), gradient=not run.no_grad)
        args, kwargs = model_inputs.entered(run, node, model, args, kwargs)
        if container_layers.kind_of(model) not in ("", "torch.nn.Module"):
            return layer_calls.call(run, node, model, args, kwargs)
    batch_layers.inherited(run, model, args)
    return opaque(run, node, model, args, kwargs)


def _register_buffer(call: _Call, name: object) -> None:
    """A buffer is the same on all ranks: what it is made of in a forward is that of all samples."""
    for shown, one in argument_pairs(call.node, call.args, call.kwargs)[1:]:
        call.run.demand_held(shown, one, uses.A_KEPT_COLLECTION)
    if isinstance(name, str):
        made_of = call.args[1] if len(call.args) > 1 else UNKNOWN
        call.run.put(call.model, name, made_dimensions.as_that_of(made_of))
        call.run.facts.buffers.add((call.model, name))


def _note_hook(run: RunState, node: cst.BaseExpression, name: str) -> None:
    """Of a parameter, or of a layer that stands for its own (``layer.weight``)."""
    if name == "register_hook":
        run.facts.gradients.gradient_hooks.setdefault(node, run.site(node))
    if name == "register_post_accumulate_grad_hook":
        run.facts.gradients.accumulation_hooks.setdefault(node, run.site(node))


def _have_parts(given: list[Value]) -> bool:
    return any(isinstance(atom, Data) for one in given for atom in deep_atoms(one))


def of_parameters(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Params, name: str, args, kwargs
) -> Value:
    """A method of a model's parameters, or of one of them."""
    if name == "new" or name.startswith("new_"):  # a tensor of their kind, not one of them
        return like_another(run, node, name, args, kwargs)
    read = name in _READING or _have_parts([*args, *kwargs.values()])
    if name not in MOVES and read:
        return of_plain(run, node, Number(ndim=atom.ndim or None), name, args, kwargs)
    if name == "backward":
        return backward(run, node, receiver_of(node), REPLICATED)
    _note_hook(run, node, name)
    if name == "requires_grad_":
        set_there = node.func if isinstance(node, cst.Call) else node
        run.facts.event(atom.owner, "change", run.site(set_there))
    return value(replace(atom, ndim=dimensions.after(name, atom.ndim, args)))
