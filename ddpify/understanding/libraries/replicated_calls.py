"""Calls of a model on replicated rows, while there is a current batch.

A generator that draws pictures from fixed noise in the middle of training is one. Each rank would
do all of it, and batch normalisation would mix in the other ranks' copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.facts import Facts, ReplicatedCall
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import (
    container_layers,
    criteria,
    escaping_loaders,
    object_kinds,
    trial_runs,
)
from ddpify.understanding.model_structure import may_have_batchnorm
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    Atom,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def note(
    run: RunState, node: cst.BaseExpression, model: Instance, given: list[Value], result: Value
) -> None:
    """Note whether a call from outside a forward takes rows, or what all ranks hold."""
    if run.frames_forward() or not given:
        return
    local = [a for one in given for a in deep_atoms(one) if _is_local(a)]
    _note_work(run, node, model, shared=bool(local))
    if not all(given):
        return
    escaping_loaders.enter_a_model(run, given)
    if local:
        rowwise = all(_is_rows(a) for a in local) and all(_is_rows(a) for a in result.atoms)
        run.facts.forwards.row_calls[model] = (
            run.facts.forwards.row_calls.get(model, True) and rowwise
        )
        run.facts.forwards.replicated_calls.pop(node, None)
        run.facts.forwards.sharded_calls.add(node)
        if run.modes.at(run.facts, run.site(node), model) is not False:
            run.facts.forwards.trained_by_rows.add(model)
    elif node not in run.facts.forwards.sharded_calls:
        on_all = _trains_on_all(run, model, given)
        on_all = on_all and not is_loss_of_a_model(run.facts, node, given, result)
        if not on_all and not run.in_batch_loop() and not _normalises(run, node, model):
            return
        if on_all:
            _try_on_rows(run, node, model, [[_rows_of_a_rank(one) for one in given]])
        elif _trains_on_what_all_hold(run, node, model, given):
            _try_on_rows(run, node, model, _as_rows_of_a_rank(run, node, given))
        known = run.facts.forwards.replicated_calls.get(node)
        models = (known.models if known else frozenset()) | {model}
        gathered = on_all or (known is not None and known.gathered)
        in_loop = run.in_batch_loop() or (known is not None and known.in_loop)
        normalises = _normalises(run, node, model) or (known is not None and known.normalises)
        single = dimensions.of_value(given[0]) == 1 or (known is not None and known.single)
        run.facts.forwards.replicated_calls[node] = ReplicatedCall(
            run.site(node), models, gathered, in_loop, normalises, single
        )


def _normalises(run: RunState, node: cst.BaseExpression, model: Instance) -> bool:
    """Whether batch normalisation would take what all ranks hold for parts of the last batch."""
    if not run.current_loaders or run.modes.at(run.facts, run.site(node), model) is False:
        return False
    return may_have_batchnorm(model)


def _try_on_rows(
    run: RunState, node: cst.BaseExpression, model: Instance, ways: list[list[Value]]
) -> None:
    """Find out whether a model that only gets what all ranks hold would do with a rank's rows.

    ``ways``: its arguments, with rows in the place of some; it must do with each.
    """
    forwards = run.facts.forwards
    if run.trials or model in forwards.row_calls or model in forwards.tried_on_rows:
        return
    tried = [_treats_rows_alone(run, node, model, given) for given in ways]
    forwards.tried_on_rows[model] = bool(tried) and all(tried)


def _treats_rows_alone(
    run: RunState, node: cst.BaseExpression, model: Instance, given: list[Value]
) -> bool:
    """Whether a model, tried on rows, makes a row of each."""
    changed = run.reads_change
    with run.trying() as learned:
        made = run.call(node, value(model), given, {})
    run.undo_tried()
    run.reads_change = changed
    mixes = trial_runs.mixes(learned) or learned.forwards.statistics
    mixes = mixes or learned.rows.replicated_rows  # it meets a whole batch's
    return not mixes and bool(made.atoms) and all(_is_rows(a) for a in made.atoms)


def _rows_of_a_rank(one: Value) -> Value:
    return value(
        *(
            Data(Placement.SHARD, a.loaders)
            if isinstance(a, Data) and a.form is Layout.GATHERED
            else a
            for a in one.atoms
        )
    )


def _trains_on_what_all_hold(
    run: RunState, node: cst.BaseExpression, model: Instance, given: list[Value]
) -> bool:
    """Whether a model is trained on noise, or else on what no loader gives, beside its batches."""
    held = (a for one in given for a in deep_atoms(one) if isinstance(a, Data))
    if any(data.loaders for data in held):
        return False
    if run.no_grad or not run.in_batch_loop() or _is_without_work(run, model):
        return False
    return run.modes.at(run.facts, run.site(node), model) is not False


def _as_rows_of_a_rank(
    run: RunState, node: cst.BaseExpression, given: list[Value]
) -> list[list[Value]]:
    """Its arguments with rows for the first tensor, and for all that may be as long."""
    named = isinstance(node, cst.Call) and any(a.keyword or a.star for a in node.args)
    places = [place for place, one in enumerate(given) if _may_be_a_tensor(one)]
    ndims = [dimensions.of_value(one) or 0 for one in given]
    if named or places[:1] != [0] or not all(ndims[i] for i in places):
        return []  # a tensor of unknown dimensions may be a single sample
    loaders = frozenset[Instance]().union(*run.current_loaders)
    rows = [value(Data(Placement.SHARD, loaders, ndim=ndim)) for ndim in ndims]
    every = [rows[i] if i in places else one for i, one in enumerate(given)]
    return [[*rows[:1], *given[1:]], every][: len(places)]


def _may_be_a_tensor(one: Value) -> bool:
    return any(isinstance(atom, (Number, ReplicatedTensor, Data)) for atom in one.atoms)


def _note_work(run: RunState, node: cst.BaseExpression, model: Instance, *, shared: bool) -> None:
    """Note a model's work as that of a rank's rows, or as done by every rank in a loop."""
    if _is_without_work(run, model):
        return
    if shared:
        run.facts.forwards.shared_work.add(node)
    elif any(frame.loops for frame in run.frames):
        site = run.site(node)
        run.facts.forwards.whole_work.setdefault(node, site)
        if not run.no_grad and run.modes.at(run.facts, site, model) is not False:
            run.facts.forwards.whole_training.setdefault(node, site)


def _is_without_work(run: RunState, model: Instance) -> bool:
    """Whether it is a loss, or has no weights."""
    loss = object_kinds.is_loss(model) or criteria.is_criterion(run, model)
    layers = model.held() if container_layers.holds_layers(model) else ()
    held = [one for one in layers if isinstance(one, Instance) and object_kinds.is_model(one)]
    return loss or all(map(object_kinds.has_no_weights, held or [model]))


def _is_local(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.placement.local


def _trains_on_all(run: RunState, model: Instance, given: list[Value]) -> bool:
    """Whether it is no loss, and gets gathered rows."""
    if run.no_grad or _is_without_work(run, model):
        return False
    atoms = (atom for one in given for atom in deep_atoms(one))
    return any(isinstance(atom, Data) and atom.form is Layout.GATHERED for atom in atoms)


def is_loss_of_a_model(facts: Facts, node: cst.CSTNode, given: list[Value], result: Value) -> bool:
    """Whether a call makes a number of what a model has made of rows: as losses with weights do.

    On the rows of all ranks it is little work beside the model's.
    """
    made = [atom for atom in deep_atoms(result) if isinstance(atom, Data)]
    rows = any(atom.placement is Placement.SHARD and not atom.opaque for atom in made)
    if rows or not any(atom.reduced for atom in made):
        return False
    names = {name for one in given for atom in one.of(Data) for name in atom.names}
    names |= {argument.value for argument in node.args} if isinstance(node, cst.Call) else set()
    return any(part in facts.forwards.sharded_calls for name in names for part in walk(name))


def _is_rows(atom: Atom) -> bool:
    if isinstance(atom, Tup):
        return all(_is_rows(inner) for item in atom.items for inner in item.atoms)
    return isinstance(atom, Data) and atom.placement is Placement.SHARD and atom.dim == 0
