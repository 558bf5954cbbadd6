"""Names that a condition on the rank sets, and what is made of them."""

from __future__ import annotations

from functools import cached_property, lru_cache

import libcst as cst

from ddpify.lint.scripts.control import Control
from ddpify.understanding.libraries.distributed import REDUCING
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition


def is_set_by_rank(control: Control, node: cst.BaseExpression) -> bool:
    """Whether an expression reads something that a condition on the rank has set before."""
    return _known_of(control).holds(node)


def object_guards(control: Control, node: cst.CSTNode) -> list[Guard]:
    """Conditions around a node on an object that some ranks have: ``if writer is not None:``."""
    return [
        one
        for one in control.guards(node)
        if any(
            _asks_for_object(part)
            and is_set_by_rank(control, part)
            and not _is_there_on_all(control, part)
            for part in (_asked_together(one.test) if one.positive else [one.test])
        )
    ]


def is_for_the_others(control: Control, guard: Guard) -> bool:
    """``else:`` of ``if writer is not None:``, where rank 0 alone makes the writer: all others get
    there, and all ranks if none does.
    """
    test, positive = guard.test, guard.positive
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, positive = test.expression, not positive
    if isinstance(test, cst.Comparison) and _asks_for_object(test):
        if not isinstance(test.comparisons[0].comparator, cst.Name):
            return False
        positive = positive is isinstance(test.comparisons[0].operator, cst.IsNot)
        test = test.left
    if positive or not isinstance(test, (cst.Name, cst.Attribute)):
        return False
    edges = control.script.flow.edges_into(control.locations(test))
    made = [one for one in edges if not _is_none(one.value)]
    return bool(made) and all(map(control.rank_guards, (one.node for one in made)))


def _is_none(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _asked_together(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The parts of ``writer is not None and step % 10 == 0``, each of which has to hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*_asked_together(test.left), *_asked_together(test.right)]
    return [test]


def _is_there_on_all(control: Control, test: cst.BaseExpression) -> bool:
    """Whether all ranks make the object, or none: it may only be made of what differs."""
    names = [one for one in walk(test) if isinstance(one, cst.Name) and one.value != "None"]
    edges = control.script.flow.edges_into(
        {location for one in names for location in control.locations(one)}
    )
    return (
        bool(edges)
        and not any(control.rank_guards(one.node) for one in edges)
        and all(
            (isinstance(one.value, cst.Name) and one.value.value == "None")
            or any(made.site is one.value for made in control.script.instances(one.value))
            for one in edges
            if one.value is not None
        )
    )


def _asks_for_object(test: cst.BaseExpression) -> bool:
    """``writer``, ``self.writer is not None``: whether there is an object."""
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    if isinstance(test, (cst.Name, cst.Attribute)):
        return True
    return (
        isinstance(test, cst.Comparison)
        and len(test.comparisons) == 1
        and isinstance(test.comparisons[0].operator, (cst.Is, cst.IsNot))
    )


@lru_cache(maxsize=4)  # it is asked about many conditions
def _known_of(control: Control) -> _SetByRank:
    return _SetByRank(control)


class _SetByRank:
    """What is another thing on some ranks, because a condition on the rank has set it."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.flow = control.script.flow

    def holds(self, node: cst.BaseExpression) -> bool:
        return any(
            location in self._locations
            and not self._is_set_later(location, one)
            and not self._is_set_by_all(location, one)
            and not self._is_agreed_on(location, one)
            for one in walk(node)
            if isinstance(one, (cst.Name, cst.Attribute))
            for location in self.control.locations(one)
        )

    @cached_property
    def _locations(self) -> set[Location]:
        """Names that are set under a condition on the rank, and those that get their values."""
        found: set[Location] = set()
        for edge in self.flow.edges:
            if self.control.script.owners.get(edge.node) is not None and self._is_of_some(edge):
                found |= set(edge.targets)
        return self.flow.derived(found, without=self._takes_agreed)

    def _takes_agreed(self, edge: FlowEdge) -> bool:
        """Whether a move takes what a collective has made the same on all ranks, or goes to a
        function that only some ranks call from there: the others call it with what they have.
        """
        if edge.passes and self.control.on_some_ranks(edge.node):
            guards = self.control.rank_guards(edge.node)
            return not any(self._is_called_otherwise(edge, one) for one in guards)
        return any(
            self._is_agreed_on(one.location, edge.node) or self._is_set_anew(one.location, edge)
            for one in edge.source
            if one.location is not None
        )

    def _is_set_anew(self, location: Location, use: FlowEdge) -> bool:
        """``number = sent.item()`` after ``broadcast(sent, 0)``: whether a name has been set to
        what all have agreed on since some ranks made it another thing.
        """
        order = self.control.script.structure_of(use.node).order
        here = self._set_before(location, use.node) if location[0] == "name" else []
        some = [edge for edge in here if self._is_of_some(edge)]
        last = max((order[edge.node] for edge in some), default=0)
        left = [self._asked(edge) for edge in some]
        return bool(some) and any(
            order[edge.node] > last
            and all(self._asked(edge) <= one for one in left)
            and any(
                x.location is not None and self._is_agreed_on(x.location, edge.node)
                for x in edge.source
            )
            for edge in here
        )

    def _set_before(self, location: Location, use: cst.CSTNode) -> list[FlowEdge]:
        """What sets a name above its use, in the same function."""
        structure = self.control.script.structure_of(use)
        order, function = structure.order, structure.function(use)
        return [
            edge
            for edge in self.flow.edges_into({location})
            if order.get(edge.node, order[use]) < order[use]
            and structure.function(edge.node) is function
        ]

    def _asked(self, edge: FlowEdge) -> set[cst.CSTNode]:
        return {one.statement for one in self.control.guards(edge.node)}

    def _is_agreed_on(self, location: Location, use: cst.CSTNode) -> bool:
        """Whether a collective gets a value above its use: ``broadcast(stop, 0)``."""
        if location not in self.flow.sanitized and not self.flow.has_reduced_entry(location):
            return False
        order = self.control.script.structure_of(use).order
        return any(
            order.get(call, order[use]) < order[use]
            and location in self.flow.locations(given.value, self.control.script.owners[call])
            for call in self._collectives
            for given in call.args
        )

    @cached_property
    def _collectives(self) -> list[cst.Call]:
        return self.control.script.calls(*REDUCING, everywhere=True)

    def _is_of_some(self, edge: FlowEdge) -> bool:
        """Whether only some ranks make an assignment, or make it from something else."""
        source, asks = edge.value, self.control.asks_rank
        chosen = source is not None and any(
            asks(one.test) and code_of(self._shown(one.body)) != code_of(self._shown(one.orelse))
            for one in self.control.script.structure_of(source).inside(source, cst.IfExp)
        )
        guards = self.control.rank_guards(edge.node)
        if edge.passes:
            return chosen or any(self._is_called_otherwise(edge, one) for one in guards)
        if guards:
            return not self._only_shows(edge)
        return chosen or (
            self._outlives_its_function(edge) and self.control.on_some_ranks(edge.node)
        )

    def _outlives_its_function(self, edge: FlowEdge) -> bool:
        """``global path; path = given``, in a function that perhaps some ranks alone call."""
        structure = self.control.script.structure_of(edge.node)
        function = structure.function(edge.node)
        return function is not None and not all(
            location[1] is function
            or (location[1] in structure.order and structure.function(location[1]) is function)
            for location in edge.targets
            if location[0] == "name" and isinstance(location[1], cst.CSTNode)
        )

    def _is_called_otherwise(self, edge: FlowEdge, guard: Guard) -> bool:
        """Whether the other ranks call a function, too, with something else perhaps."""
        asked = guard.statement
        if not isinstance(asked, cst.If) or guard.left_early:
            return True
        other = asked.orelse if guard.positive else asked.body
        functions = self._called(edge.node)
        return other is not None and any(self._called(one) & functions for one in walk(other))

    def _called(self, node: cst.CSTNode) -> set[cst.CSTNode]:
        facts = self.control.script.facts
        return {one.node for one in called(facts, node)} if isinstance(node, cst.Call) else set()

    def _only_shows(self, edge: FlowEdge) -> bool:
        """``loader = tqdm(loader)``, and ``bar = tqdm(loader)`` where the other ranks have
        ``bar = loader``: a progress bar gives what it goes through.
        """
        if edge.value is None:
            return False
        shown = self._shown(edge.value)
        read = self.control.locations(shown) if isinstance(shown, cst.Name) else set()
        if shown is not edge.value and read & set(edge.targets):
            return True
        asked = {guard.statement for guard in self.control.rank_guards(edge.node)}
        others = [
            other.value
            for other in self.flow.edges_into(set(edge.targets))
            if other is not edge
            and asked & {guard.statement for guard in self.control.rank_guards(other.node)}
        ]
        return bool(others) and all(
            one is not None and code_of(self._shown(one)) == code_of(shown) for one in others
        )

    def _shown(self, made: cst.BaseExpression) -> cst.BaseExpression:
        """What a progress bar goes through; anything else itself."""
        if isinstance(made, cst.Call) and self.control.script.names(made.func) & set(BARS):
            given = [one.value for one in made.args if one.keyword is None]
            return given[0] if given else made
        return made

    def _is_set_by_all(self, location: Location, use: cst.CSTNode) -> bool:
        """Whether what sets a name last before its use is the same on all ranks, whatever some of
        them have set it to before.
        """
        edges = [edge for edge in self.flow.edges_into({location}) if not edge.passes]
        structure = self.control.script.structure_of(use)
        last = reaching_definition(structure, use, [edge.node for edge in edges])
        return last is not None and not any(
            self._is_of_some(edge) or any(one.location in self._locations for one in edge.source)
            for edge in edges
            if edge.node is last
        )

    def _is_set_later(self, location: Location, use: cst.CSTNode) -> bool:
        """Whether all that makes a name another thing on some ranks comes after its use."""
        if location[0] != "name":
            return False
        structure = self.control.script.structure_of(use)
        function, loops = structure.function(use), structure.loops(use)
        made = [
            edge
            for edge in self.flow.edges_into({location})
            if self._is_of_some(edge) or any(one.location in self._locations for one in edge.source)
        ]
        return bool(made) and all(
            self.control.script.structure_of(one.node) is structure
            and structure.function(one.node) is function
            and structure.order[one.node] > structure.order[use]
            and not any(loop in loops for loop in structure.loops(one.node))
            for one in made
        )
