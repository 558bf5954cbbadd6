"""Times that are told in days or hours, and so are the same on all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import is_main_guard
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import CLOCK

_FINER = re.compile(r"%[-_^#0]*[MSfsTRcXr+]")  # minutes and less
_OF_DAYS = frozenset({"date", "year", "month", "day", "weekday", "isoweekday", "hour", "tm_mday"})


def clocks_apart(script: Script, node: cst.BaseExpression) -> list[Dependency]:
    """The clocks that an expression is made of, but for those that it tells the day of, and those
    that the process reads which then starts the ranks.
    """
    made = list(script.flow.ancestry(node, script.owners.get(node, script.module)))
    clocks = [one for one in made if one.label == CLOCK]
    if not clocks:
        return []
    locations = {one.location for one in made if one.location is not None}
    edges = script.flow.edges_into(locations)
    return [
        one
        for one in clocks
        if not _is_read_before_ranks(script, one.node)
        and not _tells_days(script, one.node, node, edges)
    ]


def _is_read_before_ranks(script: Script, clock: cst.CSTNode | None) -> bool:
    """Whether ranks are given what the process has read that starts them.

    What stands outside of functions, they run once more where they are not forked.
    """
    if clock is None or not script.control.is_only_before_spawning(clock):
        return False
    above = script.structure_of(clock).up(clock)
    return any(
        isinstance(one, cst.FunctionDef) or (isinstance(one, cst.If) and is_main_guard(one.test))
        for one in above
    )


def _tells_days(
    script: Script, clock: cst.CSTNode | None, told: cst.BaseExpression, edges: list[FlowEdge]
) -> bool:
    """Whether a clock, or all that its name is asked for, is told in days."""
    if not isinstance(clock, cst.Call):
        return False
    names = script.names(clock.func)
    if "datetime.date.today" in names:
        return True
    if "time.strftime" in names:
        return _is_coarse(clock)
    structure = script.structure_of(clock)
    above = structure.parents.get(clock)
    if isinstance(above, cst.Attribute):
        return _asks_day(above, structure.parents.get(above))
    if not isinstance(above, (cst.Assign, cst.AnnAssign)):
        return False
    holders = _holders(script, above, edges)
    said = [told, *(edge.value for edge in edges if edge.value is not None)]
    uses = [use for one in said for use in _uses(script, one, holders)]
    return bool(uses) and all(isinstance(x, cst.Attribute) and _asks_day(x, y) for x, y in uses)


def _holders(script: Script, kept: cst.CSTNode, edges: list[FlowEdge]) -> set[Location]:
    """The slots that hold a time as it was read, also those that it is handed on to."""
    found = {one for edge in script.flow.edges_at(kept) for one in edge.targets}
    before = 0
    while len(found) > before:
        before = len(found)
        found |= {
            target
            for edge in edges
            if edge.value is not None and _is_held(script, edge.value, found)
            for target in edge.targets
        }
    return found


def _is_held(script: Script, node: cst.CSTNode, holders: set[Location]) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute)) and not holders.isdisjoint(
        script.control.locations(node)
    )


def _uses(
    script: Script, said: cst.BaseExpression, holders: set[Location]
) -> Iterator[tuple[cst.CSTNode | None, cst.CSTNode | None]]:
    """What stands around the names that hold a time, as ``now.strftime(..)`` or ``now.year``."""
    parents = script.structure_of(said).parents
    for one in walk(said) if not _is_held(script, said, holders) else ():
        above = parents.get(one)
        named = isinstance(above, cst.Attribute) and above.attr is one
        if not named and _is_held(script, one, holders):
            yield above, parents.get(above) if above is not None else None


def _asks_day(asked: cst.Attribute, above: cst.CSTNode | None) -> bool:
    if asked.attr.value == "strftime" and isinstance(above, cst.Call):
        return _is_coarse(above)
    return asked.attr.value in _OF_DAYS


def _is_coarse(call: cst.Call) -> bool:
    """``strftime("%Y%m%d")``."""
    given = call.args[0].value if call.args else None
    return isinstance(given, cst.SimpleString) and not _FINER.search(str(given.evaluated_value))
