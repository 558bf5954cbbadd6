"""Times that are told in days or hours, and so are the same on all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.sources import CLOCK

_FINER = re.compile(r"%[-_^#0]*[MSfsTRcXr+]")  # minutes and less
_OF_DAYS = frozenset({"date", "year", "month", "day", "weekday", "isoweekday", "hour", "tm_mday"})


def clocks_apart(script: Script, node: cst.BaseExpression) -> list[Dependency]:
    """The clocks that an expression is made of, but for those that it tells the day of."""
    made = list(script.flow.ancestry(node, script.owners.get(node, script.module)))
    clocks = [one for one in made if one.label == CLOCK]
    if not clocks:
        return []
    locations = {one.location for one in made if one.location is not None}
    edges = script.flow.edges_into(locations)
    said = [node, *(edge.value for edge in edges if edge.value is not None)]
    return [one for one in clocks if not _tells_days(script, one.node, said)]


def _tells_days(script: Script, clock: cst.CSTNode | None, said: list[cst.BaseExpression]) -> bool:
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
    asked = [*_asked_of_names(said)] if isinstance(above, (cst.Assign, cst.AnnAssign)) else []
    return bool(asked) and all(_asks_day(one, call) for one, call in asked)


def _asked_of_names(said: list[cst.BaseExpression]) -> Iterator[tuple[cst.Attribute, cst.CSTNode]]:
    """``now.strftime(..)``, ``now.year``: attributes of names, with what stands around them."""
    for outer in said:
        for one in walk(outer):
            for child in one.children:
                if not isinstance(child, cst.Attribute) or not isinstance(child.value, cst.Name):
                    continue
                if child.attr.value == "strftime" or child.attr.value in _OF_DAYS:
                    yield child, one


def _asks_day(asked: cst.Attribute, above: cst.CSTNode | None) -> bool:
    if asked.attr.value == "strftime" and isinstance(above, cst.Call):
        return _is_coarse(above)
    return asked.attr.value in _OF_DAYS


def _is_coarse(call: cst.Call) -> bool:
    """``strftime("%Y%m%d")``."""
    given = call.args[0].value if call.args else None
    return isinstance(given, cst.SimpleString) and not _FINER.search(str(given.evaluated_value))
