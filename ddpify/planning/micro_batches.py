"""Gradient accumulation: the last micro-batch of each step, where that is seen beforehand.

A step of an optimizer is under a condition, as ``if (i + 1) % 4 == 0:``, or follows a loop over the
micro-batches. Gradients of the others need no exchange if nothing but that step reads them.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.conditions import Earlier, negated, operand
from ddpify.planning.gradient_readers import gradient_readers, steps
from ddpify.planning.plan import Plan
from ddpify.planning.reachability import Reach, leading_to
from ddpify.records import record
from ddpify.understanding.facts import Site
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of, statements
from ddpify.understanding.values import UNKNOWN

_LEAVING = (cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Try)
Around = cst.For | cst.While | cst.FunctionDef


@record
class Window:
    """Where a micro-batch begins, the statement ``site``, and code for whether it is the last."""

    site: Site
    last: str


def window(plan: Plan) -> Window | None:
    """The micro-batches of the training; None where it has none, or that is not sure."""
    facts = plan.facts
    if facts.gradients.accumulation_hooks or not facts.backwards:
        return None
    stepping = [s for s in gradient_readers(facts, plan.project) if steps(facts, s.node)]
    backwards = [site for site, _ in facts.backwards.values()]
    for site in [*stepping[:1], *backwards[:1]]:
        found = _under_a_condition(plan, site) if site in stepping else _in_a_loop(plan, site)
        if found is not None:
            return found
    return None


def _under_a_condition(plan: Plan, step: Site) -> Window | None:
    """``if (i + 1) % 4 == 0: optimizer.step()``, in whatever function leads to the step."""
    for site in leading_to(plan.facts, step):
        for guard in site.module.structure.guards(site.node):
            around = _block_of(site, guard)
            if around is None or not site.module.editable:
                continue
            found = _conditional(plan, Site(guard.statement, site.module), guard, around)
            if found is not None:
                return found
    return None


def _block_of(site: Site, guard: Guard) -> Around | None:
    """The loop or function in whose own block a condition stands."""
    structure = site.module.structure
    above = structure.parents.get(guard.statement)
    around = structure.parents.get(above) if isinstance(above, cst.IndentedBlock) else None
    return around if isinstance(around, (cst.For, cst.While, cst.FunctionDef)) else None


def _conditional(plan: Plan, site: Site, guard: Guard, around: Around) -> Window | None:
    reach = Reach(plan.facts, plan.project, site)
    structure = site.module.structure
    readers = reach.places(gradient_readers(plan.facts, plan.project))
    backwards = reach.places(one for one, _ in plan.facts.backwards.values())
    if not all(_is_in_turn(plan, one, site, around, backwards) for one in backwards):
        return None
    if not all(_is_guarded(plan, one, site, guard) for one in readers):
        return None
    start = _first_use(plan, reach, around, backwards)
    if start is None:
        return None
    earlier = Earlier(plan.project, site.module, around, start, guard.statement)
    code = earlier.code(guard.test)
    if code is None or not earlier.varies:
        return None
    if any(data for part in structure.below(guard.test) for data in _data(plan, part)):
        return None
    return Window(Site(start, site.module), code if guard.positive else negated(guard.test, code))


def _is_in_turn(
    plan: Plan,
    place: cst.CSTNode | None,
    site: Site,
    around: Around,
    backwards: list[cst.CSTNode | None],
) -> bool:
    """Whether a backward comes in each round of a block, before the statement at ``site``."""
    structure = site.module.structure
    if place is None or structure.order[place] >= structure.order[site.node]:
        return False
    for above in structure.up(place):
        if above is around:
            return True
        if isinstance(above, (cst.For, cst.While, cst.Try, cst.Lambda, cst.FunctionDef)):
            return False
        if isinstance(above, cst.If) and not _in_both_cases(above, backwards):
            return False
    return False


def _in_both_cases(statement: cst.If, backwards: list[cst.CSTNode | None]) -> bool:
    if not isinstance(statement.orelse, cst.Else):
        return isinstance(statement.orelse, cst.If) and _in_both_cases(statement.orelse, backwards)
    cases = (set(walk(statement.body)), set(walk(statement.orelse)))
    return all(case.intersection(b for b in backwards if b is not None) for case in cases)


def _is_guarded(plan: Plan, place: cst.CSTNode | None, site: Site, guard: Guard) -> bool:
    """Whether a reader of gradients is reached under the condition alone.

    A step after the loop, of a window that the epoch cuts short, averages them itself where models
    are replicated.
    """
    structure = site.module.structure
    if place is None:
        return False
    guards = structure.guards(place)
    same = (one.statement is guard.statement and one.positive == guard.positive for one in guards)
    if any(same):
        return True
    around = structure.parents[structure.parents[guard.statement]]
    outside = all(above is not around for above in structure.up(place))
    return outside and plan.options.strategy == "ddp" and steps(plan.facts, place)


def _first_use(
    plan: Plan, reach: Reach, around: Around, backwards: list[cst.CSTNode | None]
) -> cst.CSTNode | None:
    """The first statement of a block that leads to a model's forward or a backward."""
    calls = (
        event.site
        for model in plan.facts.models
        for event in plan.facts.events.get(model, ())
        if event.kind == "call"
    )
    used = {place for place in (*reach.places(calls), *backwards) if place is not None}
    for statement in statements(around.body):
        if used.intersection(reach.module.structure.below(statement)):
            return statement
    return None


def _data(plan: Plan, node: cst.CSTNode) -> Iterator[object]:
    """What ranks hold in part among the values of an expression."""
    yield from plan.facts.values.get(node, UNKNOWN).data


def _in_a_loop(plan: Plan, backward: Site) -> Window | None:
    """``for k in range(4):`` around the backward, with the step after it."""
    structure = backward.module.structure
    loop = next(iter(structure.loops(backward.node)), None)
    if not isinstance(loop, cst.For) or not backward.module.editable:
        return None
    reach = Reach(plan.facts, plan.project, backward)
    backwards = reach.places(one for one, _ in plan.facts.backwards.values())
    readers = reach.places(gradient_readers(plan.facts, plan.project))
    end = Site(structure.below(loop)[-1], backward.module)
    inside = set(structure.below(loop))
    if any(isinstance(node, _LEAVING) for node in inside) or inside.intersection(
        reader for reader in readers if reader is not None
    ):
        return None
    if None in readers or not all(_is_in_turn(plan, b, end, loop, backwards) for b in backwards):
        return None
    start = _first_use(plan, reach, loop, backwards)
    count = _count(loop)
    if start is None or count is None:
        return None
    earlier = Earlier(plan.project, backward.module, loop, start, end.node)
    target, size = earlier.code(loop.target), earlier.code(count)
    if target is None or size is None or target != code_of(loop.target):
        return None
    return Window(Site(start, backward.module), f"{target} == {operand(count, size)} - 1")


def _count(loop: cst.For) -> cst.BaseExpression | None:
    """``n`` of ``for name in range(n)``."""
    call = loop.iter
    if not isinstance(loop.target, cst.Name) or not isinstance(call, cst.Call):
        return None
    named = isinstance(call.func, cst.Name) and call.func.value == "range"
    return call.args[0].value if named and len(call.args) == 1 else None
