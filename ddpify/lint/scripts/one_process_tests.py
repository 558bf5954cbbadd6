"""Conditions that find out whether one process runs alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import (
    DDP,
    FSDP,
    FULLY_SHARD,
    INIT_GROUP,
    SAMPLER,
    is_distributed_sampler,
    is_wrapper,
)
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.libraries.runtime_names import INIT, WRAP
from ddpify.understanding.structure import Guard, leaves, rest_of_block, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK, WORLD, asks_whether_distributed

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control

from ddpify.lint.scripts.script_kinds import MAY_ASK

_STARTS = frozenset({INIT_GROUP, DDP, FSDP, FULLY_SHARD, SAMPLER, INIT, WRAP})
_ORDER = (cst.LessThan, cst.GreaterThanEqual)


def finds_one_process(control: Control, guard: Guard) -> bool:
    """Whether a guard holds in runs alone that are not distributed."""
    above = guard.statement
    if not isinstance(above, (cst.If, cst.IfExp)) or not MAY_ASK.search(code_of(above.test)):
        return False
    if (is_no_rank(above.test) and guard.positive) or counts_one(control, guard):
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
    if here is not None and any(_unwraps(one, here) for one in others):
        return True
    distributed = any(_distributes(control, one) for one in others)
    return (distributed or _keeps_from_groups(control, guard)) and not _distributes(control, here)


def _keeps_from_groups(control: Control, guard: Guard) -> bool:
    """Whether the group starts, or a model is wrapped, where the same question has the other
    answer.
    """
    places = [one.site.node for one in control.script.wraps]
    places += control.script.calls(INIT_GROUP, everywhere=True)
    taken = {answer for one in places for answer in control.branches(one)}
    text = code_of(guard.test)
    return (text, not guard.positive) in taken and (text, guard.positive) not in taken


def _unwraps(other: cst.CSTNode, here: cst.CSTNode) -> bool:
    """``model.module.reset()``, where ``here`` it is ``model.reset()``."""
    inside = _taken_out(other)
    return (
        bool(inside)
        and not _taken_out(here)
        and any(
            isinstance(one, (cst.Name, cst.Attribute)) and code_of(one) in inside
            for one in walk(here)
        )
    )


def _taken_out(side: cst.CSTNode) -> set[str]:
    """The code of what ``.module`` is asked of."""
    return {
        code_of(one.value)
        for one in walk(side)
        if isinstance(one, cst.Attribute) and one.attr.value == "module"
    }


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


def is_no_rank(test: cst.BaseExpression) -> bool:
    """``local_rank == -1``, also as one of several conditions: the launcher has said none."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return is_no_rank(test.left) or is_no_rank(test.right)
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


def counts_one(control: Control, guard: Guard) -> bool:
    """``world_size == 1``, or the other side of ``world_size > 1``."""
    test = guard.test
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        sides = (test.left, test.right) if guard.positive else ()
        return any(counts_one(control, replace(guard, test=side)) for side in sides)
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
