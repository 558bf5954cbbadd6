"""Methods of tensors, numbers, containers and library objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import tensor_pairs, tensor_sizes, tensors
from ddpify.understanding.batching import batch_layers, batch_sizes, batches, entering
from ddpify.understanding.language import elements
from ddpify.understanding.language.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.libraries import draws, world
from ddpify.understanding.libraries.actions import WRITING_METHODS
from ddpify.understanding.libraries.instances import MOVES, RETURNS_MODEL
from ddpify.understanding.libraries.kinds import is_model
from ddpify.understanding.libraries.opaque import opaque
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Function,
    Instance,
    Lib,
    Method,
    Number,
    Params,
    Tup,
    Value,
    Whole,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


_STRING_METHODS = frozenset(
    "format join strip split replace startswith endswith ljust rjust center zfill encode".split()
)


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
            results.append(_params_method(run, node, atom, method.name, args, kwargs))
        else:
            results.append(_plain_method(run, node, atom, method.name, args, kwargs))
    return join(*results)


def _batch_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Whole, name: str, args, kwargs
) -> Value:
    """A method of a tensor that may be a batch made by hand."""
    if name == "backward":
        return REPLICATED
    if name in MOVES:
        world.moved(run, node, args, kwargs)
        return value(atom)
    if name.startswith("new_"):
        return batches.made(run, name) or REPLICATED
    pairs = [(_receiver(node), value(atom)), *argument_pairs(node, args, {})]
    repeated = _repeated(run, name, args)
    if repeated is not None:
        return repeated
    if atom.guessed and _is_unused(run, node) and not name.endswith("_"):
        return _sink_method(run, node, args, kwargs, name)  # as below: no tensor after all
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
        return backward(run, node, receiver, value(atom))
    drawn = draws.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if name == "detach" and not atom.placement.local:
        return REPLICATED
    if name == "tolist" and (_is_rows(atom) or atom.form == "row"):
        return value(atom)
    if name in ("item", "tolist", "__float__", "__format__"):
        run.demand(receiver, value(atom), f"{name}()")
        return REPLICATED
    if name == "size":
        return tensor_sizes.size(atom, node, args)
    if name in ("dim", "ndimension") and atom.ndim:
        return value(Const(atom.ndim))
    if name in _FACTS_OF_A_TENSOR:
        return REPLICATED
    if name in ("numel", "nelement") and atom.form == "row":
        return REPLICATED
    if name in ("numel", "nelement"):
        return value(atom.placed(Placement.SUM)) if not atom.placement.partial else REPLICATED
    if name in ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"):
        return tensor_function(run, node, f"torch.{name}", name, args, kwargs)
    if name in MOVES:
        world.moved(run, node, args, kwargs)
        return tensors.fresh(value(replace(atom, form="tensor") if atom.form == "batch" else atom))
    if name in ("items", "keys", "values"):
        made = run.instance(node, run.module, "generator")
        pair = Tup((REPLICATED, value(atom)))
        run.put(made, "*", value(pair) if name == "items" else value(atom))
        return value(made)
    beside = any(d.placement is Placement.COUNT for one in args for d in one.data)
    if beside and name in _COPYING and atom.placement is Placement.SHARD and not run.collating:
        copied = tensors.function(run, node, name, [(receiver, value(atom))], kwargs, args)
        _sizes_of(run, args)
        return value(*(_beside_each_other(a, atom) for a in copied.atoms))
    if name not in tensor_pairs.BINARY:  # there a number of rows is a size, of a view perhaps
        args = [_sizes(run, one) for one in args]
    if name in ("view", "reshape") and atom.placement is Placement.SHARD:
        args = _own_size(run, node, args)
    operands = [(receiver, value(atom)), *argument_pairs(node, args, {})]
    return tensors.function(run, node, name, operands, kwargs, args)


def _is_rows(atom: Data) -> bool:
    return atom.placement is Placement.SHARD and not atom.opaque


def _beside_each_other(copied: Atom, rows: Data) -> Atom:
    """Copies of a rank's rows for each of its rows: only the rows themselves can be gathered."""
    return replace(copied, form="pairs", names=rows.names) if isinstance(copied, Data) else copied


def _sizes_of(run: Interpreter, given: list[Value]) -> None:
    for one in given:
        _sizes(run, one)


def _sizes(run: Interpreter, one: Value) -> Value:
    for data in one.data:
        if data.placement is Placement.COUNT:
            run.facts.shape_uses.update(data.births)
    return tensor_sizes.without_counts(one)


def _own_size(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> list[Value]:
    """The arguments of a view whose first size is named as the loader's: that of its rows."""
    simple = isinstance(node, cst.Call) and node.args and dotted(_receiver(node)) is not None
    if simple and run.module.editable and batch_sizes.names_size(run, node.args[0].value):  # type: ignore[attr-defined]
        run.facts.named_sizes.setdefault(node, run.site(node))
        return [value(Const(-1)), *args[1:]]
    return args


def backward(
    run: Interpreter, node: cst.BaseExpression, receiver: cst.BaseExpression, loss: Value
) -> Value:
    """A gradient is asked for: the loss must be the global batch's by then."""
    _, known = run.facts.backwards.get(node, (None, UNKNOWN))
    run.facts.backwards[node] = (run.site(node), join(known, loss))
    if run.running_entry:
        run.facts.reached_backwards.add(node)
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
        return backward(run, node, _receiver(node), REPLICATED)
    if name in MOVES:
        world.moved(run, node, args, kwargs)
    if literal or name in _STRING_METHODS:
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_all(expression, one, "a formatted string")
        return REPLICATED
    if isinstance(atom, Tup):
        return join(*atom.items) if name == "index" else REPLICATED
    drawn = draws.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if _is_unused(run, node) and not name.endswith("_"):
        return _sink_method(run, node, args, kwargs, name)  # no tensor: its result would be used
    repeated = _repeated(run, name, args)
    if repeated is not None:
        return repeated
    operands = [(_receiver(node), REPLICATED), *argument_pairs(node, args, kwargs)]
    for _, one in operands[1:]:
        for data in one.data:
            if data.placement is Placement.COUNT:
                run.facts.shape_uses.update(data.births)
                return value(data.placed(Placement.SHARD))
    return tensors.function(run, node, name, operands, kwargs, args)


def _repeated(run: Interpreter, name: str, args: list[Value]) -> Value | None:
    """``x.expand(len(batch), -1)`` of what all ranks hold: a copy for each of this rank's rows."""
    for dim, one in enumerate(args if name in ("expand", "repeat", "tile") else ()):
        for data in one.data:
            if data.placement is Placement.COUNT or tensor_sizes.is_own_number(data):
                run.facts.shape_uses.update(data.births)
                return value(replace(tensor_sizes.rows_as_many(data), dim=dim))
    return None


def _params_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Params, name: str, args, kwargs
) -> Value:
    if name == "new" or name.startswith("new_"):  # a tensor of their kind, not one of them
        made = batches.made(run, name)
        return made or _plain_method(run, node, Number(), name, args, kwargs)
    if name == "requires_grad_":
        run.facts.event(atom.owner, "change", run.site(node))
    return value(atom)


def _closure(run: Interpreter, node: cst.BaseExpression, closure: Value) -> None:
    """An optimizer calls a closure, and reads the loss that it returns."""
    run.call(node, closure, [], {})
    for function in closure.of(Function):
        for part in walk(function.node.body):  # type: ignore[union-attr]
            if isinstance(part, cst.Return) and part.value is not None:
                run.demand(part.value, run.seen(part.value), "an optimizer")


def _object_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if atom.type in elements.CONTAINERS:
        return _container_method(run, node, atom, name, args, kwargs)
    if name in ("parameters", "named_parameters") and not args:
        atom.role = "model" if atom.role is None else atom.role
    if is_model(atom):
        return _model_method(run, node, atom, name, args, kwargs)
    if atom.role == "optimizer" and name == "step":
        for one in args:
            _closure(run, node, one)
        return REPLICATED
    if atom.type in _PARSERS and name == "add_argument":
        _add_argument(run, atom, args, kwargs)
    if atom.type in _PARSERS and name in ("parse_args", "parse_known_args"):
        return _arguments(run, node, atom, name)
    drawn = draws.method(run, node, atom, name)
    if drawn is not None:
        return drawn
    if atom.type in _SCALERS and name == "scale":
        return args[0] if args else UNKNOWN
    if atom.role is None and name in RETURNS_MODEL and isinstance(atom.type, str):
        world.moved(run, node, args, kwargs)
        run.facts.event(atom, "move", run.site(node))  # of use if it turns out to be a model
        return value(atom)
    world.acts_method(run, node, atom, name, args, kwargs)
    return _sink_method(run, node, args, kwargs, name)


_FACTS_OF_A_TENSOR = frozenset(
    "dim ndimension is_floating_point element_size stride get_device is_contiguous".split()
)
_PARSERS = ("argparse.ArgumentParser", "configargparse.ArgumentParser")
_COPYING = ("expand", "repeat", "tile")
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


def _is_unused(run: Interpreter, node: cst.BaseExpression) -> bool:
    """Whether nothing is done with what a call gives."""
    return isinstance(run.module.parents.get(node), cst.Expr)


def _sink_method(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords, name: str
) -> Value:
    """A method of a library object: with its result unused, it takes what it gets for itself."""
    unused = _is_unused(run, node)
    local = False
    for expression, one in argument_pairs(node, args, kwargs):
        for data in local_data(one):
            local = True
            if unused or data.placement.partial or data.placement is Placement.ROWS:
                run.demand(expression, value(data), f"{name}()")
    return opaque(run, node, None, args, kwargs) if local and not unused else REPLICATED


def _model_method(  # type: ignore[no-untyped-def]
    run: Interpreter, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    if name in RETURNS_MODEL:
        if name in MOVES:
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
    if name in ("named_modules", "named_children"):
        made = run.instance(node, run.module, "generator")
        run.put(made, "*", value(Tup((REPLICATED, value(atom)))))
        return value(made)
    if name in ("state_dict", "zero_grad", "add_module"):
        return REPLICATED
    if name == "register_buffer" and args:
        _register_buffer(run, atom, args[0].constant())
    if name in ("__init__", "register_buffer", "register_parameter"):
        return REPLICATED
    if name in WRITING_METHODS:
        world.acts_method(run, node, atom, name, args, kwargs)
        return REPLICATED
    if name in ("forward", "__call__"):
        run.facts.event(atom, "bypass", run.site(node), gradient=not run.no_grad)
        args, kwargs = entering.entered(run, node, args, kwargs)
    batch_layers.inherited(run, atom, args)
    return opaque(run, node, atom, args, kwargs)


def _register_buffer(run: Interpreter, model: Instance, name: object) -> None:
    if isinstance(name, str):
        run.put(model, name, REPLICATED)
        run.facts.buffers.add((model, name))


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
    elif name in ("next", "__next__") and atom.type == "generator":
        return run.call(node, value(Lib("builtins.next")), [value(atom)], {})
    return REPLICATED
