"""Calls into code that ddpify cannot read: whatever they get may be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs, local_data, of_layer
from ddpify.understanding.arithmetic import (
    across_samples,
    patterns,
    sequences,
    tensor_pairs,
    tensors,
)
from ddpify.understanding.arithmetic.denominators import LossCall
from ddpify.understanding.batching import (
    batch_layers,
    collating,
    handmade_batches,
    per_sample_lists,
)
from ddpify.understanding.forms import Form, Layout
from ddpify.understanding.layer_containers import SEQUENTIAL
from ddpify.understanding.libraries import (
    container_layers,
    coupling_layers,
    escaping_loaders,
    losses,
    parts_of_receiver,
    per_sample_functions,
    random_numbers,
    side_effects,
)
from ddpify.understanding.libraries.instances import library_object, new_optimizer
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import columns, dimensions
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    Params,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
    without_views,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

AN_OBJECT = "an object"  # that unread code has made
_OF_MODELS = frozenset(
    "parameters named_parameters state_dict load_state_dict train eval modules children".split()
)
_READ = ("torch", "torchvision", "types", "functools", "argparse")
_ALL_SAMPLES = Data(Placement.REPLICATE, form=Layout.GATHERED)


def foreign(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value:
    """A function of some other library: it reads whatever it gets."""
    escaping_loaders.note_loaders(run, node, name, args, kwargs)
    if run.frames_forward() and not run.collating and per_sample_functions.is_one(name):
        return opaque(run, node, None, args, kwargs)
    operands = argument_pairs(node, args, kwargs)
    tensor_pairs.note_used_unseen(run, node, [v for _, v in operands])
    collating.read_together(run, node, [one for _, one in operands])
    run.lengthen(atom for _, one in operands for atom in one.atoms)
    local = [(n, v) for n, v in operands if any(True for _ in local_data(v))]
    for expression, one in local:
        run.demand_held(expression, one, f"{name}()")
    for expression, one in operands:
        run.demand(expression, per_sample_lists.numbers(one), f"{name}()")
    given = [*args, *kwargs.values()] if run.frames_forward() else args[:1]
    back = escaping_loaders.rows_of_all(run, node, join(*given)) if given and not local else None
    if back is not None:
        return across_samples.perhaps_rows(name, back) if run.frames_forward() else back
    if local:
        rows = all(d.placement is Placement.SHARD for _, one in local for d in local_data(one))
        if rows and run.frames_forward():
            return opaque(run, node, None, args, kwargs)
        return REPLICATED if run.collating or not rows else _of_gathered(args)
    for shown, one in operands:
        for atom in one.of(Instance):
            if is_model(atom) and isinstance(shown, cst.Name):
                run.facts.event(atom, "given", run.site(shown))
    made = library_object(run, node, name, args, kwargs)
    if any(isinstance(a, Params) for v in (*args, *kwargs.values()) for a in deep_atoms(v)):
        for atom in made.of(Instance):
            if not _is_scheduler_like(args):
                new_optimizer(run, node, atom, [*args, *kwargs.values()])
    return made


def _of_gathered(args: list[Value]) -> Value:
    """What is made of rows that were asked for on all ranks: it may be a loss of them."""
    for rows in local_data(args[0]) if args else ():
        return value(replace(rows.placed(Placement.REPLICATE), form=Layout.GATHERED))
    return REPLICATED


def _is_scheduler_like(args: list[Value]) -> bool:
    return any(isinstance(a, Instance) and a.role == "optimizer" for v in args for a in v.atoms)


def call_unknown(
    run: RunState,
    node: cst.BaseExpression,
    args: list[Value],
    kwargs: Keywords,
    called: Atom | None = None,
) -> Value:
    """Something that is not understood: partial values are read, rows may come out as anything.

    What is ``called`` may have been made of rows, which meet the arguments then.
    """
    method = _method_name(node)
    escaping_loaders.note_loaders(run, node, "", args, kwargs)
    side_effects.downloads_unseen(run, node, kwargs)
    if method == "cuda" or (method == "to" and any(side_effects.number_or_name(a) for a in args)):
        side_effects.moved(run, node, args, kwargs)
    given = [*args, *kwargs.values()]
    tensor_pairs.note_used_unseen(run, node, given)
    if not method and any(isinstance(a, Params) for g in given for a in deep_atoms(g)):
        made = run.instance(node, run.module, "an optimizer")
        new_optimizer(run, node, made, given)  # what takes parameters and is kept, steps them
        return value(made)
    joint = _called_on_rows(run, node, called, args, kwargs)
    local = any(True for one in given for _ in local_data(one))
    if local and _is_apart(run, node, called):
        return foreign(run, node, "a function", args, kwargs)
    return joint or opaque(run, node, None, args, kwargs)


def _is_apart(run: RunState, node: cst.BaseExpression, called: Atom | None) -> bool:
    """Whether nothing tells that what is called is a model, or a part of one."""
    of_a_file = isinstance(called, Number) and called.loaded is not None  # perhaps a model
    if run.collating or of_a_file or not isinstance(node, cst.Call):
        return False
    owner = node.func.value if isinstance(node.func, cst.Attribute) else node.func
    asked = _is_asked_as_a_model(run, owner) or _is_asked_as_a_model(run, node.func)
    return not asked and not parts_of_receiver.is_one(run, node.func)


def _is_asked_as_a_model(run: RunState, called: cst.BaseExpression) -> bool:
    """Whether the file asks what is called here for something that models have."""
    calls = run.module.structure.method_calls
    asked = (one.func.value for name in _OF_MODELS for one in calls.get(name, ()))  # type: ignore[attr-defined]
    return any(one.deep_equals(called) for one in asked)


def _called_on_rows(
    run: RunState,
    node: cst.BaseExpression,
    called: Atom | None,
    args: list[Value],
    kwargs: Keywords,
) -> Value | None:
    """What an unseen object that holds the rows of all ranks makes of others; None for others."""
    if not isinstance(node, cst.Call) or not isinstance(called, Data):
        return None
    if not run.frames_forward() or called.form is not Layout.GATHERED:
        return None
    held = tensor_pairs.held_tensors(argument_pairs(node, args, kwargs))
    tensor_pairs.beside_replicated(run, [(node.func, called), *held])
    return escaping_loaders.rows_of_all(run, node, value(replace(called, opaque=True)))


def _method_name(node: cst.BaseExpression) -> str:
    """``m`` of ``x.m(...)``, empty for another call."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value
    return ""


def opaque(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance | None,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """The result of code that ddpify cannot read, given these arguments."""
    operands = argument_pairs(node, args, kwargs)
    handmade_batches.meet(run, operands, surely=target is not None, unseen=target is not None)
    if target is None or not _takes_one(target):
        collating.read_together(run, node, [one for _, one in operands])
    if tensor_pairs.beside_replicated(run, _held_tensors(run, operands)):
        return REPLICATED
    shards: list[Data] = []
    picked: list[Data] = []
    inside = run.frames_forward()
    by_sample = inside or (target is not None and _takes_one(target))
    for expression, one in operands:
        for data in local_data(one):
            if data.placement is Placement.COUNT:
                run.facts.sizes.shape_uses.update(data.definition_sites)
            elif data.placement is Placement.SHARD:
                shards.append(data)
            elif data.placement is Placement.ROWS and per_sample_lists.are_of_each(one):
                shards.append(data.placed(Placement.SHARD))
            elif (
                data.placement is Placement.ROWS and by_sample and (data.definition_sites or inside)
            ):
                picked.append(data)
            else:
                run.demand(expression, value(data), uses.UNREADABLE_CODE)
    if picked:  # what a model makes of picked rows is as good as they are
        definition_sites = frozenset(b for d in picked for b in d.definition_sites)
        return value(replace(picked[0].placed(Placement.ROWS), definition_sites=definition_sites))
    if not shards:
        return _of_replicated(run, node, [*args, *kwargs.values()])
    loaders = frozenset(loader for d in shards for loader in d.loaders)
    made = Data(Placement.SHARD, loaders, dim=_common_dim(shards), opaque=True, form=_form(shards))
    made = replace(made, behind=frozenset(site for d in shards for site in d.behind))
    return value(replace(made, segments=next((d.segments for d in shards if d.segments), ())))


def _common_dim(rows: list[Data]) -> int:
    """Where the rows lie in all that unseen code gets: it is taken to leave them there."""
    dims = {data.dim for data in rows}
    return max(*dims, 0) if len(dims) == 1 else 0  # that of a single sample is none


def _held_tensors(
    run: RunState, operands: Sequence[tuple[cst.BaseExpression, Value]]
) -> list[tuple[cst.BaseExpression, Data | None]]:
    """Each tensor that an operand may be, and those of the lists with the samples of all ranks."""
    lists = [(node, atom) for node, held in operands for atom in held.of(Instance)]
    whole = [(node, _ALL_SAMPLES) for node, atom in lists if _holds_all_samples(run, atom)]
    return [*tensor_pairs.held_tensors(operands), *whole]


def _holds_all_samples(run: RunState, listed: Instance) -> bool:
    """Whether a list has an item for each sample of all ranks, or tensors of all of them."""
    held = listed.elements.of(Data) if listed.type in CONTAINERS else ()
    return listed in run.of_all_ranks or any(one.form is Layout.GATHERED for one in held)


def _takes_one(target: Instance) -> bool:
    """Whether what an object makes of one sample is of that sample alone, and nothing else is."""
    return is_model(target) or target.kind.startswith("torchvision.transforms.")


def _of_replicated(run: RunState, node: cst.BaseExpression, given: list[Value]) -> Value:
    """What unseen code makes of arguments among which are no rows of this rank."""
    held = next((one for one in given if handmade_batches.replicated_tensors(one)), None)
    if held is not None:
        return value(
            *(
                replace(replicated, last=False)
                for replicated in handmade_batches.replicated_tensors(held)
            )
        )
    reduced = [a for one in given for a in deep_atoms(one) if isinstance(a, Data)]
    if run.frames_forward():  # rows of all ranks stay so, and may lie in several tensors
        whole = [replace(a, opaque=True) for a in reduced if a.form is Layout.GATHERED]
        reduced = whole[:1] or reduced
    return value(reduced[0] if reduced else run.instance(node, run.module, AN_OBJECT))


def _form(rows: list[Data]) -> Form:
    """Rows of which there are more, or less, than samples stay so."""
    if any(data.ragged for data in rows):
        return Layout.MASKED
    forms = {data.form for data in rows}
    return next(
        (form for form in (Layout.STACKED, Layout.INTERLEAVED) if form in forms), Layout.TENSOR
    )


def is_unread_criterion(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value]
) -> bool:
    """Whether an unread library's object compares rows with others, as a loss or a metric does.

    It may do so over the whole batch. What is trained or called with one tensor is as a model is.
    """
    if target.kind == AN_OBJECT and not is_model(target):
        local = any(True for one in args for _ in local_data(one))
        return local and is_unread_object(run, node, target)
    library = target.kind.partition(".")[0] not in _READ and "." in target.kind
    if not library or target.role is not None or _is_inside(run):
        return False
    rows = [one for one in args if any(d.placement is Placement.SHARD for d in one.data)]
    return len(rows) > 1 and not is_model(target)


def is_unread_object(run: RunState, node: cst.BaseExpression, owner: Instance) -> bool:
    """Whether unread code has made an object, of which nothing tells that it is a model."""
    return owner.kind == AN_OBJECT and not is_model(owner) and _is_apart(run, node, owner)


def _is_inside(run: RunState) -> bool:
    """Whether code of a model or a collate function is in progress."""
    return run.collating or run.frames_forward()


def judged(
    run: RunState,
    node: cst.BaseExpression,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """What an unread criterion makes of rows: it is given those of all ranks."""
    operands = argument_pairs(node, args, kwargs)
    tensor_pairs.note_used_unseen(run, node, [one for _, one in operands])
    for expression, one in operands:
        run.demand_held(expression, one, uses.A_CRITERION)
        run.demand(expression, per_sample_lists.numbers(one), uses.A_CRITERION)
    return _of_gathered([*args, *kwargs.values()])


def call_instance(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """``object(...)`` of a library object."""
    if not (isinstance(target.type, str) and losses.is_module(target.type)):
        args, kwargs = of_layer(target.kind, node, args, kwargs)
        _number_all(run, node, args, kwargs)
    made = _call_instance(run, node, target, args, kwargs)
    both = coupling_layers.gives_indices(target) and any(isinstance(a, Data) for a in made.atoms)
    return value(Tup((made, made))) if both else made


def _number_all(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> None:
    """Let a layer, which makes values of numbers, get the places of samples among all of them."""
    for expression, one in argument_pairs(node, args, kwargs):
        run.demand(expression, value(*(d for d in one.data if d.counting)), uses.POSITIONS)


def _call_instance(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    mixing = coupling_layers.mixing(target, args)
    if mixing or container_layers.are_recurrent(target):
        _run_layers(run, node, target, args, kwargs)
        layers = mixing or container_layers.in_any_order(target)
        return join(*(_call_instance(run, node, one, args, kwargs) for one in layers))
    along = _along_a_dimension(run, node, target, args)
    if along is not None:
        return along
    if target.kind in patterns.LAYERS:
        shown = patterns.layer(run, node, target, args)
        if shown is not None:
            return shown
    sequences.note_states(run, node, target, args, kwargs)
    coupled = coupling_layers.through(run, node, target, args, kwargs)
    if coupled is not None:
        return coupled
    if isinstance(target.type, str) and losses.is_module(target.type):
        loss = LossCall(node, losses.function_name(target.type), args, kwargs, target)
        return losses.call(run, loss)
    if run.choices.by_hand:
        made = batch_layers.layer(run, target, args, kwargs)
        if made is not None:
            return made
    recurrent = sequences.through_layer(target, args)
    if recurrent is not None:
        return recurrent
    drawn = random_numbers.layer(run, node, target)
    if drawn is not None:
        return drawn
    losing = container_layers.computing_a_loss(target, [*args, *kwargs.values()])
    if losing:
        made = run.call(node, value(*losing), args, kwargs)
        found = (a.placement for a in deep_atoms(made) if isinstance(a, Data))
        if any(placement.partial or not placement.local for placement in found):
            return made
    if target.kind.startswith("torch.nn."):
        escaping_loaders.enter_a_model(run, args)
    given, ndim = _run_layers(run, node, target, args, kwargs)
    if container_layers.holds_several(given):
        return given
    _note_all_rows(run, node, target, args)
    if target.kind.endswith(".ToPILImage"):
        return foreign(run, node, "torchvision.transforms.functional.to_pil_image", args, kwargs)
    result = opaque(run, node, target, args, kwargs)
    if container_layers.gives_new(target):
        result = without_views(result)
    if isinstance(target.type, str) and target.type.startswith("torch.nn."):
        dim = _batch_dimension(args)
        ndim = dimensions.of_layer(target, args) or ndim
        made = join(value(*(_seen(a, dim, ndim) for a in result.atoms)))
        made = columns.marked(made, columns.of_layer(target, args))
        if target.kind == "torch.nn.MultiheadAttention":  # and its weights, with the batch first
            weights = (replace(a, dim=0) if isinstance(a, Data) else a for a in made.atoms)
            return value(Tup((made, value(*weights))))
        ending = container_layers.last_layer(target)
        states = sequences.through_layer(ending, [made]) if ending is not None else None
        return states or made
    return result


def _along_a_dimension(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value]
) -> Value | None:
    """What a layer that is a function of one dimension, as ``nn.Softmax(0)``, makes of rows."""
    name = coupling_layers.OF_A_DIMENSION.get(target.kind)
    arguments = target.arguments
    dim = arguments.get("dim") or arguments.get("start_dim") or arguments.get("0")
    if name is None or dim is None or not args or not any(args[0].of(Data)):
        return None
    operands = argument_pairs(node, args, {})
    given = {"start_dim" if name == "flatten" else "dim": dim}
    return tensors.function(run, node, name, operands, given, args[1:])


def _note_all_rows(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value]
) -> None:
    """Note a layer with weights that works on the rows of all ranks, in a forward."""
    held = any(isinstance(a, Data) and a.form is Layout.GATHERED for one in args for a in one.atoms)
    if held and run.frames_forward() and target.kind.startswith(_WITH_WEIGHTS):
        run.facts.forwards.on_all_rows.setdefault(node, run.site(node))


_WITH_WEIGHTS = ("torch.nn.Conv", "torch.nn.Linear", "torch.nn.Bilinear", SEQUENTIAL)


def _run_layers(
    run: RunState,
    node: cst.BaseExpression,
    target: Instance,
    args: list[Value],
    kwargs: Keywords,
) -> tuple[Value, int]:
    """The project's layers in a container do what they do with rows.

    Those of a Sequential get what the one before gives; of others, any may be what is called.
    Returns what the container's call gives, where that is what the project's layers give, and how
    many dimensions the rows of a Sequential keep from layer to layer, 0 where they may change.
    """
    given = [_without_definition_sites(one) for one in args]
    chained = target.type == SEQUENTIAL and len(args) == 1
    giving, result = container_layers.giving_the_result(target), UNKNOWN
    passed_on = given[:1]
    for layer in container_layers.taking(target, len(args) + len(kwargs)) if any(given) else ():
        made = run.call_layer(node, layer, given, kwargs)
        passed_on.append(made)
        escaping_loaders.enter_a_model(run, [made])
        if chained and _goes_on(made):
            given = [_without_definition_sites(made)]
        if layer in giving:
            result = join(result, made)
    return result, _kept_dimensions(target, passed_on) if chained else 0


def _kept_dimensions(sequential: Instance, passed_on: list[Value]) -> int:
    """The dimensions of what goes into each layer of a Sequential, if that is one number."""
    found = {data.ndim for one in passed_on for data in one.data}
    library = (a for a in container_layers.in_any_order(sequential) if isinstance(a.type, str))
    kept = all({dimensions.of_layer(one, passed_on[:1])} == found for one in library)
    return found.pop() if len(found) == 1 and kept else 0


def _goes_on(made: Value) -> bool:
    """Whether the next layer of a Sequential is known to get this: rows, or several things."""
    rows = bool(made.data) and all(d.placement is Placement.SHARD for d in made.data)
    return rows or container_layers.holds_several(made)


def _without_definition_sites(one: Value) -> Value:
    return join(
        value(
            *(
                replace(a, definition_sites=frozenset()) if isinstance(a, Data) else a
                for a in one.atoms
            )
        )
    )


def _batch_dimension(args: list[Value]) -> int:
    return next((d.dim for one in args for d in one.data if d.placement is Placement.SHARD), 0)


def _seen(atom: Atom, dim: int, ndim: int) -> Atom:
    """What a layer of PyTorch's own makes of rows are rows, along the same dimension."""
    if not isinstance(atom, Data):
        return Number()
    return replace(atom, opaque=False, dim=dim, ndim=ndim)


def sink_method(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords, name: str
) -> Value:
    """A method of a library object: with its result unused, it takes what it gets for itself."""
    escaping_loaders.note_loaders(run, node, name, args, kwargs)
    unused = run.module.is_unused(node)
    local = False
    for expression, one in argument_pairs(node, args, kwargs):
        held = list(local_data(one))
        local |= bool(held)
        if unused:
            run.demand_held(expression, one, f"{name}()")
        for data in () if unused else held:
            if data.placement.partial or data.placement is Placement.ROWS:
                run.demand(expression, value(data), f"{name}()")
    return opaque(run, node, None, args, kwargs) if local and not unused else REPLICATED
