"""What calls into libraries do: PyTorch first of all, and what surrounds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import patterns, picked_views, row_writes, sequences
from ddpify.understanding.arithmetic.denominators import LossCall
from ddpify.understanding.batching import per_sample_lists, persistent_state, sample_totals
from ddpify.understanding.libraries import (
    distributions,
    functions,
    losses,
    made_dimensions,
    own_methods,
    path_objects,
    python_functions,
    random_numbers,
    replaced_functions,
    result_buffers,
    side_effects,
)
from ddpify.understanding.libraries.instances import (
    data_loader,
    library_model,
    library_object,
    new_optimizer,
)
from ddpify.understanding.libraries.object_kinds import (
    DATALOADERS,
    canonical,
    is_module_class,
)
from ddpify.understanding.libraries.opaque import foreign
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import REPLICATED, UNKNOWN, Data, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_COMPILED = ("torch.ops.",)  # whose last name is that of an overload, or what a project calls it
TENSOR_LIBRARIES = ("torch.", "numpy.", "einops.", "math.", "torchvision.ops.", "torch_scatter.")


def star_name(module: str, name: str) -> str | None:
    """The qualified name that a star import of a library binds to a name, where that is known."""
    full = canonical(f"{module}.{name}")
    known = full in functions.FUNCTIONS or full in DATALOADERS
    return full if known or module.split(".")[0] in ("torch", "torchvision") else None


def call(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """Call a library function or class by its qualified name."""
    if "out" not in kwargs:
        return _call(run, node, name, args, kwargs)
    made = result_buffers.are_made_for(run, node)
    given = {key: held for key, held in kwargs.items() if key != "out" or not made}
    result = _call(run, node, name, args, given)
    result_buffers.bind(run, node, result)
    return result


def _call(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    name = canonical(name)
    replaced = replaced_functions.call(run, node, name, args, kwargs)
    if replaced is not None:
        return replaced
    known = run.facts.library_calls.setdefault(name, {})
    if node not in known:
        known[node] = run.site(node)
    side_effects.acts(run, node, name, args, kwargs)
    random_numbers.one_by_one(run, node, name)
    if name in ("random.shuffle", "numpy.random.shuffle"):
        random_numbers.shuffled(run, node, "shuffle")
    short = name.rsplit(".", 1)[-1]
    _change(run, node, short, args, kwargs)
    of_samples = sample_totals.by_function(run, node, name, args)
    if of_samples is not None:
        return of_samples
    if sample_totals.makes_a_number(name):
        for one in args:
            per_sample_lists.take_all(run, one)
    handler = functions.FUNCTIONS.get(name)
    if handler is not None:
        return handler(run, node, args, kwargs)
    if name in own_methods.WRAPPING:
        return library_object(run, node, name, args, kwargs)
    if name.startswith("builtins.") or sample_totals.makes_a_number(name):
        return python_functions.builtin(run, node, short, args, kwargs)
    if losses.is_function(name):
        return losses.call(run, LossCall(node, short, args, kwargs))
    return _by_family(run, node, name, short, args, kwargs)


def _change(
    run: RunState, node: cst.BaseExpression, short: str, args: list[Value], kwargs: Keywords
) -> None:
    """Note what a function changes in place: its first argument, or what ``out=`` gives."""
    in_place = changes_values(short) or kwargs.get("inplace", REPLICATED).constant() is True
    if not in_place and "out" not in kwargs:
        return
    given = argument_pairs(node, args, kwargs)
    if in_place and given:
        picked_views.change(run, given[0][1], [shown for shown, _ in given[1:]])
        _change_all(run, short, *given[0])
        persistent_state.changed(run, given[0][1], given[1:])
    if "out" in kwargs:
        picked_views.change(run, kwargs["out"], [shown for shown, _ in given])
        written = [(shown, one) for shown, one in given if one is not kwargs["out"]]
        persistent_state.changed(run, kwargs["out"], written)


def _change_all(run: RunState, short: str, shown: cst.BaseExpression, held: Value) -> None:
    """A function that no table lists may change rows by others: it changes those of all ranks."""
    if rule_of(short) is not None or run.collating:
        return
    for data in held.data:
        if data.placement is Placement.SHARD:
            row_writes.write_into_all(run, shown, data)


def _by_family(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, name: str, short: str, args, kwargs
) -> Value:
    if name in DATALOADERS:
        return data_loader(run, node, args, kwargs)
    if name in path_objects.MAKERS:
        return library_object(run, node, path_objects.PATH, args, kwargs)
    if name.startswith(("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")):
        return library_object(run, node, name, args, kwargs)
    if name.startswith("torch.optim.") and short[:1].isupper():
        made = library_object(run, node, name, args, kwargs)
        for atom in made.of(Instance):
            new_optimizer(run, node, atom, [*args, *kwargs.values()])
        return made
    if name in _PARAMETERS:
        return _parameter(run, node, args, kwargs)
    if name in _OF_PARAMETERS:
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, f"{short}()")
    if is_module_class(name):
        return library_model(run, node, name, args, kwargs)
    if short == "from_pretrained" and name.startswith("torch.nn."):  # a layer of given weights
        return library_model(run, node, name.rpartition(".")[0], [], {})
    if sequences.is_function(name):
        return sequences.call(run, node, name, args, kwargs)
    if name.startswith("torch.nn.utils."):
        return REPLICATED
    if name.startswith(distributions.PREFIX) and _is_class_name(short):
        return distributions.made(run, node, name, args, kwargs)
    if name in _PROFILERS or (name.startswith("torch.") and _is_class_name(short)):
        return library_object(run, node, name, args, kwargs)
    if name in patterns.LAYERS:
        return library_object(run, node, name, args, kwargs)
    if name.startswith("torch.utils.data.") and short[:1].isupper():  # data sets and samplers
        return library_object(run, node, name, args, kwargs)
    if name.startswith(TENSOR_LIBRARIES) and not name.startswith(_COMPILED):
        made = tensor_function(run, node, name, short, args, kwargs)
        first = next((shown for shown, _ in argument_pairs(node, args, kwargs)), node)
        return picked_views.of_call(run, node, short, first, made)
    return foreign(run, node, name, args, kwargs)


def _parameter(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A parameter has the values of the tensor that it is made of; no batch made by hand is one."""
    if not any(isinstance(a, Data) for one in (*args, *kwargs.values()) for a in one.atoms):
        return made_dimensions.as_that_of(args[0] if args else UNKNOWN)
    return tensor_function(run, node, "torch.autograd.Variable", "Variable", args, kwargs)


_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer")
_OF_PARAMETERS = ("torch.nn.ParameterList", "torch.nn.ParameterDict")
_PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile")


def _is_class_name(short: str) -> bool:
    """Whether a PyTorch name is a class whose objects are no tensors."""
    tensors_ = short.endswith("Tensor") or short in ("Variable", "Parameter", "Size")
    return short[:1].isupper() and not tensors_
