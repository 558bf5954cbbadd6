"""Objects that the script makes and keeps: what making one means, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.batching import collating, handmade_batches, nested_batches
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import (
    container_layers,
    distributed,
    loader_settings,
    losses,
    made_dimensions,
    mode_switches,
    path_objects,
    side_effects,
)
from ddpify.understanding.libraries.actions import WRITING_METHODS
from ddpify.understanding.libraries.object_kinds import BARS, is_loader, is_model
from ddpify.understanding.libraries.runtime_names import SHARDED
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Number,
    Params,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


LOADER_ARGUMENTS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
    "pin_memory", "drop_last",
)  # fmt: skip
RETURNS_MODEL = frozenset(
    "to cuda cpu half double float bfloat16 type train eval apply requires_grad_ share_memory"
    " xpu to_empty compile".split()
)
MOVES = frozenset("to cuda cpu half double float bfloat16 type xpu".split())
_COLLECTIONS = frozenset(
    "builtins.list builtins.tuple builtins.set builtins.frozenset collections.deque"
    " collections.UserList collections.Counter".split()
)
_MODEL_METHODS = frozenset("parameters named_parameters state_dict load_state_dict".split())


def instantiated(
    run: RunState, node: cst.BaseExpression, made: Instance, args: list[Value], kwargs: Keywords
) -> None:
    """A project class was called: what that means if it is a model, a loader, an optimizer."""
    if is_model(made):
        run.facts.models[made] = None
        run.facts.event(made, "make", run.site(node))
    if is_loader(made):
        _new_loader(run, made)
        loader_settings.note_class(run, node, made)
    if isinstance(made.type, Class) and any(
        base.startswith("torch.optim.") and "lr_scheduler" not in base
        for base in made.type.library_bases()
    ):
        new_optimizer(run, node, made, [*args, *kwargs.values()])
    side_effects.downloads(run, node, made, kwargs)


def given_to_base(
    run: RunState, node: cst.BaseExpression, made: Instance, args: list[Value], kwargs: Keywords
) -> None:
    """Remember the arguments that a class without ``__init__`` passes to its library base."""
    bases = made.type.library_bases() if isinstance(made.type, Class) else ()
    for shown, one in argument_pairs(node, args, kwargs) if {*bases} & _COLLECTIONS else ():
        run.demand_held(shown, one, uses.A_KEPT_COLLECTION)
    _remember(run, made, LOADER_ARGUMENTS, args, kwargs)


def _remember(
    run: RunState, made: Instance, names: Iterable[str], args: list[Value], kwargs: Keywords
) -> None:
    for name, one in [*zip(names, args, strict=False), *kwargs.items()]:
        run.give(made, name, one)


def _new_loader(run: RunState, made: Instance) -> None:
    made.role = "loader"
    if made not in run.facts.loaders:
        run.facts.loaders.append(made)


def _owners(given: Value) -> Iterator[Instance]:
    """The models whose parameters are among what an optimizer is given."""
    for atom in deep_atoms(given):
        if isinstance(atom, Params):
            yield atom.owner
        elif isinstance(atom, Instance) and atom.type == "generator":
            yield from _owners(atom.elements)
        elif isinstance(atom, Instance) and is_model(atom):
            yield atom  # a layer's own parameter, as in ``layer.weight``


def new_optimizer(
    run: RunState, node: cst.BaseExpression, made: Instance, given: list[Value]
) -> None:
    """An object that steps the parameters among what it was given."""
    made.role = "optimizer"
    if made not in run.facts.optimizers:
        run.facts.optimizers.append(made)
    trains(run, node, made, given)


def trains(
    run: RunState, node: cst.BaseExpression, optimizer: Instance, given: list[Value]
) -> None:
    """An optimizer is told of parameters, when it is made or later."""
    owners = dict.fromkeys(owner for g in given for owner in _owners(g))
    for owner in owners:
        run.facts.event(owner, "optimize", run.site(node))
    for rows in (a for g in given for a in deep_atoms(g) if isinstance(a, Data)):
        run.facts.gradients.trained_rows.update(dict.fromkeys(rows.names, run.site(node)))
    known = optimizer.arguments.get("params", UNKNOWN)
    optimizer.arguments["params"] = join(known, *(value(Params(owner)) for owner in owners))


_PARAMETER = re.compile(
    r"(weight|bias)(_(ih|hh)(_l\d+(_reverse)?)?|_[gv]|_orig)?|in_proj_(weight|bias)|bias_[kv]"
)
NAMESPACE = "types.SimpleNamespace"
_KNOWN_MODEL_METHODS = (
    RETURNS_MODEL
    | _MODEL_METHODS
    | WRITING_METHODS
    | frozenset(
        "children modules named_children named_modules buffers named_buffers zero_grad forward"
        " __call__ register_forward_hook register_forward_pre_hook register_full_backward_hook"
        " register_full_backward_pre_hook register_backward_hook register_hook"
        " register_post_accumulate_grad_hook get_parameter add_module generate no_sync join"
        " register_comm_hook clip_grad_norm_ set_requires_gradient_sync save"
        " from_pretrained".split()
    )
)


def instance_attribute(
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str
) -> Value | None:
    """Attributes that library objects are known to have; None for a method."""
    if is_loader(atom):
        if name in LOADER_ARGUMENTS:
            return atom.arguments.get(name) or REPLICATED
        return None
    if atom.type == "argparse.Namespace":
        return value(Number((atom, name)))
    if atom.type == NAMESPACE:
        return atom.attribute("*")  # by a name that was not seen
    if atom.type in BARS and name in ("n", "total", "desc", "format_dict"):
        return REPLICATED
    if name == "training" and is_model(atom):
        mode = mode_switches.of_layer(run, node, atom)
        return None if mode is None else value(Const(mode))
    if atom.type == path_objects.PATH:
        return path_objects.attribute(run, node, atom, name)
    held = distributed.held_model(atom)
    if held is not None and name == "module":
        return held
    if is_model(atom) and name == "_modules":
        return _by_name(run, node, atom)
    if is_model(atom) and name == "_parameters":
        return generator(run, node, value(Params(atom)))
    if is_model(atom) and name == "module":
        run.facts.runtime.unwraps.setdefault(node, run.site(node))
        return value(atom)  # what a DataParallel wrapper holds
    in_place = name.endswith("_") and not name.startswith("_")  # of a tensor: weight.mul_()
    known = in_place or name in _KNOWN_MODEL_METHODS or container_layers.adds(atom, name)
    known = known or container_layers.gives_layers(atom, name)
    if isinstance(atom.type, Class) and losses.is_option(name):
        return _option_of_a_loss(atom, name)
    if is_model(atom) and _PARAMETER.fullmatch(name):  # of what ``modules()`` gave, one of its
        ndim = made_dimensions.of_parameter(container_layers.kind_of(atom), name)
        return value(Params(atom, ndim))
    if is_model(atom) and isinstance(atom.type, str) and not known:
        layer = container_layers.at(atom, f"[{name!r}]") if run.frames_forward() else None
        return layer or value(atom)  # a layer of a library model counts as the model
    return None


def _option_of_a_loss(atom: Instance, name: str) -> Value | None:
    """``self.reduction`` of a project's class that derives from a loss, and is made as that is."""
    assert isinstance(atom.type, Class)
    derived = any(losses.is_module(base) for base in atom.type.library_bases())
    by_position = isinstance(atom.site, cst.Call) and any(a.keyword is None for a in atom.site.args)
    if not derived or by_position or atom.type.find("__init__") is not None:
        return None
    return atom.arguments.get(name) or losses.default(name)


def _by_name(run: RunState, node: cst.BaseExpression, model: Instance) -> Value:
    """A model's layers, as a dictionary."""
    made = run.instance(node, run.module, "dict")
    run.put(made, "*", container_layers.own_of(run, node, model))
    return value(made)


def option(atom: Instance, name: str, held: Value) -> Value:
    """What an option of the command line may be; a number is known for that option."""
    setting = Number((atom, name))
    return value(*(setting if one == Number() else one for one in held.atoms))


def generator(run: RunState, node: cst.BaseExpression, element: Value) -> Value:
    """An object that a loop gets ``element`` from in each round."""
    made = run.instance(node, run.module, "generator")
    run.put(made, "*", element)
    return value(made)


def item(atom: Instance) -> Value:
    """``object[...]`` of a library object."""
    if atom.type == "generator":
        return atom.elements
    return atom.elements or REPLICATED


def iterate(run: RunState, node: cst.BaseExpression, atom: Instance) -> Value:
    """What a loop over a library or project object gets."""
    if is_loader(atom):
        run.facts.loading.iterated.add(atom)
        _run_samplers(run, node, atom)
        if _is_replicated(run, atom):
            return REPLICATED
        known = collating.yielded(run, node, atom) or nested_batches.yielded(atom)
        unknown = Data(Placement.SHARD, frozenset({atom}), form=Layout.BATCH, one_each=True)
        return known or value(unknown)
    if atom.type in BARS:
        shown = atom.attribute("iterable") is not None
        return run.iterate(node, value(*_shown(atom, set())) if shown else REPLICATED)
    if is_model(atom):
        return container_layers.own_of(run, node, atom)
    if isinstance(atom.type, Class):
        found = atom.type.find("__iter__")
        if found is not None:
            bound = [Bound(atom, f) for f in found.of(Function)]
            produced = run.call(node, value(*bound), [], {})
            if any(a is not atom for a in produced.atoms):
                return run.iterate(node, produced)
        advance = atom.type.find("__next__")
        if advance is not None:
            bound = [Bound(atom, f) for f in advance.of(Function)]
            return run.call(node, value(*bound), [], {})
    if not atom.attributes and isinstance(atom.type, str) and "." in atom.type:
        return handmade_batches.yielded(run)
    return atom.elements if atom.attributes else REPLICATED


def _shown(bar: Instance, seen: set[Instance]) -> Iterator[Atom]:
    """What a progress bar goes through; ``loader = tqdm(loader)`` in a loop is around itself."""
    seen.add(bar)
    held = bar.attribute("iterable")
    for one in held.atoms if held is not None else ():
        if not isinstance(one, Instance) or one.type not in BARS:
            yield one
        elif one not in seen:
            yield from _shown(one, seen)


def _run_samplers(run: RunState, node: cst.BaseExpression, loader: Instance) -> None:
    """A loader goes through its sampler, which may draw and seed as it likes."""
    for name in ("sampler", "batch_sampler"):
        for one in loader.arguments.get(name, UNKNOWN).of(Instance):
            if isinstance(one.type, Class):
                with run.in_collate():
                    run.iterate(node, value(one))


def _is_replicated(run: RunState, loader: Instance) -> bool:
    """Whether a loader is replicated, by decision or as the script says."""
    stated = run.choices.stated and run.facts.runtime.shared.get(loader) != SHARDED
    return stated or loader.site in run.choices.replicated


def loaders_of(run: RunState, iterable: Value) -> frozenset[Instance]:
    """The loaders whose batches a loop over this gets."""
    atoms = iterable.of(Instance)
    return frozenset(loader for atom in atoms for loader in _loaders_of(run, atom))


def _loaders_of(run: RunState, atom: Instance) -> frozenset[Instance]:
    if atom.type in BARS:
        return loaders_of(run, value(*_shown(atom, set())))
    return frozenset({atom}) if is_loader(atom) else run.over_loaders.get(atom, frozenset())


def replicated_loaders(run: RunState, iterable: Value) -> frozenset[Instance]:
    """Those of them that are replicated."""
    return frozenset(loader for loader in loaders_of(run, iterable) if _is_replicated(run, loader))


def passes_on(run: RunState, args: list[Value], result: Value) -> Value:
    """What ``enumerate()`` and its like give; noted where it goes through batches."""
    loaders = frozenset(loader for one in args for loader in loaders_of(run, one))
    if loaders:
        run.over_loaders |= dict.fromkeys(result.of(Instance), loaders)
    return result


def library_object(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A library object that is known by its class and arguments alone."""
    made = run.instance(node, run.module, name)
    _remember(run, made, (f"{i}" for i in range(99)), args, kwargs)
    return value(made)


def library_model(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A library's module; DataParallel and Sequential are as good as what they hold."""
    if name == "torch.nn.DataParallel":
        held = args[0] if args else kwargs.get("module", UNKNOWN)
        for atom in held.of(Instance):
            run.facts.event(atom, "parallel", run.site(node))
        return held
    made = library_object(run, node, name, args, kwargs)
    if run.frames_forward() and not run.collating and container_layers.draws_weights(name):
        run.facts.forwards.made_in_forward.setdefault(node, run.site(node))
    for atom in made.of(Instance):
        run.facts.models[atom] = None
        run.facts.event(atom, "make", run.site(node))
    return made


def data_loader(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A DataLoader, of PyTorch's or a library's that takes the same arguments."""
    made = run.instance(node, run.module, "torch.utils.data.DataLoader")
    _remember(run, made, LOADER_ARGUMENTS, args, kwargs)
    _new_loader(run, made)
    return value(made)


def bar(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A progress bar around what it goes through."""
    made = run.instance(node, run.module, name)
    iterable = args[0] if args else kwargs.get(BARS[name], REPLICATED)
    run.put(made, "iterable", iterable if BARS[name] else REPLICATED)
    run.effect("bar", node, name)
    return value(made)
