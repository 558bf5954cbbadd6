"""Tensors whose elements other names show, too: ``row = table[0]``, and then ``row += 1``.

What a batch adds to such a name is a write into what the other name shows. One that is made anew,
and has no other name, just becomes what is added to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import row_writes
from ddpify.understanding.batching import persistent_state
from ddpify.understanding.definition_sites import may_be_a_replicated_tensor
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Function, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_READING = ("bool", "float", "int", "len", "print", "repr", "str")
_NUMBERS = ("device", "dtype", "item", "shape", "size")
_LITERALS = (cst.BaseNumber, cst.BaseString, cst.FormattedString)


def changed(run: RunState, node: cst.AugAssign, old: Value, new: Value) -> bool:
    """Let ``name += value`` add what all ranks hold, where another name may show that, too."""
    if not isinstance(node.target, cst.Name) or not any(map(may_be_a_replicated_tensor, old.atoms)):
        return False
    if _is_made_here(run, node.target) and not _is_named_before(run.module.structure, node):
        return False
    return persistent_state.changed(run, old, [(node.value, new)])


def _is_made_here(run: RunState, name: cst.Name) -> bool:
    """Whether all that a name is assigned in its function is made anew."""
    tree = run.module.structure
    given = [value for _, value in tree.given(name, _around(tree, name))]
    return bool(given) and all(one is not None and _is_new(run, one) for one in given)


def _is_new(run: RunState, shown: cst.BaseExpression) -> bool:
    if isinstance(shown, _LITERALS) or row_writes.is_fresh(shown):
        return True
    if not isinstance(shown, cst.Call):
        return False
    called, given = run.seen(shown.func).atoms, (run.seen(one.value) for one in shown.args)
    computes = bool(called) and all(isinstance(one, (Function, Instance)) for one in called)
    # A function may give back what it gets, or a view of that.
    return computes and not any(may_be_a_replicated_tensor(a) for one in given for a in one.atoms)


def _is_named_before(tree: Structure, node: cst.AugAssign) -> bool:
    """Whether something else may be made a name for the same elements before they are changed."""
    assert isinstance(node.target, cst.Name)
    within = _around(tree, node)
    given = [tree.order[one] for one, _ in tree.given(node.target, within)]
    for name in tree.inside(within, cst.Name):
        if name.value != node.target.value or not _gets_another_name(tree, name):
            continue
        first, last = tree.order[name], tree.order[node]
        if first < last and not any(first < one < last for one in given):
            return True
    return False


def _gets_another_name(tree: Structure, name: cst.Name) -> bool:
    """Whether a name, or a view of what it stands for, is assigned or put into something."""
    shown: cst.CSTNode = name
    above = tree.parents[shown]
    while _shows(above, shown):
        shown, above = above, tree.parents[above]
    if isinstance(above, cst.Assign):
        return above.value is shown
    if isinstance(above, cst.For):
        return above.iter is shown
    if isinstance(above, cst.Arg):
        call = tree.parents[above]
        return isinstance(call, cst.Call) and not _only_reads(call)
    return isinstance(above, (cst.Element, cst.DictElement, cst.NamedExpr))


def _only_reads(call: cst.Call) -> bool:
    """Whether a call surely keeps no name for what it gets."""
    return row_writes.is_fresh(call) or dotted(call.func) in _READING


def _shows(above: cst.CSTNode, shown: cst.CSTNode) -> bool:
    """Whether an expression may give a view of another: an item, an attribute or a method of it."""
    if isinstance(above, cst.Attribute):
        return above.value is shown and above.attr.value not in _NUMBERS
    if isinstance(above, cst.Subscript):
        return above.value is shown
    return isinstance(above, cst.Call) and above.func is shown and not row_writes.is_fresh(above)


def _around(tree: Structure, node: cst.CSTNode) -> cst.CSTNode:
    return tree.function(node) or tree.tree
