"""Code for the case of one process, in a script that can also run on several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.no_group import starts_no_group
from ddpify.lint.scripts.script_kinds import DISTRIBUTED, MAY_ASK
from ddpify.understanding.libraries.distributed import (
    DDP,
    FSDP,
    FULLY_SHARD,
    INIT_GROUP,
    SAMPLER,
    SPAWNS,
    is_distributed_sampler,
    is_wrapper,
)
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.libraries.runtime_names import INIT, WRAP
from ddpify.understanding.structure import Guard, leaves, rest_of_block, walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import ANY_RANK, TOLD, WORLD, asks_whether_distributed
from ddpify.understanding.values import Const

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control

_STARTS = frozenset({INIT_GROUP, DDP, FSDP, FULLY_SHARD, SAMPLER, INIT, WRAP})
_ORDER = (cst.LessThan, cst.GreaterThanEqual)
_SIZE = re.compile(r"(?i)(\w+\.)*world_?size")
_NAMES_SIZE = re.compile(r"(?i)world_?size")
_ASKS_SIZE = re.compile(r"get_world_size|WORLD_SIZE|device_count\(\)\s*\*|--world")


def concerns_no_rank(control: Control, node: cst.CSTNode) -> bool:
    """Whether what a distributed script does at a node is done by one process alone."""
    return control.script.kind == DISTRIBUTED and (
        tests_something(control)
        or has_one_rank(control)
        or distributes_never(control)
        or starts_no_group(control)
        or runs_alone(control, node)
    )


def distributes_never(control: Control) -> bool:
    """Whether all wrappers and groups stand under a condition that is set to False, for good."""
    script = control.script
    places = [wrap.site.node for wrap in script.wraps] + script.calls(INIT_GROUP, everywhere=True)
    return bool(places) and all(
        any(one.positive and _is_set_off(control, one.test) for one in control.guards(place))
        for place in places
    )


def _is_set_off(control: Control, test: cst.BaseExpression) -> bool:
    """``args.distributed`` after ``args.distributed = False``, ``0 and x``.

    An option may be given, whatever its default.
    """
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _is_set_off(control, test.left) or _is_set_off(control, test.right)
    if not isinstance(test, (cst.Name, cst.Attribute)):
        return isinstance(test, cst.Integer) and test.evaluated_value == 0
    edges = control.script.flow.edges_into(control.locations(test))
    assigned = [edge.value for edge in edges if not edge.offers]
    return bool(assigned) and all(
        value is not None and code_of(value) == "False" for value in assigned
    )


def has_one_rank(control: Control) -> bool:
    """Whether all process groups, and what starts the ranks, are told of one by a number."""
    groups = control.script.calls(INIT_GROUP, everywhere=True)
    sizes = [argument(one, "world_size", 3) for one in groups]
    spawns = control.script.calls(*SPAWNS, everywhere=True)
    sizes += [argument(one, "nprocs", 2) for one in spawns]
    return bool(groups) and (
        all(one is not None and control.script.value(one.value).constant() == 1 for one in sizes)
        or _counts_to_one(control)
        or all(_is_told_a_number(control, one) for one in groups)
    )


def _is_told_a_number(control: Control, group: cst.Call) -> bool:
    """``init_process_group(rank=0)``: whichever rank this is, it is one."""
    given = argument(group, "rank", 4)
    if given is None or control.script.labels(given.value) & (ANY_RANK - {TOLD}):
        return False
    held = control.script.value(given.value).atoms
    return bool(held) and all(isinstance(one, Const) and type(one.value) is int for one in held)


@lru_cache(maxsize=4)  # it is asked about each finding
def _counts_to_one(control: Control) -> bool:
    """Whether a script sets the number of ranks to one, and nowhere asks for it."""
    texts = (control.script.source.text, *(x.source.text for x in control.script.project.files))
    if any(map(_ASKS_SIZE.search, texts)) or not any(map(_NAMES_SIZE.search, texts)):
        return False
    written = [
        edge.value
        for structure in control.script.structures.values()
        for assign in structure.all(cst.Assign)
        for edge in control.script.flow.edges_at(assign)
        if any(isinstance(x[-1], str) and _SIZE.fullmatch(x[-1]) for x in edge.targets)
    ]
    return bool(written) and all(one is not None and code_of(one) == "1" for one in written)


def runs_alone(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is only reached where a condition has found that nothing is distributed.

    On its other side only, such a condition has a sampler, a wrapper, a process group, or asks for
    the rank.
    """
    return _on_every_way(control, node, is_kept_to_one_process)


def never_runs(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition keeps a node from running, whose answer is the same in all calls."""
    return _on_every_way(control, node, _is_ruled_out)


def _is_ruled_out(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition in its function keeps a node from running."""
    for guard in control.guards(node):
        answer = control.script.value(guard.test).constant()
        if isinstance(answer, bool) and answer is not guard.positive:
            return True
    return False


def _on_every_way(
    control: Control,
    node: cst.CSTNode,
    holds: Callable[[Control, cst.CSTNode], bool],
    seen: frozenset[cst.CSTNode] = frozenset(),
) -> bool:
    """Whether something holds of a node, or of each call by which its function is reached."""
    if holds(control, node):
        return True
    function = control.script.structure_of(node).function(node)
    if function is None or function in seen:
        return False
    callers = control.callers(function)
    inner = seen | {function}
    return bool(callers) and all(
        _on_every_way(control, site.node, holds, inner) for site in callers
    )


def is_kept_to_one_process(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition in its function keeps a node to runs that are not distributed."""
    return any(_finds_one_process(control, guard) for guard in control.guards(node)) or any(
        _is_no_rank(one.test) or _counts_one(control, Guard(one.test, True, one))
        for one in _asserted(control, node)
    )


def _asserted(control: Control, node: cst.CSTNode) -> Iterator[cst.Assert]:
    """The assertions that stand before a node in the blocks around it."""
    structure = control.script.structure_of(node)
    below = node
    for above in structure.up(node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            end = structure.order[below]
            before = [one for one in above.body if structure.order[one] < end]
            lines = [one for one in before if isinstance(one, cst.SimpleStatementLine)]
            yield from (x for one in lines for x in one.body if isinstance(x, cst.Assert))
        below = above


def _finds_one_process(control: Control, guard: Guard) -> bool:
    above = guard.statement
    if not isinstance(above, (cst.If, cst.IfExp)) or not MAY_ASK.search(code_of(above.test)):
        return False
    if (_is_no_rank(above.test) and guard.positive) or _counts_one(control, guard):
        return True
    if _finds_no_rank(control, above.test, guard.positive):
        return True
    if _finds_no_rank(control, above.test, not guard.positive):
        return False  # here each process has its rank
    if control.asks_rank(above.test):
        return False
    sides: list[cst.CSTNode | None] = [above.body, above.orelse]
    here, other = sides if guard.positive else reversed(sides)
    if guard.left_early:
        here = None  # the rest of the block
    elif guard.positive and other is None and isinstance(above, cst.If) and leaves(above.body):
        rest = rest_of_block(control.script.structure_of(above), above)
        return any(_distributes(control, one) for one in rest)
    others = [other] if other is not None else _answered_otherwise(control, above, guard.positive)
    return any(_distributes(control, one) for one in others) and not _distributes(control, here)


def _answered_otherwise(
    control: Control, asked: cst.If | cst.IfExp, yes: bool
) -> list[cst.CSTNode]:
    """The blocks of ``if x == b:`` for ``if x == a:``, of ``if x:`` for ``if not x:``."""
    found: list[cst.CSTNode] = []
    for structure in control.script.structures.values():
        for one in structure.all(cst.If):
            if yes and one is not asked and _excludes(asked.test, one.test):
                found.append(one.body)
    return found


def _excludes(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two tests of the same expression cannot both hold."""
    if _is_not(one) != _is_not(other):
        plain = [x.expression if _is_not(x) else x for x in (one, other)]  # type: ignore[attr-defined]
        return code_of(plain[0]) == code_of(plain[1])
    if not (isinstance(one, cst.Comparison) and isinstance(other, cst.Comparison)):
        return False
    (left, a), (right, b) = ((x.left, x.comparisons[0]) for x in (one, other))
    same = isinstance(a.operator, cst.Equal) and isinstance(b.operator, cst.Equal)
    literal = isinstance(a.comparator, cst.SimpleString | cst.Integer) and isinstance(
        b.comparator, type(a.comparator)
    )
    return (
        same
        and literal
        and code_of(left) == code_of(right)
        and (code_of(a.comparator) != code_of(b.comparator))
    )


def _is_not(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)


def _is_no_rank(test: cst.BaseExpression) -> bool:
    """``local_rank == -1``, also as one of several conditions: the launcher has said none."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _is_no_rank(test.left) or _is_no_rank(test.right)
    if not isinstance(test, cst.Comparison) or not asks_whether_distributed(test):
        return False
    target = test.comparisons[0]
    return isinstance(target.operator, cst.Equal) and "rank" in code_of(test.left)


def _finds_no_rank(control: Control, test: cst.BaseExpression, positive: bool) -> bool:
    """``gpu is None``, where the launch sets it to a rank; the other side of ``is not None``."""
    if not isinstance(test, cst.Comparison) or code_of(test.comparisons[0].comparator) != "None":
        return False
    operator = cst.Is if positive else cst.IsNot
    asks = isinstance(test.comparisons[0].operator, operator)
    return asks and bool(control.script.labels(test.left) & ANY_RANK)


def _counts_one(control: Control, guard: Guard) -> bool:
    """``world_size == 1``, or the other side of ``world_size > 1``."""
    test = guard.test
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        sides = (test.left, test.right) if guard.positive else ()
        return any(_counts_one(control, replace(guard, test=side)) for side in sides)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    if WORLD not in control.script.labels(test.left) or not isinstance(
        target.comparator, cst.Integer
    ):
        return False
    bound, several = int(target.comparator.evaluated_value), not guard.positive
    kind = type(target.operator)
    if kind in (cst.Equal, cst.LessThanEqual):
        return bound == 1 and not several
    if kind in (cst.NotEqual, cst.GreaterThan):
        return bound == 1 and several
    return bound == 2 and several == (kind is cst.GreaterThanEqual) and kind in _ORDER


def _distributes(control: Control, side: cst.CSTNode | None) -> bool:
    if side is None:
        return False
    asked = [one.test for one in walk(side) if isinstance(one, (cst.If, cst.IfExp))]
    return any(map(control.asks_rank, asked)) or any(
        isinstance(one, cst.Call) and _starts(control, one) for one in control.script.reached(side)
    )


def _starts(control: Control, call: cst.Call) -> bool:
    names = control.script.names(call.func)
    made = [one for one in control.script.instances(call) if one.site is call]
    spawns = any(name.startswith("torch.multiprocessing.s") for name in names)
    return (
        spawns
        or bool(names & _STARTS)
        or any(
            is_wrapper(one)
            or is_distributed_sampler(one)
            or (is_loader(one) and control.script.is_sharded(one))
            for one in made
        )
    )


def joins_no_group(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is in a function that no path through the start of the group leads to.

    Only where the project starts the group in a function of its own.
    """
    starts = {
        control.script.structure_of(call).function(call)
        for call in control.script.calls(INIT_GROUP, everywhere=True)
    }
    function = control.script.structure_of(node).function(node)
    if not starts or None in starts or function is None:
        return False
    starting = {one for start in starts for one in _above(control, start)}
    return None not in starting and not starting & _above(control, function)


def _above(control: Control, function: cst.FunctionDef | None) -> set[cst.FunctionDef | None]:
    """A function and all that lead to it; None for the file itself."""
    found: set[cst.FunctionDef | None] = {function}
    todo = [function]
    while todo:
        one = todo.pop()
        for site in _places_of_calls(control, one) if one is not None else ():
            caller = control.script.structure_of(site).function(site)
            if caller not in found:
                found.add(caller)
                todo.append(caller)
    return found


def _places_of_calls(control: Control, function: cst.FunctionDef) -> list[cst.CSTNode]:
    """Where a function is called; of one that no run gets to, what names it so."""
    known = [site.node for site in control.callers(function)]
    name = function.name.value
    return known or [
        call
        for structure in control.script.structures.values()
        for call in structure.all(cst.Call)
        if (isinstance(call.func, cst.Attribute) and call.func.attr.value == name)
        or (isinstance(call.func, cst.Name) and call.func.value == name)
    ]


def is_called_from_elsewhere(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is in a library: in a function that nothing in sight calls."""
    if control.script.is_whole_program:
        return False
    function = control.script.structure_of(node).function(node)
    above = _above(control, function)
    return None not in above and not any(one in control.spawned for one in above)


def tests_something(control: Control) -> bool:
    """Whether a file holds tests that pytest collects, or helps them, and starts no group."""
    path, script = control.script.module.path, control.script
    if "tests" in path.parts and not script.is_whole_program and not script.calls(INIT_GROUP):
        return True
    name = path.name
    if not (name.startswith("test_") or name.endswith("_test.py")):
        return False
    tests = any(
        one.name.value.startswith("test_") for one in control.script.structure.all(cst.FunctionDef)
    )
    return tests and not control.script.calls(INIT_GROUP)
