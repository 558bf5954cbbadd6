"""Calls of a model on rows that every rank holds, while a batch is at hand.

A generator that draws pictures from fixed noise in the middle of training is one. Each rank would
do all of it, and batch normalisation would mix in the other ranks' copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.facts import WholeCall
from ddpify.understanding.libraries import kinds
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Data, Instance, Tup, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def note(
    run: Interpreter, node: cst.BaseExpression, model: Instance, given: list[Value], result: Value
) -> None:
    """Note whether a call from outside a forward takes rows, or what all ranks hold."""
    if run.frames_forward() or not given or not all(given):
        return
    local = [a for one in given for a in deep_atoms(one) if _is_local(a)]
    if local:
        rowwise = all(_is_rows(a) for a in local) and all(_is_rows(a) for a in result.atoms)
        run.facts.row_calls[model] = run.facts.row_calls.get(model, True) and rowwise
        run.facts.whole_calls.pop(node, None)
        run.facts.sharded_calls.add(node)
    elif run.in_batch_loop() and node not in run.facts.sharded_calls:
        known = run.facts.whole_calls.get(node)
        models = (known.models if known else frozenset()) | {model}
        gathered = _trains_on_all(run, model, given) or (known is not None and known.gathered)
        run.facts.whole_calls[node] = WholeCall(run.site(node), models, gathered)


def _is_local(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.placement.local


def _trains_on_all(run: Interpreter, model: Instance, given: list[Value]) -> bool:
    """Whether it is no loss, and gets gathered rows."""
    if run.no_grad or kinds.is_loss(model) or kinds.is_criterion(model):
        return False
    atoms = (atom for one in given for atom in deep_atoms(one))
    return any(isinstance(atom, Data) and atom.form == "gathered" for atom in atoms)


def _is_rows(atom: Atom) -> bool:
    if isinstance(atom, Tup):
        return all(_is_rows(inner) for item in atom.items for inner in item.atoms)
    return isinstance(atom, Data) and atom.placement is Placement.SHARD and atom.dim == 0
