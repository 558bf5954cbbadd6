"""Slots: the places that hold values, such as a name in a function or an attribute of a class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.labels import origins
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, children
from ddpify.understanding.values import (
    Class,
    Instance,
    Namespace,
)

Slot = tuple[object, ...]
FunctionNode = cst.FunctionDef | cst.Lambda


@dataclass(slots=True)
class Scopes:
    """Which function owns each name."""

    local: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    shared: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    looped: dict[cst.CSTNode, set[str]] = field(default_factory=dict)  # fresh in each round


class Slots:
    """Which slots the names and targets of a project's files stand for."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self.facts = facts
        self.structures = structures
        self._scopes = Scopes()
        for structure in structures.values():
            self._name_scopes(structure)

    def _name_scopes(self, structure: Structure) -> None:
        for function in structure.all(cst.FunctionDef, cst.Lambda):
            self._scopes.local[function] |= {p.name.value for p in parameters(function)}
        for statement in structure.all(cst.Global, cst.Nonlocal):
            owner = structure.function(statement)
            if owner is not None:
                self._scopes.shared[owner] |= {item.name.value for item in statement.names}
        for loop in structure.all(cst.For, cst.While):
            self._scopes.looped[loop] = fresh_names(loop)
        for node, target in bindings(structure):
            owner = structure.function(node)
            if owner is not None:
                self._scopes.local[owner] |= set(target_names(target))

    def of_name(self, node: cst.Name, module: ModuleFile) -> list[Slot]:
        """The slots that a name sets: of the loops in which it is fresh, then of its scope.

        Two loops that use one name for different things keep them apart; after the loops the name
        may be either. Reading takes the first slot.
        """
        structure = self.structures[module]
        found: list[Slot] = []
        for above, below in structure.blocks(node):
            if isinstance(above, (cst.For, cst.While)) and node.value in self._scopes.looped[above]:
                if below is above.body or (isinstance(above, cst.For) and below is above.target):
                    found.append(("name", above, node.value))
            elif isinstance(above, (cst.FunctionDef, cst.Lambda)):
                if node.value in self._scopes.shared.get(above, ()):
                    break
                if node.value in self._scopes.local.get(above, ()):
                    return [*found, ("name", above, node.value)]
        return [*found, ("name", structure.tree, node.value)]

    def of_target(self, target: cst.BaseExpression, module: ModuleFile) -> list[Slot]:
        """The slots that an assignment to this target sets."""
        if isinstance(target, cst.Name):
            return self.of_name(target, module)
        if isinstance(target, cst.Attribute):
            return self.of_attribute(target, module)
        if isinstance(target, cst.Subscript):
            return self.of_target(target.value, module)
        if isinstance(target, (cst.Tuple, cst.List)):
            return [s for e in target.elements for s in self.of_target(e.value, module)]
        return []

    def of_attribute(self, node: cst.Attribute, module: ModuleFile) -> list[Slot]:
        """The slots of an attribute: of each class or object that its owner may be."""
        owner = self.facts.values.get(node.value)
        slots: list[Slot] = []
        for atom in owner.atoms if owner is not None else ():
            if isinstance(atom, Instance):
                kept: object = atom.type.node if isinstance(atom.type, Class) else atom.site
                slots.append(("attribute", kept, node.attr.value))
            elif isinstance(atom, Namespace) and atom.module in self.structures:
                slots.append(("name", self.structures[atom.module].tree, node.attr.value))
            elif isinstance(atom, Class):
                slots.append(("attribute", atom.node, node.attr.value))
        return slots or [("text", module.path, origins.name_of(node))]


def parameters(function: FunctionNode) -> list[cst.Param]:
    """The named parameters of a function, in order."""
    given = function.params
    return [*given.posonly_params, *given.params, *given.kwonly_params]


def bindings(structure: Structure) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Every place that binds names, with its target."""
    for node in structure.all(cst.AssignTarget):
        yield node, node.target
    for one in structure.all(cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr):
        yield one, one.target
    for item in structure.all(cst.AsName):
        if isinstance(item.name, (cst.Name, cst.Tuple, cst.List)):
            yield item, item.name


def target_names(target: cst.BaseExpression) -> Iterator[str]:
    """The names that a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
    elif isinstance(target, cst.StarredElement):
        yield from target_names(target.value)


def fresh_names(loop: cst.For | cst.While) -> set[str]:
    """Names that a loop's body surely sets in each round before it reads them."""
    fresh = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    read: set[str] = set()
    for one in _in_order(loop.body, True):
        name, written = one
        if written and name not in read:
            fresh.add(name)
        elif name not in fresh:
            read.add(name)
    return fresh


def _in_order(node: cst.CSTNode, surely: bool) -> Iterator[tuple[str, bool]]:
    """Names as they are evaluated, each with whether it is surely set there."""
    if isinstance(node, cst.Name):
        yield node.value, False
    elif isinstance(node, cst.Assign):
        yield from _in_order(node.value, surely)
        for target in node.targets:
            if surely:
                yield from ((name, True) for name in target_names(target.target))
            if not isinstance(target.target, (cst.Name, cst.Tuple, cst.List)) or not surely:
                yield from _in_order(target.target, surely)
    else:
        certain = isinstance(
            node,
            (
                cst.IndentedBlock,
                cst.SimpleStatementLine,
                cst.With,
                cst.Expr,
                cst.SimpleStatementSuite,
            ),
        )
        for child in children(node):
            yield from _in_order(child, surely and certain)
