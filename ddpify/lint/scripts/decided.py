"""Control dependence: names that are set under a condition on a rank's own data.

``bad += 1`` under ``if accuracy <= best:`` counts what this rank has seen, though no number of its
own goes into it. A flag or a result that is set so is another one on each rank.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import libcst as cst

from ddpify.lint.scripts.picked import asks_for_any
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unsharded_totals import is_own
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import LOCAL, SANITIZED
from ddpify.understanding.values import Class


def is_decided_by_own(script: Script, test: cst.BaseExpression) -> bool:
    """Whether a condition reads what a condition on a rank's own data has set."""
    return _decided_of(script).holds(test)


@lru_cache(maxsize=4)  # it is asked about many conditions
def _decided_of(script: Script) -> _Decided:
    return _Decided(script)


class _Decided:
    """The names, attributes and results that conditions on a rank's own data set."""

    def __init__(self, script: Script) -> None:
        self.script, self.flow = script, script.flow
        self._own: dict[cst.BaseExpression, bool] = {}

    def holds(self, test: cst.BaseExpression) -> bool:
        return not self._locations.isdisjoint(self._read(test))

    def _read(self, node: cst.BaseExpression) -> set[Location]:
        """The slots that an expression reads: of ``self.limit`` the attribute, not the object."""
        return {one.location for one in self._made_of(node) if one.location is not None}

    def _kept_of(self, node: cst.BaseExpression) -> set[Location]:
        """The slots whose decisions its value still has: not what a library makes of a number,
        such as an optimizer of a rate.
        """
        made = (one for one in self._made_of(node) if one.pure)
        return {one.location for one in made if one.location is not None}

    def _made_of(self, node: cst.BaseExpression) -> list[Dependency]:
        module = self.script.owners.get(node, self.script.module)
        objects = {
            one.value
            for one in walk(node)
            if isinstance(one, cst.Attribute) and self._is_object(one.value)
        }
        return [one for one in self.flow.made_of.of(node, module) if one.node not in objects]

    def _is_object(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name) and node.value == "self":
            return True
        return any(isinstance(one.type, Class) for one in self.script.instances(node))

    @cached_property
    def _locations(self) -> set[Location]:
        found: set[Location] = set()
        edges = [edge for edge in self.flow.edges if edge.node in self.script.owners]
        while True:
            fresh = {
                location
                for edge in edges
                if not (self._is_agreed_on(edge) or found.issuperset(edge.targets))
                and any(self._asks_own(test, found) for test in self._tests(edge))
                for location in edge.targets
            }
            if fresh <= found:
                return found
            found = self._derived(found | fresh)

    def _derived(self, start: set[Location]) -> set[Location]:
        """What is made of some slots, but for what a collective makes the same on all ranks."""
        found, todo = set(start), list(start)
        while todo:
            for edge in self._users.get(todo.pop(), ()):
                fresh = set(edge.targets) - found
                found |= fresh
                todo += fresh
        return found

    @cached_property
    def _users(self) -> dict[Location, list[FlowEdge]]:
        users: dict[Location, list[FlowEdge]] = {}
        for edge in self.flow.edges:
            if edge.value is not None and not self._is_agreed_on(edge):
                for location in self._kept_of(edge.value):
                    users.setdefault(location, []).append(edge)
        return users

    def _tests(self, edge: FlowEdge) -> list[cst.BaseExpression]:
        """The conditions that decide whether a value is set; of a result, which one it is.

        What comes behind a ``continue`` is set in other rounds, as a rule.
        """
        if edge.passes or edge.offers:
            return []
        returns = isinstance(edge.node, cst.Return)
        guards = self.script.control.guards(edge.node)
        return [one.test for one in guards if returns or not one.left_early]

    def _asks_own(self, test: cst.BaseExpression, found: set[Location]) -> bool:
        if not found.isdisjoint(self._read(test)):
            return True
        if test not in self._own:
            own = is_own(self.script, test) and not asks_for_any(self.script, test)
            made = any(LOCAL in self.flow.labels.get(location, ()) for location in self._read(test))
            self._own[test] = own and made and not self.script.control.asks_rank(test)
        return self._own[test]

    def _is_agreed_on(self, edge: FlowEdge) -> bool:
        """Whether a collective makes what is set the same on all ranks."""
        return self.flow.is_agreed_on(edge.targets) or any(
            one.label == SANITIZED for one in edge.source
        )
