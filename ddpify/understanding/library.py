"""What calls into libraries do: PyTorch first of all, and what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import (
    batch_layers,
    batch_rows,
    batch_sizes,
    batches,
    calls,
    dimensions,
    distributed,
    expressions,
    losses,
    tensors,
    world,
)
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
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
    Method,
    Number,
    Params,
    Super,
    Tup,
    Value,
    Whole,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

Keywords = dict[str, Value]

NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
DATALOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "monai.data.DataLoader",
    }
)
LOADER_ARGUMENTS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
    "pin_memory", "drop_last",
)  # fmt: skip
BARS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.trange", "tqdm.auto.trange")
TENSOR_LIBRARIES = ("torch.", "numpy.", "einops.", "math.", "torchvision.ops.", "torch_scatter.")
_ALIASES = {
    **distributed.ALIASES,
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "tqdm.autonotebook.tqdm": "tqdm.auto.tqdm",
}
_RETURNS_MODEL = frozenset(
    "to cuda cpu half double float bfloat16 type train eval apply requires_grad_ share_memory"
    " xpu to_empty compile".split()
)
_MOVES = frozenset("to cuda cpu half double float bfloat16 type xpu".split())
_MODEL_METHODS = frozenset("parameters named_parameters state_dict load_state_dict".split())
_STRING_METHODS = frozenset(
    "format join strip split replace startswith endswith ljust rjust center zfill encode".split()
)
_READS = frozenset("float int str repr bool abs round format complex hash ascii".split())


# ---------------------------------------------------------------------- names and kinds
def canonical(name: str) -> str:
    """One name for things that libraries export under several."""
    return _ALIASES.get(name, name)


def star_name(module: str, name: str) -> str | None:
    """The qualified name that a star import of a library binds to a name, where that is known."""
    full = canonical(f"{module}.{name}")
    known = full in _FUNCTIONS or full in BARS or full in DATALOADERS
    return full if known or module.split(".")[0] in ("torch", "torchvision") else None


def is_model(instance: Instance) -> bool:
    """Whether an object is an ``nn.Module``, by what its class derives from or what it does."""
    if instance.role is not None:
        return instance.role == "model"
    if isinstance(instance.type, Class):
        return any(_is_module_class(base) for base in instance.type.library_bases())
    return _is_module_class(instance.type)


@cache
def _is_module_class(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    if name.startswith(("torch.nn.functional.", "torch.nn.utils.", "torch.nn.init.")):
        return False
    if name.startswith(("torch.nn.", "torchvision.models.")):
        return last not in ("Parameter", "ParameterList") and (
            last[:1].isupper() or name.startswith("torchvision.models.")
        )
    return last in ("PreTrainedModel", "LightningModule", "MessagePassing")


def is_loss(instance: Instance) -> bool:
    """Whether an object is one of PyTorch's losses."""
    return isinstance(instance.type, str) and losses.is_module(instance.type)


def is_criterion(instance: Instance) -> bool:
    """Whether a module of the project only computes: no layer and no parameter of its own.

    Losses are written so. Other than a model's forward, they may mix the samples of a batch.
    """
    if not isinstance(instance.type, Class) or _has_parameters(instance.type.node):
        return False
    held = (atom for one in instance.attributes.values() for atom in deep_atoms(one))
    return not any(isinstance(a, Instance) and is_model(a) and not is_loss(a) for a in held)


@cache
def _has_parameters(node: cst.ClassDef) -> bool:
    calls = (n.func for n in walk(node) if isinstance(n, cst.Call))
    names = {(dotted(func) or "").rsplit(".", 1)[-1] for func in calls}
    return bool(names & {"Parameter", "register_parameter", "ParameterList"})


def is_loader(instance: Instance) -> bool:
    """Whether an object is a DataLoader or derives from it."""
    if isinstance(instance.type, Class):
        return any(base in DATALOADERS for base in instance.type.library_bases())
    return instance.type in DATALOADERS


# ---------------------------------------------------------------------- instances
def instantiated(
    run: Interpreter, node: cst.BaseExpression, made: Instance, args: list[Value], kwargs: Keywords
) -> None:
    """A project class was called: what that means if it is a model, a loader, an optimizer."""
    if is_model(made):
        run.facts.models[made] = None
        run.facts.event(made, "make", run.site(node))
    if is_loader(made):
        _new_loader(run, made)
    if isinstance(made.type, Class) and any(
        base.startswith("torch.optim.") and "lr_scheduler" not in base
        for base in made.type.library_bases()
    ):
        _new_optimizer(run, node, made, [*args, *kwargs.values()])
    world.downloads(run, node, made, kwargs)


def given_to_base(made: Instance, args: list[Value], kwargs: Keywords) -> None:
    """Remember the arguments that a class without ``__init__`` passes to its library base."""
    _remember(made, LOADER_ARGUMENTS, args, kwargs)


def _remember(made: Instance, names: Iterable[str], args: list[Value], kwargs: Keywords) -> None:
    for name, one in [*zip(names, args, strict=False), *kwargs.items()]:
        made.arguments[name] = join(made.arguments.get(name, UNKNOWN), one)


def _new_loader(run: Interpreter, made: Instance) -> None:
    made.role = "loader"
    if made not in run.facts.loaders:
        run.facts.loaders.append(made)


def _new_optimizer(
    run: Interpreter, node: cst.BaseExpression, made: Instance, given: list[Value]
) -> None:
    made.role = "optimizer"
    if made not in run.facts.optimizers:
        run.facts.optimizers.append(made)
    owners = dict.fromkeys(a.owner for g in given for a in deep_atoms(g) if isinstance(a, Params))
    for owner in owners:
        run.facts.event(owner, "optimize", run.site(node))
    made.arguments["params"] = value(*(Params(owner) for owner in owners))


def instance_attribute(
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str
) -> Value | None:
    """Attributes that library objects are known to have; None for a method."""
    if is_loader(atom):
        if name in LOADER_ARGUMENTS:
            return atom.arguments.get(name) or REPLICATED
        return None
    if atom.type == "argparse.Namespace":
        return atom.attributes.get(name, REPLICATED)
    if atom.type in BARS and name in ("n", "total", "desc", "format_dict"):
        return REPLICATED
    held = distributed.held_model(atom)
    if held is not None and name == "module":
        return held
    if is_model(atom) and name == "module":
        run.facts.unwraps.setdefault(node, run.site(node))
        return value(atom)  # what a DataParallel wrapper holds
    if is_model(atom) and isinstance(atom.type, str) and name not in _KNOWN_MODEL_METHODS:
        return value(atom)  # a layer of a library model counts as the model
    return None


_KNOWN_MODEL_METHODS = (
    _RETURNS_MODEL
    | _MODEL_METHODS
    | frozenset(
        "children modules named_children named_modules buffers named_buffers zero_grad forward"
        " __call__ register_forward_hook get_parameter add_module generate no_sync join"
        " register_comm_hook clip_grad_norm_ set_requires_gradient_sync".split()
    )
)


def item(run: Interpreter, atom: Instance) -> Value:
    """``object[...]`` of a library object."""
    if atom.type == "generator":
        return atom.elements
    return atom.elements or REPLICATED


def iterate(run: Interpreter, node: cst.BaseExpression, atom: Instance) -> Value:
    """What a loop over a library or project object gets."""
    if is_loader(atom):
        run.facts.iterated.add(atom)
        if atom.site in run.choices.replicated:
            if run.frame.loops:
                run.frame.loops[-1].takes_whole = True
            return REPLICATED
        return value(Data(Placement.SHARD, frozenset({atom}), form="batch"))
    if atom.type in BARS:
        return expressions.iterate(run, node, atom.attributes.get("iterable", REPLICATED))
    if is_model(atom):
        return value(atom)
    if isinstance(atom.type, Class):
        found = atom.type.find("__iter__")
        if found is not None:
            bound = [Bound(atom, f) for f in found.of(Function)]  # type: ignore[arg-type]
            produced = run.call(node, value(*bound), [], {})
            if any(a is not atom for a in produced.atoms):
                return expressions.iterate(run, node, produced)
        advance = atom.type.find("__next__")
        if advance is not None:
            bound = [Bound(atom, f) for f in advance.of(Function)]  # type: ignore[arg-type]
            return run.call(node, value(*bound), [], {})
    if not atom.attributes and isinstance(atom.type, str) and "." in atom.type:
        return batches.yielded(run)
    return atom.elements if atom.attributes else REPLICATED


# ---------------------------------------------------------------------- calls
def call(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """Call a library function or class by its qualified name."""
    name = canonical(name)
    run.facts.library_calls.setdefault(name, {}).setdefault(node, run.site(node))
    world.acts(run, node, name, args, kwargs)
    handler = _FUNCTIONS.get(name)
    if handler is not None:
        return handler(run, node, args, kwargs)
    short = name.rsplit(".", 1)[-1]
    if name.startswith("builtins."):
        return _builtin(run, node, short, args, kwargs)
    if losses.is_function(name):
        return losses.call(run, node, short, args, kwargs)
    if name in BARS:
        return _bar(run, node, name, args, kwargs)
    return _by_family(run, node, name, short, args, kwargs)


def _by_family(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, name: str, short: str, args, kwargs
) -> Value:
    if name in DATALOADERS:
        return _data_loader(run, node, args, kwargs)
    if name.startswith(("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")):
        return _object(run, node, name, args, kwargs)
    if name.startswith("torch.optim.") and short[:1].isupper():
        made = _object(run, node, name, args, kwargs)
        for atom in made.of(Instance):
            _new_optimizer(run, node, atom, [*args, *kwargs.values()])  # type: ignore[arg-type]
        return made
    if _is_module_class(name):
        return _library_model(run, node, name, args, kwargs)
    if name.startswith("torch.nn.utils."):
        return REPLICATED
    if name.startswith("torch.") and _is_class_name(short):
        return _object(run, node, name, args, kwargs)
    if name.startswith("torch.utils.data.") and short[:1].isupper():  # data sets and samplers
        return _object(run, node, name, args, kwargs)
    if name.startswith(TENSOR_LIBRARIES):
        return _tensor_function(run, node, name, short, args, kwargs)
    return _foreign(run, node, name, args, kwargs)


def _is_class_name(short: str) -> bool:
    """Whether a PyTorch name is a class whose objects are no tensors."""
    tensors_ = short.endswith("Tensor") or short in ("Variable", "Parameter", "Size")
    return short[:1].isupper() and not tensors_


def _object(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    made = run.instance(node, run.module, name)
    _remember(made, (f"{i}" for i in range(99)), args, kwargs)
    return value(made)


def _library_model(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A library's module; DataParallel and Sequential are as good as what they hold."""
    if name == "torch.nn.DataParallel":
        held = args[0] if args else kwargs.get("module", UNKNOWN)
        for atom in held.of(Instance):
            run.facts.event(atom, "parallel", run.site(node))  # type: ignore[arg-type]
        return held
    made = _object(run, node, name, args, kwargs)
    for atom in made.of(Instance):
        run.facts.models[atom] = None  # type: ignore[index]
        run.facts.event(atom, "make", run.site(node))  # type: ignore[arg-type]
    return made


def _tensor_function(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, name: str, short: str, args, kwargs
) -> Value:
    operands = argument_pairs(node, args, kwargs)
    counts = [
        a
        for _, v in operands
        for a in deep_atoms(v)
        if isinstance(a, Data) and a.placement is Placement.COUNT
    ]
    if counts and name.startswith(("torch.", "numpy.random.")):
        return _sized(run, node, short, operands, counts)
    loaders = batch_sizes.sized_like(run, node) if short in batch_sizes.MAKING else None
    if loaders and run.module.editable:
        run.facts.draws.setdefault(node, run.site(node))
        return value(Data(Placement.SHARD, loaders))
    if short in ("cat", "concat", "concatenate", "stack", "hstack", "vstack"):
        joined = _concatenated(run, node, short, args, kwargs)
        return joined or batches.made(run, short) or REPLICATED
    rest = args[1:]
    involved = [(n, v) for n, v in operands if v.data]
    for _, held in operands:  # containers of tensors
        inner = [a for a in deep_atoms(held) if isinstance(a, Data) and a.placement.local]
        if inner and not held.data:
            involved.append((node, value(*inner)))
    by_hand = _on_batches(run, short, operands, kwargs)
    if by_hand is not None and not involved:
        return by_hand
    if not involved:
        reduced = [a for _, v in operands for a in deep_atoms(v) if isinstance(a, Data)]
        if reduced:
            return value(reduced[0])
        return REPLICATED if name.startswith(("torch.", "numpy.", "math.")) else UNKNOWN
    return tensors.function(run, node, short, involved, kwargs, rest)


def _on_batches(
    run: Interpreter,
    short: str,
    operands: list[tuple[cst.BaseExpression, Value]],
    kwargs: Keywords,
) -> Value | None:
    """What a tensor function makes of batches that the script makes by hand, if it gets any."""
    made = batches.made(run, short)
    if made is not None:
        return made
    if not any(batches.wholes(held) for _, held in operands):
        return None
    if short in batch_rows.PRODUCTS:
        return batch_rows.product(run, operands)
    return tensors.on_batches(run, short, operands, [held for _, held in operands[1:]], kwargs)


def _sized(
    run: Interpreter,
    node: cst.BaseExpression,
    short: str,
    operands: list[tuple[cst.BaseExpression, Value]],
    counts: list[Data],
) -> Value:
    """A tensor made as long as this rank's rows is one of its shards."""
    for data in counts:
        run.facts.shape_uses.update(data.births)
    made = counts[0].placed(Placement.SHARD)
    if short in _DRAWS:
        run.facts.draws.setdefault(node, run.site(node))
    if short in ("randperm", "permutation"):
        run.facts.orders.setdefault(node, run.site(node))
        made = replace(made, form="permutation")
    return value(replace(made, form="range") if short == "arange" else made)


def _concatenated(
    run: Interpreter,
    node: cst.BaseExpression,
    short: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """Tensors joined along a dimension; along the batch, they are a list of rows."""
    pieces = args[0] if args else kwargs.get("tensors", UNKNOWN)
    inner = [a for a in deep_atoms(pieces) if isinstance(a, Data) and a.placement.local]
    if not inner:
        whole = [a for a in deep_atoms(pieces) if isinstance(a, Data)]
        return value(*whole[:1])
    worst = [d for d in inner if d.placement is not Placement.SHARD]
    given = args[1] if len(args) > 1 else kwargs.get("dim") or kwargs.get("axis") or UNKNOWN
    dim = given.constant() if given else 0
    first = (worst or inner)[0]
    placed = first.placed(first.placement)
    if worst:
        births = frozenset(b for d in worst if d.placement is Placement.ROWS for b in d.births)
        return value(replace(placed, births=births))
    if short == "stack" and isinstance(dim, int) and 0 <= dim <= first.dim:
        return value(replace(placed, dim=first.dim + 1))
    if dim not in (0, ...) or short in ("stack", "hstack"):
        return value(placed)
    masked = any(d.form == "masked" for d in inner)
    form = "masked" if masked else "stacked"
    return value(replace(placed, form=form, births=_shown_pieces(run, node)))


def _shown_pieces(run: Interpreter, node: cst.BaseExpression) -> frozenset[cst.BaseExpression]:
    """The elements of ``torch.cat((a, b))``, each of which could be gathered by itself."""
    shown = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    if not isinstance(shown, (cst.Tuple, cst.List)):
        return frozenset()
    elements = [element.value for element in shown.elements]
    rows = all({d.form for d in run.seen(e).data} <= {"tensor"} for e in elements)
    return frozenset(e for e in elements if run.seen(e).data) if rows else frozenset()


def argument_pairs(
    node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> list[tuple[cst.BaseExpression, Value]]:
    """Each argument with the expression that gives it, where the call shows one."""
    shown = node.args if isinstance(node, cst.Call) else ()
    positional = [a.value for a in shown if a.keyword is None and not a.star]
    named = {a.keyword.value: a.value for a in shown if a.keyword is not None}
    pairs = [(positional[i] if i < len(positional) else node, a) for i, a in enumerate(args)]
    return pairs + [(named.get(k, node), v) for k, v in kwargs.items()]


def _foreign(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A function of some other library: it reads whatever it gets."""
    operands = argument_pairs(node, args, kwargs)
    local = [(n, v) for n, v in operands if any(True for _ in _local_data(v))]
    for expression, one in local:
        for data in _local_data(one):
            run.demand(expression, value(data), f"{name}()")
    if local:
        return REPLICATED
    for shown, one in operands:
        for atom in one.of(Instance):
            if is_model(atom) and isinstance(shown, cst.Name):  # type: ignore[arg-type]
                run.facts.event(atom, "given", run.site(shown))  # type: ignore[arg-type]
    made = _object(run, node, name, args, kwargs)
    if any(isinstance(a, Params) for v in (*args, *kwargs.values()) for a in deep_atoms(v)):
        for atom in made.of(Instance):
            if not _is_scheduler_like(args):
                _new_optimizer(run, node, atom, [*args, *kwargs.values()])  # type: ignore[arg-type]
    return made


def _is_scheduler_like(args: list[Value]) -> bool:
    return any(isinstance(a, Instance) and a.role == "optimizer" for v in args for a in v.atoms)


def _local_data(one: Value) -> Iterable[Data]:
    return (a for a in deep_atoms(one) if isinstance(a, Data) and a.placement.local)


def call_unknown(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """Something that is not understood: partial values are read, rows may come out as anything."""
    method = _method_name(node)
    if method == "cuda" or (method == "to" and any(world.number_or_name(a) for a in args)):
        world.moved(run, node, args, kwargs)
    given = [*args, *kwargs.values()]
    if not method and any(isinstance(a, Params) for g in given for a in deep_atoms(g)):
        made = run.instance(node, run.module, "an optimizer")
        _new_optimizer(run, node, made, given)  # what takes parameters and is kept, steps them
        return value(made)
    return opaque(run, node, None, args, kwargs)


def _method_name(node: cst.BaseExpression) -> str:
    """``m`` of ``x.m(...)``, empty for another call."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value
    return ""


def opaque(
    run: Interpreter,
    node: cst.BaseExpression,
    target: Instance | None,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """The result of code that is not seen, given these arguments."""
    batches.meet(run, argument_pairs(node, args, kwargs), surely=target is not None)
    shards: list[Data] = []
    picked: list[Data] = []
    by_sample = run.frames_forward() or (target is not None and is_model(target))
    for expression, one in argument_pairs(node, args, kwargs):
        for data in _local_data(one):
            if data.placement is Placement.COUNT:
                run.facts.shape_uses.update(data.births)
            elif data.placement is Placement.SHARD:
                shards.append(data)
            elif data.placement is Placement.ROWS and by_sample and data.births:
                picked.append(data)
            else:
                run.demand(expression, value(data), "code that is not seen")
    if picked:  # what a model makes of picked rows is as good as they are
        births = frozenset(b for d in picked for b in d.births)
        return value(replace(picked[0].placed(Placement.ROWS), births=births))
    if not shards:
        held = next((v for v in (*args, *kwargs.values()) if batches.wholes(v)), None)
        if held is not None:
            return value(*batches.wholes(held))
        given = [a for v in (*args, *kwargs.values()) for a in deep_atoms(v)]
        reduced = [a for a in given if isinstance(a, Data)]
        return value(reduced[0] if reduced else run.instance(node, run.module, "an object"))
    loaders = frozenset(loader for d in shards for loader in d.loaders)
    return value(Data(Placement.SHARD, loaders, opaque=True))


def call_instance(
    run: Interpreter,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """``object(...)`` of a library object."""
    if isinstance(target.type, str) and losses.is_module(target.type):
        return losses.call(run, node, losses.function_name(target.type), args, kwargs, target)
    if run.choices.by_hand:
        made = batch_layers.layer(run, target, args)
        if made is not None:
            return made
    result = opaque(run, node, target, args, kwargs)
    if isinstance(target.type, str) and target.type.startswith("torch.nn."):
        dim = _batch_dimension(args) if run.choices.by_hand else 0
        ndim = dimensions.of_layer(target, args)
        return join(value(*(_seen(a, dim, ndim) for a in result.atoms)))
    return result


def _batch_dimension(args: list[Value]) -> int:
    return next((d.dim for one in args for d in one.data if d.placement is Placement.SHARD), 0)


def _seen(atom: Atom, dim: int, ndim: int) -> Atom:
    """What a layer of PyTorch's own makes of rows are rows, along the same dimension."""
    return replace(atom, opaque=False, dim=dim, ndim=ndim) if isinstance(atom, Data) else Number()


# ---------------------------------------------------------------------- methods
def call_method(
    run: Interpreter, node: cst.BaseExpression, method: Method, args: list[Value], kwargs: Keywords
) -> Value:
    """A method of a tensor, a number, a container or a library object."""
    results = []
    known = any(isinstance(atom, (Instance, Whole)) for atom in method.receiver.atoms)
    for atom in method.receiver.atoms:
        if known and isinstance(atom, Number):
            continue  # what else may come here is the same kind of object, as far as is known
        if isinstance(atom, Data):
            results.append(_data_method(run, node, atom, method.name, args, kwargs))
        elif isinstance(atom, Whole):
            results.append(_batch_method(run, node, atom, method.name, args, kwargs))
        elif isinstance(atom, Instance):
            results.append(_object_method(run, node, atom, method.name, args, kwargs))
        elif isinstance(atom, Params):
            made = batches.made(run, method.name) if method.name.startswith("new_") else None
            results.append(made or _params_method(run, node, atom, method.name))
        else:
            results.append(_plain_method(run, node, atom, method.name, args, kwargs))
    return join(*results)


def _batch_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Whole, name: str, args, kwargs
) -> Value:
    """A method of a tensor that may be a batch made by hand."""
    if name == "backward":
        return REPLICATED
    if name in _MOVES:
        world.moved(run, node, args, kwargs)
        return value(atom)
    if name.startswith("new_"):
        return batches.made(run, name) or REPLICATED
    pairs = [(_receiver(node), value(atom)), *argument_pairs(node, args, {})]
    if any(one.data for one in args):
        return tensors.function(run, node, name, pairs, kwargs, args)
    return tensors.on_batches(run, name, pairs, args, kwargs)


def _receiver(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value
    return node


def _data_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Data, name: str, args, kwargs
) -> Value:
    receiver = _receiver(node)
    if name == "backward":
        return _backward(run, node, receiver, value(atom))
    if name == "detach" and not atom.placement.local:
        return REPLICATED
    if name == "tolist" and atom.placement is Placement.SHARD and not atom.opaque:
        return value(atom)
    if name in ("item", "tolist", "__float__", "__format__"):
        run.demand(receiver, value(atom), f"{name}()")
        return REPLICATED
    if name == "size":
        return tensors.size(atom, node, args)
    if name in ("dim", "ndimension") and atom.ndim:
        return value(Const(atom.ndim))
    if name in _FACTS_OF_A_TENSOR:
        return REPLICATED
    if name == "squeeze" and not args and not kwargs and atom.placement is Placement.SHARD:
        run.facts.squeezes.setdefault(node, run.site(node))
    if name == "numel":
        return value(atom.placed(Placement.SUM)) if not atom.placement.partial else REPLICATED
    if name in ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"):
        return _tensor_function(run, node, f"torch.{name}", name, args, kwargs)
    if name in _MOVES:
        world.moved(run, node, args, kwargs)
        return tensors.fresh(value(replace(atom, form="tensor") if atom.form == "batch" else atom))
    if name in ("items", "keys", "values"):
        made = run.instance(node, run.module, "generator")
        pair = Tup((REPLICATED, value(atom)))
        run.put(made, "*", value(pair) if name == "items" else value(atom))
        return value(made)
    for one in args:
        for data in one.data:
            if data.placement is Placement.COUNT:
                run.facts.shape_uses.update(data.births)
    args = [tensors.without_counts(one) for one in args]
    if name in ("view", "reshape") and atom.placement is Placement.SHARD:
        args = _own_size(run, node, args)
    operands = [(receiver, value(atom)), *argument_pairs(node, args, {})]
    return tensors.function(run, node, name, operands, kwargs, args)


def _own_size(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> list[Value]:
    """The arguments of a view whose first size is named as the loader's: that of its rows."""
    simple = isinstance(node, cst.Call) and node.args and dotted(_receiver(node)) is not None
    if simple and run.module.editable and batch_sizes.names_size(run, node.args[0].value):  # type: ignore[attr-defined]
        run.facts.named_sizes.setdefault(node, run.site(node))
        return [value(Const(-1)), *args[1:]]
    return args


def _backward(
    run: Interpreter, node: cst.BaseExpression, receiver: cst.BaseExpression, loss: Value
) -> Value:
    _, known = run.facts.backwards.get(node, (None, UNKNOWN))
    run.facts.backwards[node] = (run.site(node), join(known, loss))
    run.demand(receiver, loss, "backward()")
    for data in loss.of(Data):
        run.choices.trained |= {loader.site for loader in data.loaders}  # type: ignore[union-attr]
    return REPLICATED


def _plain_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: object, name: str, args, kwargs
) -> Value:
    """A method of a replicated value: a string, a number, a tensor."""
    literal = isinstance(atom, Const) and isinstance(atom.value, (str, bytes))
    if name == "backward":
        return _backward(run, node, _receiver(node), REPLICATED)
    if name in _MOVES:
        world.moved(run, node, args, kwargs)
    if literal or name in _STRING_METHODS:
        for expression, one in argument_pairs(node, args, kwargs):
            expressions.read_all(run, expression, one, "a formatted string")
        return REPLICATED
    if isinstance(atom, Tup):
        return join(*atom.items) if name == "index" else REPLICATED
    operands = [(_receiver(node), REPLICATED), *argument_pairs(node, args, kwargs)]
    for _, one in operands[1:]:
        for data in one.data:
            if data.placement is Placement.COUNT:
                run.facts.shape_uses.update(data.births)
                return value(data.placed(Placement.SHARD))
    return tensors.function(run, node, name, operands, kwargs, args)


def _params_method(run: Interpreter, node: cst.BaseExpression, atom: Params, name: str) -> Value:
    if name == "requires_grad_":
        run.facts.event(atom.owner, "change", run.site(node))
    return value(atom)


def _object_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if atom.type in expressions.CONTAINERS:
        return _container_method(run, node, atom, name, args, kwargs)
    if name in ("parameters", "named_parameters") and not args:
        atom.role = "model" if atom.role is None else atom.role
    if is_model(atom):
        return _model_method(run, node, atom, name, args, kwargs)
    if atom.role == "optimizer" and name == "step":
        for one in args:
            run.call(node, one, [], {})
        return REPLICATED
    if atom.type in _PARSERS and name == "add_argument":
        _add_argument(run, atom, args, kwargs)
    if atom.type in _PARSERS and name in ("parse_args", "parse_known_args"):
        return _arguments(run, node, atom, name)
    if atom.type in _SCALERS and name == "scale":
        return args[0] if args else UNKNOWN
    if atom.role is None and name in _RETURNS_MODEL and isinstance(atom.type, str):
        world.moved(run, node, args, kwargs)
        run.facts.event(atom, "move", run.site(node))  # of use if it turns out to be a model
        return value(atom)
    world.acts_method(run, node, atom, name, args, kwargs)
    return _sink_method(run, node, args, kwargs, name)


_FACTS_OF_A_TENSOR = frozenset(
    "dim ndimension is_floating_point element_size stride get_device is_contiguous".split()
)
_DRAWS = frozenset("randn rand randint normal uniform standard_normal random".split())
_PARSERS = ("argparse.ArgumentParser", "configargparse.ArgumentParser")
_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler")


def _add_argument(run: Interpreter, atom: Instance, args: list[Value], kwargs: Keywords) -> None:
    """An option may be what its default says."""
    names = [a.constant() for a in args]
    given = kwargs["dest"].constant() if "dest" in kwargs else None
    long = [n for n in names if isinstance(n, str) and n.startswith("--")]
    name = given or next(iter(long or names), None)
    if isinstance(name, str) and "default" in kwargs:
        made = run.instance(atom.site, atom.module, "argparse.Namespace")
        run.put(made, name.lstrip("-").replace("-", "_"), join(REPLICATED, kwargs["default"]))


def _arguments(run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str) -> Value:
    made = run.instance(atom.site, atom.module, "argparse.Namespace")
    if name == "parse_known_args":
        return value(Tup((value(made), REPLICATED)))
    return value(made)


def _sink_method(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords, name: str
) -> Value:
    """A method of a library object: with its result unused, it takes what it gets for itself."""
    unused = isinstance(run.module.parents.get(node), cst.Expr)
    local = False
    for expression, one in argument_pairs(node, args, kwargs):
        for data in _local_data(one):
            local = True
            if unused or data.placement.partial or data.placement is Placement.ROWS:
                run.demand(expression, value(data), f"{name}()")
    return opaque(run, node, None, args, kwargs) if local and not unused else REPLICATED


def _model_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if name in _RETURNS_MODEL:
        if name in _MOVES:
            world.moved(run, node, args, kwargs)
            run.facts.event(atom, "move", run.site(node))
        elif name == "requires_grad_":
            run.facts.event(atom, "change", run.site(node))
        return value(atom)
    if name == "parameters":
        return value(Params(atom))
    if name == "named_parameters":
        made = run.instance(node, run.module, "generator")
        run.put(made, "*", value(Tup((REPLICATED, value(Params(atom))))))
        return value(made)
    if name in ("children", "modules", "buffers"):
        return value(atom)
    if name == "load_state_dict":
        run.facts.event(atom, "load", run.site(node))
        return REPLICATED
    if name in ("state_dict", "zero_grad", "named_modules", "named_children", "add_module"):
        return REPLICATED
    if name in ("__init__", "register_buffer", "register_parameter"):
        return REPLICATED
    if name in ("forward", "__call__"):
        run.facts.event(atom, "bypass", run.site(node), gradient=not run.no_grad)
        args, kwargs = calls.entered(run, node, args, kwargs)
    batch_layers.inherited(run, atom, args)
    return opaque(run, node, atom, args, kwargs)


def _container_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if name in ("append", "add", "appendleft") and args:
        shown = argument_pairs(node, args, {})[0][0]
        run.put(atom, "*", run.keeps_from_batch(atom, shown, args[0]))
    elif name in ("extend", "update", "insert", "setdefault"):
        for expression, one in argument_pairs(node, args, kwargs):
            one = run.keeps_from_batch(atom, expression, one)
            if one.data or any(isinstance(a, Data) for a in one.atoms):
                run.put(atom, "*", one)
            for source in one.of(Instance):
                for key, held in list(source.attributes.items()):  # type: ignore[union-attr]
                    run.put(atom, key if name == "update" else "*", held)
        for key, one in kwargs.items():
            run.put(atom, f"[{key!r}]", one)
    elif name == "items":
        made = run.instance(node, run.module, "generator")
        run.put(made, "*", value(Tup((REPLICATED, atom.elements))))
        return value(made)
    elif name == "get" and args:
        key = args[0].constant()
        return atom.attributes.get(f"[{key!r}]", atom.elements) if key is not ... else atom.elements
    elif name in ("values", "pop", "copy", "popitem", "popleft"):
        return value(atom) if name in ("values", "copy") else atom.elements
    return REPLICATED


# ---------------------------------------------------------------------- library functions
def _data_loader(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    made = run.instance(node, run.module, "torch.utils.data.DataLoader")
    _remember(made, LOADER_ARGUMENTS, args, kwargs)
    _new_loader(run, made)
    return value(made)


def _bar(
    run: Interpreter, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    made = run.instance(node, run.module, name)
    iterable = args[0] if args else kwargs.get("iterable", REPLICATED)
    run.put(made, "iterable", REPLICATED if name.endswith("trange") else iterable)
    run.effect("bar", node, name)
    return value(made)


def _builtin(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, name: str, args, kwargs
) -> Value:
    handler = _BUILTINS.get(name)
    if handler is not None:
        return handler(run, node, args)
    if name in _READS or name in ("print", "max", "min", "any", "all", "divmod", "pow"):
        for expression, one in argument_pairs(node, args, kwargs):
            expressions.read_all(run, expression, one, f"{name}()")
    return REPLICATED


def _len(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    results = []
    for atom in args[0].atoms if args else ():
        rows = (
            isinstance(atom, Data)
            and atom.placement is Placement.SHARD
            and atom.form != "shape"
            and atom.dim == 0
        )
        results.append(tensors.count(atom, node) if rows else REPLICATED)  # type: ignore[arg-type]
    return join(*results) if results else REPLICATED


def _sum(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``sum(tensor)`` adds up its rows; ``sum(values)`` adds values, which keep their placement."""
    results = []
    for atom in args[0].atoms if args else ():
        if isinstance(atom, Data):
            rows = atom.placement is Placement.SHARD
            results.append(value(atom.placed(Placement.SUM if rows else atom.placement)))
            continue
        held = [a for a in deep_atoms(value(atom)) if isinstance(a, Data)]
        results += [value(a.placed(a.placement)) for a in held]
    return join(*results) if results else REPLICATED


def _enumerate(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    element = expressions.iterate(run, node, args[0]) if args else UNKNOWN
    made.attributes["*"] = value(Tup((REPLICATED, element)))
    return value(made)


def _zip(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    made.attributes["*"] = value(Tup(tuple(expressions.iterate(run, node, a) for a in args)))
    return value(made)


def _same_elements(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "list")
    for one in args[:1]:
        for source in one.of(Instance):
            if source.type == "list":  # type: ignore[union-attr]
                for key, held in list(source.attributes.items()):  # type: ignore[union-attr]
                    run.put(made, key, held)
        run.put(made, "*", expressions.iterate(run, node, one))
    return value(made)


def _iter(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    made.attributes["*"] = expressions.iterate(run, node, args[0]) if args else UNKNOWN
    return value(made)


def _next(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    element = expressions.iterate(run, node, args[0]) if args else UNKNOWN
    if any(isinstance(a, Data) for a in deep_atoms(element)):
        run.takes_batch()
    return element


def _map(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    one = args[1] if len(args) == 2 else UNKNOWN
    for tup in one.of(Tup):
        parts = tuple(run.call(node, args[0], [item], {}) for item in tup.items)  # type: ignore[union-attr]
        return value(Tup(parts))
    made = run.instance(node, run.module, "generator")
    elements = [expressions.iterate(run, node, a) for a in args[1:]]
    made.attributes["*"] = run.call(node, args[0], elements, {}) if args else UNKNOWN
    return value(made)


def _super(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    names = run.frame.scope.names
    first = next(iter(names.values()), UNKNOWN)
    for atom in first.of(Instance):
        if isinstance(atom.type, Class):  # type: ignore[union-attr]
            return value(Super(atom))  # type: ignore[arg-type]
    return UNKNOWN


def _getattr(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    name = args[1].constant() if len(args) > 1 else ...
    if not isinstance(name, str):
        return UNKNOWN
    return join(*(expressions.attribute_of(run, node, a, name) for a in args[0].atoms), *args[2:])


def _device(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return value(*world.devices(args[0] if args else kwargs.get("device", UNKNOWN), args[1:]))


def _deepcopy(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A copy of a model is another model."""
    copies = []
    for atom in args[0].atoms if args else ():
        if isinstance(atom, Instance) and is_model(atom):
            twin = run.instance(node, run.module, atom.type)
            twin.attributes.update(atom.attributes)
            twin.role = atom.role
            copies.append(twin)
        else:
            copies.append(atom)  # type: ignore[arg-type]
    return join(value(*copies)) if copies else UNKNOWN


def _no_grad_object(name: str) -> Callable[..., Value]:
    def make(run, node, args, kwargs) -> Value:  # type: ignore[no-untyped-def]
        return value(run.instance(node, run.module, name))

    return make


def _set_grad(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    off = bool(args) and args[0].constant() is False
    return value(run.instance(node, run.module, NO_GRAD[0] if off else "torch.enable_grad"))


def _autograd_backward(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    operands = argument_pairs(node, args, kwargs)
    return _backward(run, node, *operands[0]) if operands else UNKNOWN


def _amp(run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``amp.initialize(model, optimizer)`` gives back what it gets."""
    given = [*args, *(kwargs[name] for name in ("models", "optimizers") if name in kwargs)]
    return value(Tup(tuple(given[:2]))) if len(given) > 1 else join(*given)


def _load(run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return REPLICATED


def _elements(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return _iter(run, node, args)


def _partial(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return args[0] if args else UNKNOWN


_BUILTINS: dict[str, Callable[..., Value]] = {
    "len": _len, "sum": _sum, "enumerate": _enumerate, "zip": _zip, "list": _same_elements,
    "tuple": _same_elements, "sorted": _same_elements, "reversed": _same_elements, "iter": _iter,
    "next": _next, "map": _map, "super": _super, "getattr": _getattr, "set": _same_elements,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "torch.device": _device,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _deepcopy,
    "torch.set_grad_enabled": _set_grad,
    "torch.autograd.backward": _autograd_backward,
    "torch.load": _load,
    "apex.amp.initialize": _amp,
    "apex.parallel.convert_syncbn_model": _partial,
    "itertools.cycle": _elements,
    "itertools.islice": _elements,
    "itertools.chain": _elements,
    "functools.partial": _partial,
    "torch.compile": _partial,
    "torch.jit.script": _partial,
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _partial,
    **distributed.FUNCTIONS,
    **{name: _no_grad_object(name) for name in NO_GRAD},
}
