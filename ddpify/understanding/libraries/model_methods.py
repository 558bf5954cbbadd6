"""Methods of models and of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import batch_layers, handmade_batches, model_inputs
from ddpify.understanding.libraries import (
    container_layers,
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
from ddpify.understanding.libraries.opaque import call_unknown, opaque
from ddpify.understanding.libraries.tensor_methods import of_plain
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Instance,
    Number,
    Params,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def of_model(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    """A method that models have, or one of the script's library."""
    if container_layers.adds(atom, name) and args:
        run.put(atom, "*", args[-1])
        return value(atom)
    if mode_switches.is_other_method(name, [*args, *kwargs.values()]):
        return call_unknown(run, node, args, kwargs)
    if name in RETURNS_MODEL:
        if name in MOVES:
            side_effects.moved(run, node, args, kwargs)
            run.facts.event(atom, "move", run.site(node))
        elif name == "requires_grad_":
            run.facts.event(atom, "change", run.site(node))
        elif name in ("train", "eval"):
            mode_switches.switched(run, node, atom, name, [*args, *kwargs.values()])
        return value(atom)
    if name == "from_pretrained" and atom.kind.startswith("torch.nn."):
        return library_model(run, node, atom.kind, [], {})
    if name == "parameters":
        return value(Params(atom))
    if name == "named_parameters":
        return generator(run, node, value(Tup((REPLICATED, value(Params(atom))))))
    if name in ("modules", "buffers"):
        return value(atom)
    if name == "children":
        return container_layers.own_of(run, node, atom)
    if name == "load_state_dict":
        run.facts.event(atom, "load", run.site(node))
        return REPLICATED
    if name in ("named_modules", "named_children"):
        found = (
            container_layers.own_of(run, node, atom) if name == "named_children" else value(atom)
        )
        return generator(run, node, value(Tup((REPLICATED, found))))
    if name == "add_module" or (name == "__init__" and container_layers.is_of_several(atom)):
        for number, one in enumerate(args):
            run.give(atom, f"{name} {number}", one)
    if name in ("state_dict", "zero_grad", "add_module"):
        return REPLICATED
    if name == "register_buffer" and args:
        _register_buffer(run, atom, args[0].constant())
    if name in ("__init__", "register_buffer", "register_parameter"):
        return REPLICATED
    if name in WRITING_METHODS or name == "save":
        side_effects.acts_method(run, node, atom, name, args, kwargs)
        return REPLICATED
    _note_hook(run, node, name)
    if name in sample_hooks.OF_LAYERS:
        sample_hooks.of_layer(run, node, name, args[0] if args else UNKNOWN)
        return REPLICATED
    if name in ("forward", "__call__"):
        run.facts.event(atom, "bypass", run.site(node), gradient=not run.no_grad)
        args, kwargs = model_inputs.entered(run, node, atom, args, kwargs)
    batch_layers.inherited(run, atom, args)
    return opaque(run, node, atom, args, kwargs)


def _register_buffer(run: RunState, model: Instance, name: object) -> None:
    if isinstance(name, str):
        run.put(model, name, REPLICATED)
        run.facts.buffers.add((model, name))


def _note_hook(run: RunState, node: cst.BaseExpression, name: str) -> None:
    """Of a parameter, or of a layer that stands for its own (``layer.weight``)."""
    if name == "register_hook":
        run.facts.gradients.gradient_hooks.setdefault(node, run.site(node))
    if name == "register_post_accumulate_grad_hook":
        run.facts.gradients.accumulation_hooks.setdefault(node, run.site(node))


def of_parameters(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Params, name: str, args, kwargs
) -> Value:
    """A method of a model's parameters, or of one of them."""
    if name == "new" or name.startswith("new_"):  # a tensor of their kind, not one of them
        made = handmade_batches.made(run, name)
        return made or of_plain(run, node, Number(), name, args, kwargs)
    _note_hook(run, node, name)
    if name == "requires_grad_":
        set_there = node.func if isinstance(node, cst.Call) else node
        run.facts.event(atom.owner, "change", run.site(set_there))
    return value(atom)
