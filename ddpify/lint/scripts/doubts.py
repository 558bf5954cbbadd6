"""What may keep code from running on every rank, as far as is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.control import MAY_BE_RANK, Control
from ddpify.lint.scripts.one_process import is_kept_to_one_process, runs_alone
from ddpify.lint.scripts.set_by_rank import is_for_the_others, is_set_by_rank
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of, parameters, spreads
from ddpify.understanding.taint.call_graph import called, passed
from ddpify.understanding.taint.constant_keys import constant_key
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Bound, Method

_A_RANK = re.compile(r"(?i)(?<![a-z])(local|global|node)?_?rank(?![a-z])")
# Questions that a process without a rank answers otherwise than all that have one.
_OF_ANY_RANK = {
    (cst.NotEqual, "-1"): True,
    (cst.GreaterThan, "-1"): True,
    (cst.GreaterThanEqual, "0"): True,
    (cst.Equal, "-1"): False,
    (cst.LessThanEqual, "-1"): False,
    (cst.LessThan, "0"): False,
}
# What a name may keep of a question: calls give something else.
_PLAIN = (cst.Name, cst.Attribute, cst.Comparison, cst.BooleanOperation, cst.UnaryOperation,
          cst.IfExp)  # fmt: skip


def may_be_guarded(
    control: Control, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Whether anything unknown may keep a node from running on every rank.

    Conditions on the rank count, on objects that only some ranks have, on decorators that are
    not known, and a function that nothing in the project calls.
    """
    if control.starts_processes(node) or is_kept_to_one_process(control, node):
        return True
    if any(
        _may_depend_on_rank(control, guard.test)
        and not (is_for_the_others(control, guard) or asks_for_any_rank(guard))
        for guard in control.guards(node)
    ):
        return True
    function = control.script.structure_of(node).function(node)
    if function is None:
        return bool(control.spawned)  # the parent process alone
    if function in control.spawned:
        return control.is_ruled_out_where_spawned(node) or control.helps_ranks(function)
    if function in seen:
        return True
    if any(not _harmless(control, d.decorator) for d in function.decorators):
        return True
    callers = control.callers(function)
    if not callers:
        return not control.script.strict
    inner = seen | {function}
    return all(
        may_be_guarded(control, site.node, inner)
        or runs_alone(control, site.node)
        or _says_no(control, node, function, site.node)
        for site in callers
    )


def asks_for_any_rank(guard: Guard) -> bool:
    """``if local_rank != -1:``, and ``else:`` of ``if rank < 0:``: all ranks of a run get there."""
    test = guard.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    asked = type(target.operator), code_of(target.comparator)
    return bool(_A_RANK.search(code_of(test.left))) and _OF_ANY_RANK.get(asked) is guard.positive


def _says_no(
    control: Control, node: cst.CSTNode, function: cst.FunctionDef, call: cst.CSTNode
) -> bool:
    """``save(model, is_best=False)``, for what stands under ``if is_best:`` in the function; also
    where a call leaves out what is False or None then.
    """
    asked = {
        guard.test.value: guard.positive
        for guard in control.guards(node)
        if isinstance(guard.test, cst.Name)
    }
    if not asked or not isinstance(call, cst.Call):
        return False
    bound = any(isinstance(one, Bound) for one in control.script.value(call.func).atoms)
    told = {
        name: given.value
        for one in called(control.script.facts, call)
        if one.node is function
        for given, name in passed(one, int(bound), call)
    }
    if not spreads(call):
        told = {**_defaults(function), **told}
    return any(
        isinstance(value, cst.Name)
        and value.value in ("True", "False", "None")
        and (value.value == "True") is not asked[name]
        for name, value in told.items()
        if name in asked and not _is_set_again(control, function, name)
    )


def _is_set_again(control: Control, function: cst.FunctionDef, name: str) -> bool:
    """``path = path or "out.csv"``, in the function that has the parameter."""
    return any(
        isinstance(edge.node, (cst.Assign, cst.AnnAssign, cst.AugAssign))
        for edge in control.script.flow.edges_into({("name", function, name)})
    )


def _defaults(function: cst.FunctionDef) -> dict[str, cst.BaseExpression]:
    """What the parameters of a function are where a call leaves them out."""
    named = parameters(function)
    return {one.name.value: one.default for one in named if one.default is not None}


def _may_depend_on_rank(control: Control, test: cst.BaseExpression) -> bool:
    """Whether a test reads something that is set under a condition on the rank, or unknown."""
    if any(_compares_unknown(control, one) for one in walk(test)):
        return True
    if control.asks_rank(test) or any(map(MAY_BE_RANK.search, _wordings(control, test))):
        return True
    if is_set_by_rank(control, test):
        return True
    known = ("torch.", "os.path.", "builtins.", "math.", "sys.", "os.environ", "time.")
    for call in walk(test):
        if isinstance(call, cst.Call) and _reads_switch(control, call):
            return True
        if isinstance(call, cst.Call) and not control.script.value(call.func).atoms:
            return True
        if isinstance(call, cst.Call) and any(
            not name.startswith(known) for name in control.script.names(call.func)
        ):
            return True
    return False


def _reads_switch(control: Control, call: cst.Call) -> bool:
    """``os.environ.get("DEBUG")``: each process has an environment of its own."""
    names = control.script.names(call.func)
    return not control.script.labels(call) and bool(names & {"os.environ.get", "os.getenv"})


def _wordings(control: Control, test: cst.BaseExpression) -> Iterator[str]:
    """A test, and the questions whose answers are kept in the names in it.

    ``saves = options.rank in (-1, 0)``, also as an argument that an object keeps.
    """
    yield code_of(test)
    todo, seen = [test], set[Location]()
    while todo:
        for one, key in _read(todo.pop()):
            fresh = set(control.locations(one)) - seen
            seen |= fresh if key is None else set()
            for edge in control.script.flow.edges_into(fresh):
                other = key is not None and edge.key not in (None, key)
                if isinstance(edge.value, _PLAIN) and not other:
                    yield code_of(edge.value)
                    todo.append(edge.value)


def _read(test: cst.CSTNode) -> Iterator[tuple[cst.Name | cst.Attribute, str | None]]:
    """The names and attributes in a test; of ``settings["every"]`` with the key that is asked."""
    keys = {one.value: constant_key(one) for one in walk(test) if isinstance(one, cst.Subscript)}
    for one in walk(test):
        if isinstance(one, (cst.Name, cst.Attribute)):
            yield one, keys.get(one)


def _compares_unknown(control: Control, node: cst.CSTNode) -> bool:
    """``x == 0`` of something that nothing in sight sets: the first of the ranks, perhaps."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    target = node.comparisons[0]
    if not isinstance(target.operator, cst.Equal) or code_of(target.comparator) != "0":
        return False
    held = control.script.value(node.left).atoms
    if not isinstance(node.left, (cst.Name, cst.Attribute)):
        return False
    if not all(isinstance(a, Method) for a in held):  # what a class does not define
        return False
    return all(edge.offers for edge in control.script.flow.edges_into(control.locations(node.left)))


def _harmless(control: Control, decorator: cst.BaseExpression) -> bool:
    target = decorator.func if isinstance(decorator, cst.Call) else decorator
    names = control.script.names(target)
    plain = ("torch.", "builtins.", "functools.", "hydra.", "click.", "dataclasses.", "typing.")
    return bool(names) and all(name.startswith(plain) for name in names)
