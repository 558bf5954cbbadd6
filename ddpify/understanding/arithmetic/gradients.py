"""Gradients that a script reads, other than those of a model's parameters.

A reduced loss has gradients as many times too large as there are ranks, since
DistributedDataParallel divides those of the parameters by that number. Nothing divides the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords
from ddpify.understanding.batching import in_place_writes
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import argument, code_of, dotted
from ddpify.understanding.values import (
    UNKNOWN,
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

_ALIKE = frozenset("data detach clone".split())
_CHANGING = frozenset("grad_outputs create_graph is_grads_batched".split())
_SAME = frozenset("data detach".split())  # what changes the same elements
_FREE_OF_SCALE = frozenset("sign sgn".split())


def read(run: RunState, node: cst.Attribute, atom: Atom) -> None:
    """Note a reading of ``x.grad``, where ``x`` is rows of the batch or a tensor by itself."""
    if run.frames_forward() or run.collating or run.in_replicated_loop():
        return
    structure = run.module.structure
    if isinstance(atom, Data) and atom.placement is Placement.SHARD:
        run.facts.gradients.of_rows.add(node)
        if not _is_free_of_scale(structure, node):
            _note_rows(run, node, atom)
    if _is_whole(atom) and run.in_batch_loop() and _asks_for_whole(run):
        _note_whole(run, node)


def _is_whole(atom: Atom) -> bool:
    """Whether this is no parameter of a model, and the same on all ranks: as large as a batch, say.

    It may be anything whose value is not known, such as what an optimizer of the project steps:
    gradients that are averaged twice are the same.
    """
    alike = isinstance(atom, Data) and not atom.placement.local
    return alike or isinstance(atom, (Number, ReplicatedTensor))


def _note_whole(run: RunState, node: cst.Attribute) -> None:
    """Note a gradient of what all ranks hold, of which each has the part of its own samples."""
    structure = run.module.structure
    if _is_unread(structure, node):
        return
    gradients = run.facts.gradients
    averaged = run.module.editable and not _is_changed(structure, node)
    noted = gradients.whole_gradients if averaged else gradients.loose_gradients
    noted.setdefault(node, run.site(node))


def _note_rows(run: RunState, node: cst.Attribute, rows: Data) -> None:
    """Note a gradient of rows; one that is normalised in place has no scale.

    That of rows that an optimizer trains is that of one process, and may be changed in place.
    """
    structure = run.module.structure
    if _is_changed(structure, node) and _are_trained(run, node, rows):
        return
    function = structure.function(node) or structure.tree
    alike = [one for one in structure.inside(function, cst.Attribute) if one.deep_equals(node)]
    scaled = (one for one in alike if not _is_free_of_scale(structure, one))
    written = [one for one in scaled if _is_changed(structure, one, by_name=len(alike) > 1)]
    written = [] if _are_trained(run, node, rows) else written
    if not written:
        run.facts.gradients.row_gradients.setdefault(node, run.site(node))
    elif not any(_is_normalised(structure, one) for one in written):
        run.demand(
            node,
            value(replace(rows, form=Layout.PACKED, definition_sites=frozenset())),
            uses.A_GRADIENT,
        )


def _is_changed(structure: Structure, node: cst.BaseExpression, *, by_name: bool = True) -> bool:
    """Whether a gradient is changed in place here; or by the name that it gets, if that counts."""
    above = structure.parents[node]
    if isinstance(above, cst.Attribute) and above.attr.value in _SAME:
        return _is_changed(structure, _called(structure, above), by_name=by_name)
    if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Name):
        return by_name and _is_changed_by_name(structure, above.targets[0].target)
    return in_place_writes.is_written(structure, node)


def _is_changed_by_name(structure: Structure, name: cst.Name) -> bool:
    function = structure.function(name) or structure.tree
    alike = (one for one in structure.inside(function, cst.Name) if one.value == name.value)
    return any(
        in_place_writes.is_written(structure, one)
        for one in alike
        if not isinstance(structure.parents[one], cst.AssignTarget)
    )


def _are_trained(run: RunState, node: cst.Attribute, rows: Data) -> bool:
    """Whether an optimizer has surely been told of these rows before a line that reads them."""
    told = [run.facts.gradients.trained_rows.get(name) for name in rows.names]
    return bool(told) and all(
        site is not None and site.module is run.module and _is_before(run, site.node, node)
        for site in told
    )


def _is_before(run: RunState, call: cst.CSTNode, node: cst.CSTNode) -> bool:
    structure, module = run.module.structure, run.module
    alike = structure.function(call) is structure.function(node)
    return alike and module.offsets(call) < module.offsets(node)


def _is_normalised(structure: Structure, node: cst.CSTNode) -> bool:
    """Whether a gradient is divided in place, as by its norm, or set."""
    above = structure.parents[node]
    if isinstance(above, cst.AugAssign):
        return isinstance(above.operator, cst.DivideAssign)
    return isinstance(above, cst.AssignTarget) or (
        isinstance(above, cst.Attribute) and above.attr.value in ("div_", "copy_")
    )


def of_inputs(
    run: RunState, node: cst.BaseExpression, outputs: Value, inputs: Value
) -> Value | None:
    """``torch.autograd.grad(outputs, inputs)`` of rows; None for other inputs.

    A rank's sum has the gradients of the sum over all ranks. A reduced loss must be scaled.
    """
    rows = _rows(inputs)
    if not rows:
        return None
    names = [name for one in rows for name in one.names]
    run.facts.gradients.taken_of_rows[node] = run.site(node), frozenset(names)
    held = [a for a in outputs.atoms if isinstance(a, Data)]
    if held and all(a.placement is Placement.SUM for a in held):
        return value(replace(rows[0], definition_sites=frozenset(), form=Layout.PIECES))
    shown = argument(node, "outputs", 0) if isinstance(node, cst.Call) else None
    if shown is not None and any(a.reduced for a in held) and not run.frames_forward():
        run.facts.gradients.scaled_losses.setdefault(shown.value, run.site(shown.value))
        if run.no_grad:
            run.facts.gradients.scaled_without_graph.add(shown.value)
        return value(replace(rows[0], definition_sites=frozenset(), form=Layout.PIECES))
    return None


def beside_reduced(inputs: Value, gradient: Value) -> Value:
    """The gradient of rows is rows, also where the loss is reduced that it is taken of."""
    if not _rows(inputs):
        return gradient
    return value(*(a for a in gradient.atoms if not (isinstance(a, Data) and a.reduced)))


def _rows(inputs: Value) -> list[Data]:
    """The rows of a rank among what a gradient is asked of, if nothing else of a batch is."""
    local = [a for a in deep_atoms(inputs) if isinstance(a, Data) and a.placement.local]
    return local if all(a.placement is Placement.SHARD for a in local) else []


def of_parameters(
    run: RunState, node: cst.BaseExpression, outputs: Value, inputs: Value, kwargs: Keywords
) -> None:
    """Note ``torch.autograd.grad(loss, parameters)``: of a reduced loss, ranks can average it.

    No gradient goes through that, and in a forward no loss is reduced.
    """
    rows = any(isinstance(a, Data) and a.placement.local for a in deep_atoms(inputs))
    averaged = not rows and _of_reduced(run, node, outputs, kwargs)
    gradients = run.facts.gradients
    noted = gradients.averaged_gradients if averaged else gradients.taken_gradients
    noted.setdefault(node, run.site(node))


def _of_reduced(run: RunState, node: cst.BaseExpression, outputs: Value, kwargs: Keywords) -> bool:
    """Whether the gradients of a loss can be averaged, for which it is to be reduced."""
    shown = argument(node, "outputs", 0) if isinstance(node, cst.Call) else None
    plain = not _rest(node) and not _CHANGING & kwargs.keys()
    held = [a for a in outputs.atoms if isinstance(a, (Data, Tup, Instance))]
    losses = all(isinstance(a, Data) and (a.placement.partial or a.reduced) for a in held)
    alone = run.module.editable and not run.frames_forward()
    if shown is None or not (plain and losses and held and alone):
        return False
    run.demand(shown.value, outputs, uses.BACKWARD)
    return True


def _rest(node: cst.BaseExpression) -> list[cst.Arg]:
    """The arguments behind the outputs and the inputs that are given by position."""
    given = [a for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    return given[2:]


def of_others(
    run: RunState, node: cst.BaseExpression, outputs: Value, inputs: Value, kwargs: Keywords
) -> None:
    """Note ``torch.autograd.grad(loss, x)`` of a batch's loss, where all ranks hold the same x.

    A rank gets the gradient of its own samples, which is averaged if the loss is reduced.
    """
    of_batch = any(isinstance(a, Data) and (a.placement.local or a.reduced) for a in outputs.atoms)
    alike = any(
        isinstance(a, (Number, ReplicatedTensor))
        or (isinstance(a, Data) and a.placement is Placement.REPLICATE)
        for a in deep_atoms(inputs)
    )
    if of_batch and alike and run.in_batch_loop():
        gradients = run.facts.gradients
        averaged = not _rows(inputs) and _of_reduced(run, node, outputs, kwargs)
        noted = gradients.whole_gradients if averaged else gradients.loose_gradients
        noted.setdefault(node, run.site(node))


def of_replicated(run: RunState, node: cst.CSTNode, inputs: Value) -> None:
    """Note ``torch.autograd.grad(u, x)`` where all ranks hold the same x: each needs all of it."""
    if not any(isinstance(a, Data) and a.placement.local for a in deep_atoms(inputs)):
        run.facts.gradients.replicated_gradients.setdefault(node, run.site(node))


def _is_unread(structure: Structure, node: cst.CSTNode) -> bool:
    """Whether it is only asked whether there is a gradient, or it is set."""
    above = structure.parents[node]
    if isinstance(above, (cst.AssignTarget, cst.Del)) or _is_compared(above, "None"):
        return True
    if not isinstance(above, cst.Attribute):
        return False
    return above.attr.value == "zero_" or (
        above.attr.value in _ALIKE and _is_unread(structure, _called(structure, above))
    )


def _is_free_of_scale(structure: Structure, node: cst.CSTNode) -> bool:
    """Whether only the sign of a gradient is read, if it is read at all."""
    above = structure.parents[node]
    if _is_unread(structure, node) or _is_compared(above, "0"):
        return True
    if isinstance(above, cst.Arg):
        call = structure.parents[above]
        return isinstance(call, cst.Call) and dotted(call.func) in ("torch.sign", "torch.sgn")
    if not isinstance(above, cst.Attribute):
        return False
    if above.attr.value in _FREE_OF_SCALE:
        return True
    return above.attr.value in _ALIKE and _is_free_of_scale(structure, _called(structure, above))


def _is_compared(node: cst.CSTNode, literal: str) -> bool:
    compared = node.comparisons if isinstance(node, cst.Comparison) else ()
    return len(compared) == 1 and code_of(compared[0].comparator) == literal


def _called(structure: Structure, method: cst.Attribute) -> cst.BaseExpression:
    """The call of a method, or the attribute where it is none."""
    above = structure.parents[method]
    return above if isinstance(above, cst.Call) and above.func is method else method


def _asks_for_whole(run: RunState) -> bool:
    """Whether the project asks for the gradient of something that is no parameter of a model."""
    asked = (one for file in run.project.files for one in _asked_for(file.structure))
    held = (run.facts.values.get(one, UNKNOWN).atoms for one in asked)
    return any(any(map(_is_whole, atoms)) for atoms in held)


def _asked_for(structure: Structure) -> Iterator[cst.BaseExpression]:
    """What is told to require a gradient: by an attribute, a method or where it is made."""
    for target in structure.all(cst.AssignTarget):
        if isinstance(target.target, cst.Attribute) and target.target.attr.value == "requires_grad":
            yield target.target.value
    for call in structure.all(cst.Call):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
        if name == "requires_grad_" and isinstance(call.func, cst.Attribute):
            yield call.func.value
        given = argument(call, "requires_grad")
        if given is not None and dotted(given.value) != "False":
            yield call
        if name == "Parameter" and not _is_attribute(structure, call):
            yield call


def _is_attribute(structure: Structure, made: cst.Call) -> bool:
    """Whether what is made here gets the name of an attribute, as a model's own parameters do."""
    above = structure.parents[made]
    return isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Attribute)
