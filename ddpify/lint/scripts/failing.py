"""What no run gets to, since each one surely fails before."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import argument, code_of, spreads
from ddpify.understanding.taint.call_graph import called, initialisers
from ddpify.understanding.values import Bound, Class, Function, Instance

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.script import Script


def refuses_to_shuffle(script: Script, loader: cst.Call) -> bool:
    """``DataLoader(data, shuffle=True, sampler=sampler)``, where there surely is a sampler."""
    sampler, shuffle = argument(loader, "sampler", 3), argument(loader, "shuffle", 2)
    if sampler is None or shuffle is None or script.value(shuffle.value).constant() is not True:
        return False
    held = script.value(sampler.value).atoms
    return bool(held) and all(isinstance(one, Instance) for one in held)


def refuses_arguments(script: Script, call: cst.Call) -> bool:
    """Whether a function or class of the project surely is called without an argument that it
    needs, as ``Stopper(patience=3)`` of ``__init__(self, name, patience)``.
    """
    if spreads(call) or _is_of_super(call):
        return False
    held = script.value(call.func).atoms
    function = _run_by(held) if len(held) == 1 else None
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return False
    own = isinstance(next(iter(held)), (Class, Bound))
    given = function.params
    by_place = [*given.posonly_params, *given.params][int(own) :]
    keywords = {one.keyword.value for one in call.args if one.keyword is not None}
    left = by_place[sum(1 for one in call.args if one.keyword is None) :]
    needed = (*left, *given.kwonly_params)
    return any(one.default is None and one.name.value not in keywords for one in needed)


def _is_of_super(call: cst.Call) -> bool:
    """``super().__init__()``, which in a class with more bases runs another one's."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    return isinstance(owner, cst.Call) and code_of(owner.func) == "super"


def _run_by(held: Collection[object]) -> cst.CSTNode | None:
    """The function that the one thing which is called runs, where that is plain."""
    (one,) = held
    if isinstance(one, Bound):
        one = one.function
    if isinstance(one, Class):
        if one.find("__new__") is not None or one.metaclass.atoms or one.node.decorators:
            return None
        found = one.find("__init__")
        made = found.atoms if found is not None else frozenset()
        one = next(iter(made)) if len(made) == 1 else None
    return one.node if isinstance(one, Function) else None


def failures(script: Script) -> tuple[cst.Call, ...]:
    """The calls that surely fail, and those of functions that surely get to one."""
    loaders = script.calls("torch.utils.data.DataLoader", everywhere=True)
    todo = [one for one in loaders if refuses_to_shuffle(script, one)]
    todo += (
        call
        for structure in script.structures.values()
        for call in structure.all(cst.Call)
        if refuses_arguments(script, call)
    )
    found = dict[cst.Call, None]()
    while todo:
        one = todo.pop()
        if one in found or script.control.in_try(one) or _is_put_off(script, one):
            continue
        found[one] = None
        todo += _calls_that_get_to(script, one)
    return tuple(found)


def _is_put_off(script: Script, call: cst.Call) -> bool:
    """Whether a call stands in a lambda, which somebody may call later."""
    return any(isinstance(one, cst.Lambda) for one in script.structure_of(call).up(call))


def is_after_a_failure(script: Script, node: cst.CSTNode) -> bool:
    """Whether each way to a node leads past a call that surely fails."""
    known, control = script.once(failures), script.control
    return bool(known) and control.holds_on_every_way(
        node, lambda one: any(_is_past(control, one, x) for x in known), begins=control.spawned
    )


def fails_before_training(script: Script) -> bool:
    """Whether each run surely fails before it trains."""
    trained = script.facts.backwards
    return bool(trained) and all(is_after_a_failure(script, one) for one in trained)


def _is_past(control: Control, node: cst.CSTNode, failure: cst.Call) -> bool:
    """Whether a node comes after a call in the same code, under all of its conditions."""
    structure = control.script.structure_of(failure)
    if control.script.structure_of(node) is not structure:
        return False
    if structure.function(node) is not structure.function(failure):
        return False
    order, above = structure.order, {*structure.up(failure)}
    if isinstance(node, cst.Call) and node in above:
        return True  # it is made with what the failure would give
    if node not in order or order[node] <= order[failure] or failure in structure.up(node):
        return False
    asked = {(one.statement, one.positive) for one in control.guards(node)}
    needed = {(one.statement, one.positive) for one in control.guards(failure)}
    return needed <= asked and {*structure.loops(failure)} <= {*structure.loops(node)}


def _calls_that_get_to(script: Script, failure: cst.Call) -> list[cst.Call]:
    """The calls of the function that a failure stands in under no condition."""
    structure = script.structure_of(failure)
    function = structure.function(failure)
    if not isinstance(function, cst.FunctionDef) or structure.loops(failure):
        return []
    if script.control.guards(failure) or any(structure.inside(function.body, cst.Yield)):
        return []
    sites = (site.node for site in script.control.callers(function))
    return [one for one in sites if isinstance(one, cst.Call) and _runs(script, one) == {function}]


def _runs(script: Script, call: cst.Call) -> set[cst.CSTNode]:
    """The functions of the project that a call may run first."""
    found = (*initialisers(script.facts, call), *called(script.facts, call))
    return {one.node for one in found}
