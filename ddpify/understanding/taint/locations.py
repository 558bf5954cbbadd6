"""Slots: the places that hold values, such as a name in a function or an attribute of a class."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.facts import Facts
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint import sources
from ddpify.understanding.values import (
    Class,
    Instance,
    Namespace,
)

Location = tuple[object, ...]
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Locations:
    """Which slots the names and targets of a project's files stand for."""

    def __init__(self, facts: Facts, structures: dict[ModuleFile, Structure]) -> None:
        self.facts = facts
        self.structures = structures
        self.of_unseen: dict[Location, set[tuple[Location, str]]] = {}  # their owners and names
        self._comprehended = {
            name: one
            for structure in structures.values()
            for one in structure.all(*_COMPREHENSIONS)  # inner ones after those around them
            for name in _own_names(one)
        }

    def of_name(self, node: cst.Name, module: ModuleFile) -> list[Location]:
        """The slots that a name sets: of the loops and blocks in which it is fresh, then of its
        scope.

        Two loops that use one name for different things keep them apart; after the loops the name
        may be either. Reading takes the first slot. Names that a comprehension binds are its own.
        """
        if node in self._comprehended:
            return [("name", self._comprehended[node], node.value)]
        structure, scopes = self.structures[module], module.parsed.scopes
        found: list[Location] = []
        for above, below in structure.blocks(node):
            if node.value in scopes.definitely_assigned.get(above, ()):
                if _is_inside(above, below):
                    found.append(("name", above, node.value))
            elif isinstance(above, (cst.FunctionDef, cst.Lambda)):
                if node.value in scopes.shared.get(above, ()):
                    break
                if node.value in scopes.local.get(above, ()):
                    return [*found, ("name", above, node.value)]
        return [*found, ("name", structure.tree, node.value)]

    def of_target(self, target: cst.BaseExpression, module: ModuleFile) -> list[Location]:
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

    def of_attribute(self, node: cst.Attribute, module: ModuleFile) -> list[Location]:
        """The slots of an attribute: of each class or object that its owner may be."""
        owner = self.facts.values.get(node.value)
        locations: list[Location] = []
        for atom in owner.atoms if owner is not None else ():
            if isinstance(atom, Instance):
                kept: object = atom.type.node if isinstance(atom.type, Class) else atom.site
                locations.append(("attribute", kept, node.attr.value))
            elif isinstance(atom, Namespace) and atom.module in self.structures:
                locations.append(("name", self.structures[atom.module].tree, node.attr.value))
            elif isinstance(atom, Class):
                locations.append(("attribute", atom.node, node.attr.value))
        return locations or [self._of_unseen(node, module)]

    def _of_unseen(self, node: cst.Attribute, module: ModuleFile) -> Location:
        """The slot of an attribute of an object that is not seen, which is noted by its owner."""
        slot = ("text", module.path, sources.name_of(node))
        path = node.attr.value
        owner = node.value
        while isinstance(owner, cst.Attribute):
            above = self.of_attribute(owner, module)
            if above[0][0] != "text":
                break
            path = f"{owner.attr.value}.{path}"
            owner = owner.value
        if isinstance(owner, (cst.Name, cst.Attribute)):
            held = self.of_target(owner, module)
            self.of_unseen.setdefault(slot, set()).add((held[0], path))
        return slot


def _own_names(node: cst.BaseComp) -> list[cst.Name]:
    """The names in a comprehension for what it goes through; not those of its first ``in``."""
    clauses = (one for one in walk(node) if isinstance(one, cst.CompFor))
    bound = {name for one in clauses for name in target_names(one.target)}
    before = set(walk(node.for_in.iter))
    return [
        one
        for one in walk(node)
        if isinstance(one, cst.Name) and one.value in bound and one not in before
    ]


def _is_inside(scope: cst.CSTNode, below: cst.CSTNode) -> bool:
    """Whether a part of a loop or of a block's statement belongs to its rounds, or to the block."""
    if isinstance(scope, cst.For) and below is scope.target:
        return True
    return below is scope.body  # type: ignore[attr-defined]
