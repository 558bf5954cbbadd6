"""Tensors that a function is told to write its result into: ``torch.sum(x, 0, out=sums)``.

A tensor that is made for this in the same round of the same loop, and read only afterwards, holds
the result as if the result had been assigned to its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import Atom, Data, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_MAKING = frozenset(
    "empty zeros ones full tensor Tensor empty_like zeros_like ones_like full_like rand randn"
    " new_empty new_zeros new_ones new_full new".split()
)


def are_made_for(run: RunState, call: cst.BaseExpression) -> bool:
    """Whether a call writes its results into tensors that are made for that."""
    names = _names(call)
    return bool(names) and all(_is_made_for(run, call, one) for one in names)


def _is_made_for(run: RunState, call: cst.BaseExpression, name: cst.Name) -> bool:
    tree = run.module.structure
    scope = tree.function(call) or tree.tree
    seen = [one for one in tree.inside(scope, cst.Name) if one.value == name.value]
    made = [one for one in seen if isinstance(tree.parents[one], cst.AssignTarget)]
    before = [one for one in seen if tree.order[one] < tree.order[name] and one not in made]
    alone = len(made) == 1 and tree.order[made[0]] < tree.order[name]
    if not alone or tree.loops(made[0]) != tree.loops(call):
        return False
    written = all(any(map(_is_out, (tree.parents[one], *_around(tree, one)))) for one in before)
    return written and _is_made_alone(tree.parents[tree.parents[made[0]]])


def _around(tree: Structure, name: cst.Name) -> Iterator[cst.CSTNode]:
    """What holds a tuple with this name, if one does."""
    element = tree.parents[name]
    if isinstance(element, cst.Element):
        yield tree.parents[tree.parents[element]]


def _names(call: cst.BaseExpression) -> list[cst.Name]:
    """The names of what a call writes its results into; none where something else is written."""
    given = [one.value for one in call.args if _is_out(one)] if isinstance(call, cst.Call) else []
    shown = (displayed(given[0]) or given) if given else []
    names = [one for one in shown if isinstance(one, cst.Name)]
    return names if len(names) == len(shown) else []


def _is_out(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "out"


def _is_made_alone(statement: cst.CSTNode) -> bool:
    """Whether this is ``name = torch.empty(...)``: no view of another tensor, nor another name."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    made = statement.value.func if isinstance(statement.value, cst.Call) else None
    name = made.attr if isinstance(made, cst.Attribute) else made
    return isinstance(name, cst.Name) and name.value in _MAKING


def bind(run: RunState, call: cst.BaseExpression, result: Value) -> None:
    """The tensors hold the results: those of all rows, where the call gets those of all ranks."""
    names = _names(call)
    parts = [atom.items for atom in result.atoms if isinstance(atom, Tup)]
    several = parts[0] if len(parts) == 1 and len(parts[0]) == len(names) > 1 else ()
    for name, one in zip(names, several or (result,) * len(names), strict=True):
        _bind(run, name, call, one)


def _bind(run: RunState, name: cst.Name, call: cst.BaseExpression, result: Value) -> None:
    of_all = call in run.facts.rows.regrouped
    held = value(*(_held(atom, of_all=of_all) for atom in result.atoms))
    run.facts.record(name, held)
    run.bind(name.value, held)


def _held(atom: Atom, *, of_all: bool) -> Atom:
    """What may be reduced where it is read, and not at the call."""
    if not isinstance(atom, Data):
        return atom
    if of_all and atom.placement is Placement.SHARD:
        return replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED, ndim=atom.ndim)
    return replace(atom, definition_sites=atom.counting)
