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
from ddpify.understanding.syntax import argument, dotted
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

_ALIKE = frozenset("data detach clone".split())
_CHANGING = frozenset("grad_outputs create_graph is_grads_batched".split())
_FREE_OF_SCALE = frozenset("sign zero_ sgn".split())


def read(run: RunState, node: cst.Attribute, atom: Atom) -> None:
    """Note a reading of ``x.grad``, where ``x`` is rows of the batch or a tensor by itself."""
    if run.frames_forward() or run.collating or run.in_replicated_loop():
        return
    rows = isinstance(atom, Data) and atom.placement is Placement.SHARD
    if rows and not _is_free_of_scale(run.module.structure, node):
        _note_rows(run, node, atom)  # type: ignore[arg-type]
    alike = isinstance(atom, Data) and not atom.placement.local  # as large as a batch, say
    whole = alike or isinstance(atom, (Number, ReplicatedTensor))
    if whole and run.in_batch_loop() and _requires_gradient(run.module.structure, node.value):
        run.facts.gradients.loose_gradients.setdefault(node, run.site(node))


def _note_rows(run: RunState, node: cst.Attribute, rows: Data) -> None:
    """Note a gradient of rows; one that is normalised in place has no scale."""
    structure = run.module.structure
    function = structure.function(node) or structure.tree
    alike = [one for one in structure.inside(function, cst.Attribute) if one.deep_equals(node)]
    scaled = (one for one in alike if not _is_free_of_scale(structure, one))
    written = [one for one in scaled if in_place_writes.is_written(structure, one)]
    if not written:
        run.facts.gradients.row_gradients.setdefault(node, run.site(node))
    elif not any(_is_normalised(structure, one) for one in written):
        run.demand(
            node,
            value(replace(rows, form=Layout.PACKED, definition_sites=frozenset())),
            uses.A_GRADIENT,
        )


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
    shown = argument(node, "outputs", 0) if isinstance(node, cst.Call) else None
    plain = not _rest(node) and not _CHANGING & kwargs.keys()
    held = [a for a in outputs.atoms if isinstance(a, (Data, Tup, Instance))]
    losses = all(isinstance(a, Data) and (a.placement.partial or a.reduced) for a in held)
    rows = any(isinstance(a, Data) and a.placement.local for a in deep_atoms(inputs))
    alone = run.module.editable and not run.frames_forward()
    if shown is None or not (plain and losses and held and alone) or rows:
        run.facts.gradients.taken_gradients.setdefault(node, run.site(node))
        return
    run.facts.gradients.averaged_gradients.setdefault(node, run.site(node))
    run.demand(shown.value, outputs, uses.BACKWARD)


def _rest(node: cst.BaseExpression) -> list[cst.Arg]:
    """The arguments behind the outputs and the inputs that are given by position."""
    given = [a for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    return given[2:]


def of_others(run: RunState, node: cst.BaseExpression, outputs: Value, inputs: Value) -> None:
    """Note ``torch.autograd.grad(loss, x)`` of a batch's loss, where all ranks hold the same x.

    A rank gets the gradient of its own samples, which nothing averages.
    """
    of_batch = any(isinstance(a, Data) and (a.placement.local or a.reduced) for a in outputs.atoms)
    alike = any(
        isinstance(a, (Number, ReplicatedTensor))
        or (isinstance(a, Data) and a.placement is Placement.REPLICATE)
        for a in deep_atoms(inputs)
    )
    if of_batch and alike and run.in_batch_loop():
        run.facts.gradients.loose_gradients.setdefault(node, run.site(node))


def of_replicated(run: RunState, node: cst.CSTNode, inputs: Value) -> None:
    """Note ``torch.autograd.grad(u, x)`` where all ranks hold the same x: each needs all of it."""
    if not any(isinstance(a, Data) and a.placement.local for a in deep_atoms(inputs)):
        run.facts.gradients.replicated_gradients.setdefault(node, run.site(node))


def _is_free_of_scale(structure: Structure, node: cst.CSTNode) -> bool:
    """Whether only the sign of a gradient is read, whether there is one, or it is set."""
    above = structure.parents[node]
    if isinstance(above, (cst.Comparison, cst.AssignTarget, cst.Del)):
        return True
    if isinstance(above, cst.Arg):
        call = structure.parents[above]
        return isinstance(call, cst.Call) and dotted(call.func) in ("torch.sign", "torch.sgn")
    if not isinstance(above, cst.Attribute):
        return False
    if above.attr.value in _FREE_OF_SCALE:
        return True
    called = structure.parents[above]
    whole = called if isinstance(called, cst.Call) and called.func is above else above
    return above.attr.value in _ALIKE and _is_free_of_scale(structure, whole)


def _requires_gradient(structure: Structure, tensor: cst.BaseExpression) -> bool:
    """Whether the file asks for the gradient of a tensor that has this name."""
    name = dotted(tensor)
    return name is not None and name in set(_asked_for(structure))


def _asked_for(structure: Structure) -> Iterator[str | None]:
    """The names of what requires a gradient, by an attribute, a method or where it is made."""
    for target in structure.all(cst.AssignTarget):
        if isinstance(target.target, cst.Attribute) and target.target.attr.value == "requires_grad":
            yield dotted(target.target.value)
    for call in structure.all(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_":
            yield dotted(call.func.value)
            yield _assigned(structure, call)
        given = argument(call, "requires_grad")
        if given is not None and dotted(given.value) == "True":
            yield _assigned(structure, call)


def _assigned(structure: Structure, made: cst.CSTNode) -> str | None:
    above = structure.parents[made]
    first = above.targets[0].target if isinstance(above, cst.Assign) else None
    return dotted(first) if first is not None else None
