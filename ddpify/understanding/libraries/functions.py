"""Functions of PyTorch and of other libraries that are known one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import training_modes
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import gradients
from ddpify.understanding.batching import collating, handmade_batches, named_parts
from ddpify.understanding.libraries import (
    default_dicts,
    distributed,
    distributions,
    iterator_tools,
    loaded_files,
    lookup_by_name,
    made_callables,
    named_tuples,
    opaque,
    operator_functions,
    optimizer_makers,
    partial_calls,
    progress_bars,
    recomputing,
    runtime_calls,
    side_effects,
    tensor_methods,
    vectorised,
)
from ddpify.understanding.libraries.clocks import READINGS
from ddpify.understanding.libraries.instances import NAMESPACE
from ddpify.understanding.libraries.object_kinds import NO_GRAD, is_model
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Instance,
    Params,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def _data_parallel(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """``data_parallel(model, inputs)``: what the model gives."""
    given = args[1] if len(args) > 1 else kwargs.get("inputs", UNKNOWN)
    items = [list(a.items) for a in given.atoms if isinstance(a, Tup)]
    model = args[0] if args else kwargs.get("module", UNKNOWN)
    return run.call(node, model, items[0] if items else [given], {})


def _device(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return value(
        *side_effects.devices(args[0] if args else kwargs.get("device", UNKNOWN), args[1:])
    )


def _deepcopy(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A copy of a model is another model."""
    copies = []
    for atom in args[0].atoms if args else ():
        if isinstance(atom, Instance) and is_model(atom):
            twin = run.instance(node, run.module, atom.type)
            twin.hold_all(atom.attributes, atom.arguments)
            twin.role = atom.role
            copies.append(twin)
        else:
            copies.append(atom)  # type: ignore[arg-type]
    return join(value(*copies)) if copies else UNKNOWN


def _averaged(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """``AveragedModel(model)``: a model that holds a copy of another one."""
    made = run.instance(node, run.module, "torch.optim.swa_utils.AveragedModel")
    made.role = "model"
    copied = args[:1] or [kwargs.get("model", UNKNOWN)]
    made.hold("module", _deepcopy(run, node, copied, {}))
    run.facts.models[made] = None
    run.facts.event(made, "make", run.site(node))
    return value(made)


def _update_bn(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """``update_bn(loader, model)``: the model goes over the batches in training mode."""
    model = args[1] if len(args) > 1 else kwargs.get("model", UNKNOWN)
    for atom in model.of(Instance):
        if isinstance(atom, Instance) and is_model(atom):
            training_modes.switch(run.facts, run.site(node), atom, True, surely=False)
            run.facts.forwards.row_calls.setdefault(atom, True)
    return value(Const(None))


def _no_grad_object(name: str) -> Callable[..., Value]:
    def make(run, node, args, kwargs) -> Value:  # type: ignore[no-untyped-def]
        return value(run.instance(node, run.module, name))

    return make


def _set_grad(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    off = bool(args) and args[0].constant() is False
    return value(run.instance(node, run.module, NO_GRAD[0] if off else "torch.enable_grad"))


def _autograd_grad(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """``torch.autograd.grad(outputs, inputs)``; of parameters, they pass by what averages them."""
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs", UNKNOWN)
    outputs = args[0] if args else kwargs.get("outputs", UNKNOWN)
    generated = (made.elements for made in inputs.of(Instance) if made.kind == "generator")
    if any(_is_of_a_model(atom) for one in (inputs, *generated) for atom in deep_atoms(one)):
        gradients.of_parameters(run, node, outputs, inputs, kwargs)
    else:
        gradients.of_replicated(run, node, inputs)
    handmade_batches.meet(run, argument_pairs(node, args, kwargs)[:2], surely=True)
    known = gradients.of_inputs(run, node, outputs, inputs)
    if known is not None:
        return known
    gradients.of_others(run, node, outputs, inputs, kwargs)
    result = tensor_function(run, node, "torch.autograd.grad", "grad", args, kwargs)
    return gradients.beside_reduced(inputs, result)


def _is_of_a_model(atom: Atom) -> bool:
    """Whether a value is a model's parameter: a layer also stands for its own, as ``.weight``."""
    return isinstance(atom, Params) or (isinstance(atom, Instance) and is_model(atom))


def _autograd_backward(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    operands = argument_pairs(node, args, kwargs)
    return tensor_methods.backward(run, node, *operands[0]) if operands else UNKNOWN


def _amp(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``amp.initialize(model, optimizer)`` gives back what it gets."""
    given = [*args, *(kwargs[name] for name in ("models", "optimizers") if name in kwargs)]
    return value(Tup(tuple(given[:2]))) if len(given) > 1 else join(*given)


def _load(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return loaded_files.out_of_file(run, node)


def _given_back(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """What gives its first argument back, as ``torch.compile(model)`` does."""
    return args[0] if args else UNKNOWN


def _cast(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``typing.cast(kind, x)`` is `x`."""
    return args[1] if len(args) > 1 else kwargs.get("val", UNKNOWN)


def _divergence(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """``kl_divergence(q, p)``: one for each row that the distributions were made with."""
    return distributions.divergence(run, [*args, *kwargs.values()]) or REPLICATED


def _changed_layer(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """What changes a layer's parameters, as ``spectral_norm(layer)`` does, and gives it back."""
    layer = args[0] if args else kwargs.get("module", UNKNOWN)
    for atom in layer.of(Instance):
        if is_model(atom):
            run.facts.event(atom, "change", run.site(node))
    return layer


_CHANGING = {
    "torch.nn.utils": "spectral_norm weight_norm remove_spectral_norm remove_weight_norm",
    "torch.nn.utils.parametrizations": "spectral_norm weight_norm orthogonal",
    "torch.nn.utils.parametrize": "register_parametrization remove_parametrizations",
    "torch.nn.utils.prune": "l1_unstructured random_unstructured ln_structured remove identity",
}


def _reading(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """What a clock says is a number, and no object of its own at each place that reads it."""
    return REPLICATED


DEFAULT_COLLATE = (
    "torch.utils.data.default_collate",
    "torch.utils.data.dataloader.default_collate",
    "torch.utils.data._utils.collate.default_collate",
)


def _put_together(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """PyTorch's own collate function, called on samples or on what has one of each."""
    given = args[0] if args else UNKNOWN
    known = collating.put_together(given)
    return known or opaque.opaque(run, node, None, args, kwargs)


def _simple_namespace(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """An object that has what it is given as its attributes."""
    made = run.instance(node, run.module, NAMESPACE)
    for name, given in kwargs.items():
        if name == "**":
            run.put(made, "*", named_parts.any_part(given))
        else:
            run.put(made, name, given)
    return value(made)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(READINGS, _reading),
    **{
        f"{module}.{name}": _changed_layer
        for module, names in _CHANGING.items()
        for name in names.split()
    },
    "torch.device": _device,
    "torch.optim.swa_utils.AveragedModel": _averaged,
    "torch.optim.swa_utils.update_bn": _update_bn,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _deepcopy,
    "torch.distributions.kl_divergence": _divergence,
    "torch.distributions.kl.kl_divergence": _divergence,
    "torch.set_grad_enabled": _set_grad,
    "torch.autograd.backward": _autograd_backward,
    "torch.autograd.grad": _autograd_grad,
    "torch.load": _load,
    "importlib.import_module": lookup_by_name.import_module,
    "torch.nn.parallel.data_parallel": _data_parallel,
    **dict.fromkeys(optimizer_makers.NAMES, optimizer_makers.made),
    "apex.amp.initialize": _amp,
    "apex.amp.scale_loss": _given_back,
    "apex.parallel.convert_syncbn_model": _given_back,
    **iterator_tools.OF_ITERABLES,
    **progress_bars.FUNCTIONS,
    "collections.defaultdict": default_dicts.made,
    "collections.namedtuple": named_tuples.made,
    "functools.partial": partial_calls.made,
    **made_callables.FUNCTIONS,
    **operator_functions.FUNCTIONS,
    "types.SimpleNamespace": _simple_namespace,
    "typing.cast": _cast,
    **dict.fromkeys(("torch.vmap", "torch.func.vmap", "functorch.vmap"), vectorised.made),
    "torch.utils.checkpoint.checkpoint": recomputing.called,
    **dict.fromkeys(DEFAULT_COLLATE, _put_together),
    "torch.compile": _given_back,
    "torch.jit.script": _given_back,
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _given_back,
    **distributed.FUNCTIONS,
    **runtime_calls.FUNCTIONS,
    **{name: _no_grad_object(name) for name in (*NO_GRAD, "torch.enable_grad")},
}
