"""Which numbers count the batches of all of the data, where each rank goes through its part."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.sequence import runs_only_after
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import DEVICES, LENGTH, WORLD
from ddpify.understanding.values import UNKNOWN, Instance

_COUNTS = frozenset({WORLD, DEVICES})


class WholeLengths:
    """The lengths of data sets that are split, and of loaders of all that is in them."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def within(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What is counted, where it goes into an expression and no number of ranks with it; not
        what is set only when the expression has been read.
        """
        module = self.script.owners.get(node, self.script.module)
        todo, seen = [*self.script.flow.made_of.of(node, module)], set[Location]()
        yield from self._by_own_batches(node)
        if any(one.label == LENGTH for one in todo) and self._knows_ranks(node):
            return
        if any(map(self._shares_out, walk(node))):
            return
        if not self._divided.isdisjoint(self._sources(node)):
            return
        while todo:
            one = todo.pop()
            todo += one.given or ()
            if self._counts_all(one):
                assert isinstance(one.node, cst.BaseExpression)
                yield one.node
            if one.location is None or one.location in seen:
                continue
            seen.add(one.location)
            for edge in self.script.flow.edges_into({one.location}):
                if runs_only_after(self.script, edge.node, node) or self._is_nothing(edge.value):
                    continue
                if edge.value is None or not self._knows_ranks(edge.value):
                    todo += edge.source

    def _is_nothing(self, node: cst.BaseExpression | None) -> bool:
        """``begun * len(dataset)``, where ``begun`` is 0."""
        return (
            isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, cst.Multiply)
            and any(self.script.value(one).constant() == 0 for one in (node.left, node.right))
        )

    def _by_own_batches(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """``len(dataset) // batch``, where ``batch`` is what a rank has of all: ``total // ranks``.

        The number of ranks makes this longer, and not shorter.
        """
        edges = self.script.flow.edges_into(self._sources(node))
        made = (edge.value for edge in edges if edge.value is not None)
        for one in dict.fromkeys(inner for whole in (node, *made) for inner in walk(whole)):
            if (
                isinstance(one, cst.BinaryOperation)
                and isinstance(one.operator, (cst.Divide, cst.FloorDivide))
                and self._is_shared_out(one.right)
            ):
                module = self.script.owners.get(one, self.script.module)
                lengths = self.script.flow.made_of.of(one.left, module)
                for length in lengths:
                    if self._counts_all(length) and isinstance(length.node, cst.BaseExpression):
                        yield length.node

    def _is_shared_out(self, node: cst.BaseExpression) -> bool:
        """Whether the number of ranks comes into an expression as a divisor alone."""
        if isinstance(node, cst.IfExp):
            sides = [x for x in (node.body, node.orelse) if self._knows_ranks(x)]
            return bool(sides) and all(map(self._is_shared_out, sides))
        if isinstance(node, cst.BinaryOperation):
            divides = isinstance(node.operator, (cst.Divide, cst.FloorDivide))
            return divides and self._knows_ranks(node.right) and not self._knows_ranks(node.left)
        if not isinstance(node, cst.Name) or not self._knows_ranks(node):
            return False
        edges = self.script.flow.edges_into(self.script.control.locations(node))
        made = [x.value for x in edges if x.value is not None and self._knows_ranks(x.value)]
        return bool(made) and all(map(self._is_shared_out, made))

    def _knows_ranks(self, node: cst.BaseExpression) -> bool:
        module = self.script.owners.get(node, self.script.module)
        return bool(self.script.flow.sources(node, module) & _COUNTS)

    def _shares_out(self, node: cst.CSTNode) -> bool:
        """``total // (batch * world_size)``: a length, also by a name, divided by the ranks."""
        if not isinstance(node, cst.BinaryOperation):
            return False
        module = self.script.owners.get(node, self.script.module)
        divides = isinstance(node.operator, (cst.Divide, cst.FloorDivide))
        return (
            divides
            and LENGTH in self.script.flow.sources(node.left, module)
            and self._knows_ranks(node.right)
        )

    def _counts_all(self, one: Dependency) -> bool:
        if one.label != LENGTH or not isinstance(one.node, cst.BaseExpression):
            return False
        if isinstance(one.node, cst.Attribute) and one.node.attr.value == "dataset":
            return any(x in self._sharded for x in self.script.loaders_in(one.node.value))
        held = self.script.value(one.node).atoms
        loaders = [x for x in self.script.loaders_in(one.node) if x in held]
        if loaders:
            return all(map(self._is_of_all, loaders))
        return any(atom in self._split for atom in held)

    def _is_of_all(self, loader: Instance) -> bool:
        """Whether a loader gives all of a data set that another one splits."""
        held = loader.arguments.get("dataset", UNKNOWN).atoms
        return not self.script.may_be_sharded(loader) and any(one in self._split for one in held)

    @cached_property
    def _split(self) -> set[object]:
        return {
            one
            for loader in self._sharded
            for one in loader.arguments.get("dataset", UNKNOWN).atoms
        }

    @cached_property
    def _sharded(self) -> list[Instance]:
        """The loaders of the training that are split."""
        return [one for one in self.script.training_loaders if self.script.is_sharded(one)]

    @cached_property
    def _divided(self) -> set[Location]:
        """What ``batch_size=total // world_size`` reads: of ``total``, one process makes as many
        batches.
        """
        made = [one.site for one in self._sharded if isinstance(one.site, cst.Call)]
        given = [argument(call, "batch_size", 1) for call in made]
        sizes = [one.value for one in given if one is not None and self._knows_ranks(one.value)]
        return {location for one in sizes for location in self._sources(one)}

    def _sources(self, node: cst.BaseExpression) -> set[Location]:
        """The slots that have gone into an expression: of ``args.total`` the option alone."""
        module = self.script.owners.get(node, self.script.module)
        made = self.script.flow.ancestry(node, module)
        return {
            one.location
            for one in made
            if one.location is not None and not (one.node and self._is_holder(one.node))
        }

    def _is_holder(self, node: cst.CSTNode) -> bool:
        above = self.script.structure_of(node).parents.get(node)
        return isinstance(above, cst.Attribute) and above.value is node
