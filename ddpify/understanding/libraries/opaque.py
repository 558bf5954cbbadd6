"""Calls into code that ddpify cannot read: whatever they get may be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs, local_data
from ddpify.understanding.arithmetic import across_samples, tensor_pairs
from ddpify.understanding.batching import collating, handmade_batches, per_sample_lists
from ddpify.understanding.forms import Form, Layout
from ddpify.understanding.libraries import (
    escaping_loaders,
    parts_of_receiver,
    per_sample_functions,
    side_effects,
)
from ddpify.understanding.libraries.instances import library_object, new_optimizer
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    Atom,
    Data,
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
    side_effects.acts_unseen(run, node, method, args, kwargs)
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
