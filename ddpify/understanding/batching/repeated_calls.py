"""Calls that each round of a loop over a rank's rows makes for what they do, and not of its row.

``schedule.step()`` for each of the rows leaves another state where a rank has fewer of them. A call
whose result nothing takes is made for what it does to something. Where no row goes into it, and
what it does is not the same however often it is done, the rounds of all ranks are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.liveness import Names, assigned
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Const, Data, QualifiedName, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# In place, but the same however often it is done.
SETTING = frozenset("zero_ fill_ copy_ clamp_ clamp_min_ clamp_max_ relu_ abs_ sign_".split())
# So are these, of any object or library, or what they do is nothing that a training goes by.
_SAME_EACH_TIME = SETTING | frozenset(
    "eval train zero_grad requires_grad_ requires_grad detach_ retain_grad clear seed manual_seed"
    " manual_seed_all seed_all set_grad_enabled close flush seek sleep collect empty_cache"
    " synchronize copy discard setdefault clip_grad_norm_ clip_grad_value_ filterwarnings"
    " simplefilter set_description set_postfix refresh write debug info warning warn".split()
)


def acts_again(run: RunState, loop: cst.CSTNode, call: cst.Call, own: Names) -> bool:
    """Whether a call in a round changes something older by nothing that a row has."""
    if not _is_dropped(run, call) or is_of_rows(run, call.func):
        return False
    if any(is_of_rows(run, one.value) for one in call.args):
        return False
    name = (dotted(call.func) or _short(call.func)).rpartition(".")[2]
    if name in _SAME_EACH_TIME:
        return False
    if isinstance(call.func, cst.Attribute) and _holds_an_object(run, call.func.value):
        return is_older(run, loop, call.func.value, own)
    return _acts_on_its_own(run, call, name)


def is_of_rows(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this holds something of a row, or its position."""
    return any(
        isinstance(atom, Data) and (atom.placement.local or atom.is_position or run.collating)
        for atom in deep_atoms(run.seen(node))
    )


def is_older(run: RunState, loop: cst.CSTNode, target: cst.BaseExpression, own: Names) -> bool:
    """Whether what a target is in was there before the round, and no row says which part it is."""
    while isinstance(target, (cst.Attribute, cst.Subscript, cst.Call)):
        parts = target.slice if isinstance(target, cst.Subscript) else ()
        indices = [one.slice.value for one in parts if isinstance(one.slice, cst.Index)]
        if any(is_of_rows(run, one) for one in indices):
            return False
        target = target.func if isinstance(target, cst.Call) else target.value
    if not isinstance(target, cst.Name):
        return False
    return target.value not in own or shows_older(run, loop, target, own)


def shows_older(run: RunState, loop: cst.CSTNode, name: cst.Name, own: Names) -> bool:
    """Whether a name that a round sets is one more for something older: ``w = weights[0]``."""
    if is_of_rows(run, name):
        return False
    left = own - {name.value}
    given = [one for _, one in run.module.structure.given(name, loop)]
    shown = (one for one in given if isinstance(one, (cst.Name, cst.Attribute, cst.Subscript)))
    if any(is_older(run, loop, one, left) for one in shown):
        return True
    inner = run.module.structure.inside(loop, cst.For)
    over = (one.iter for one in inner if one is not loop and name.value in assigned(one.target))
    return any(_goes_through_older(run, one, left) for one in over)


def _goes_through_older(run: RunState, iterated: cst.BaseExpression, own: Names) -> bool:
    """Whether a loop goes through something older: ``zip(averages, model.parameters())``."""
    names = (one for one in walk(iterated) if isinstance(one, cst.Name))
    return any(one.value not in own and _holds_an_object(run, one) for one in names)


def _holds_an_object(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is no module, function or class of a library, and no number."""
    held = run.seen(node).atoms
    return not held or not all(isinstance(one, (QualifiedName, Const)) for one in held)


def _is_dropped(run: RunState, call: cst.Call) -> bool:
    """Whether nothing takes what a call gives; or what a list of such calls holds."""
    above = run.module.parents.get(call)
    if isinstance(above, (cst.ListComp, cst.GeneratorExp, cst.SetComp)) and above.elt is call:
        above = run.module.parents.get(above)
    return isinstance(above, cst.Expr)


def _acts_on_its_own(run: RunState, call: cst.Call, name: str) -> bool:
    """Whether a function changes what it is given, or something that it keeps."""
    library = any(isinstance(one, QualifiedName) for one in run.seen(call.func).atoms)
    return bool(call.args) or not library or changes_values(name)


def _short(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else ""
