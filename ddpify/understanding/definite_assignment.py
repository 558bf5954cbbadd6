"""Names that a loop or a block surely sets before it reads them: each round has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import libcst as cst

from ddpify.understanding.structure import children, walk

Loop = cst.For | cst.While


@dataclass(eq=False, repr=False, slots=True)
class Use:
    """What code reads before it sets it, what it surely sets, and what it may set."""

    read: set[str] = field(default_factory=set)
    surely: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def then(self, other: Use) -> None:
        """Add what runs next."""
        self.read |= other.read - self.surely
        self.surely |= other.surely
        self.bound |= other.bound

    def sets(self, names: Iterable[str]) -> None:
        """Add names that are set next."""
        self.then(Use(surely=(found := set(names)), bound=found))

    @property
    def definitely_assigned(self) -> set[str]:
        """Names of which nothing is read that was there before."""
        return self.bound - self.read


class DefiniteAssignment:
    """The fresh names of each loop, and of the block of each ``if``, ``else`` and ``with``."""

    def __init__(self, tree: cst.CSTNode) -> None:
        self.names: dict[cst.CSTNode, set[str]] = {}
        self._use(tree)

    def _use(self, node: cst.CSTNode | None) -> Use:
        handler = self._BY_TYPE.get(type(node))
        found = Use()
        if handler is not None:
            handler(self, node, found)
        elif isinstance(node, cst.BaseExpression):  # binds no names of a loop or a block
            found.read.update(one.value for one in walk(node) if type(one) is cst.Name)
        elif node is not None:
            self._others(node, found)
        return found

    def _assign(self, node: cst.Assign, found: Use) -> None:
        found.then(self._use(node.value))
        for one in node.targets:
            if not isinstance(one.target, (cst.Name, cst.Tuple, cst.List)):
                found.then(self._use(one.target))
            found.sets(target_names(one.target))

    def _branches(self, node: cst.If, found: Use) -> None:
        found.then(self._use(node.test))
        first = self._block(node)
        second = Use()
        if isinstance(node.orelse, cst.Else):
            second = self._block(node.orelse)
        elif node.orelse is not None:
            second = self._use(node.orelse)
        either = Use(first.read | second.read, first.surely & second.surely)
        found.then(either)
        found.bound |= first.bound | second.bound

    def _loop(self, node: Loop, found: Use) -> None:
        inner = Use()
        if isinstance(node, cst.For):
            found.then(self._use(node.iter))
            inner.sets(target_names(node.target))
        else:
            inner.then(self._use(node.test))
        inner.then(self._use(node.body))
        self.names[node] = inner.definitely_assigned
        found.then(Use(read=inner.read, bound=inner.bound))
        if node.orelse is not None:
            after = self._use(node.orelse.body)
            found.then(Use(read=after.read, bound=after.bound))

    def _with(self, node: cst.With, found: Use) -> None:
        for item in node.items:
            found.then(self._use(item.item))
            if item.asname is not None:
                found.sets(target_names(item.asname.name))
        found.then(self._block(node))

    def _block(self, owner: cst.If | cst.Else | cst.With) -> Use:
        found = self._use(owner.body)
        self.names[owner] = found.definitely_assigned
        return found

    def _others(self, node: cst.CSTNode, found: Use) -> None:
        for child in children(node):
            used = self._use(child)
            found.then(Use(used.read, bound=used.bound))

    def _in_turn(self, node: cst.CSTNode, found: Use) -> None:
        for child in children(node):
            found.then(self._use(child))

    def _changed(self, node: cst.AugAssign | cst.AnnAssign, found: Use) -> None:
        self._others(node, found)
        found.bound |= set(target_names(node.target))

    def _definition(self, node: cst.FunctionDef | cst.ClassDef, found: Use) -> None:
        self._others(node, found)
        found.bound = set()

    _BY_TYPE: ClassVar[dict[type, Callable[[DefiniteAssignment, Any, Use], None]]] = {
        cst.Assign: _assign,
        cst.If: _branches,
        cst.For: _loop,
        cst.While: _loop,
        cst.With: _with,
        cst.AugAssign: _changed,
        cst.AnnAssign: _changed,
        cst.FunctionDef: _definition,
        cst.ClassDef: _definition,
        cst.IndentedBlock: _in_turn,
        cst.SimpleStatementLine: _in_turn,
        cst.SimpleStatementSuite: _in_turn,
        cst.Expr: _in_turn,
        cst.Module: _in_turn,
    }


def definitely_assigned(loop: Loop) -> set[str]:
    """Names that a loop's body surely sets in each round before it reads them."""
    return DefiniteAssignment(loop).names[loop]


def target_names(target: cst.BaseExpression | cst.BaseAssignTargetExpression) -> Iterable[str]:
    """The names that a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
    elif isinstance(target, cst.StarredElement):
        yield from target_names(target.value)
