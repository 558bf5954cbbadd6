"""Which files a script reads or asks for, and whether two expressions may name the same one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.labels.flow import Flow
from ddpify.understanding.labels.origins import library_names
from ddpify.understanding.labels.slots import Slot
from ddpify.understanding.libraries.paths import (
    ASKED,
    ASKED_OF_PATHS,
    READ,
    READ_FROM_PATHS,
    named_by,
)
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import UNKNOWN, Instance

_DEPTH = 4  # names behind names that are looked up for the end of a path


@record
class Use:
    """A call that reads a file, or asks (``asks``) for files, and the expression of its path."""

    site: Site
    path: cst.BaseExpression
    asks: bool


@dataclass(eq=False, slots=True)
class Places:
    """The files of one script."""

    facts: Facts
    flow: Flow
    _ends: dict[cst.CSTNode, frozenset[str] | None] = field(default_factory=dict)

    def uses(self) -> Iterator[Use]:
        """Every call that reads a file or asks for one, in the order of each file."""
        for module, structure in self.flow.structures.items():
            for call in structure.all(cst.Call):
                found = self._use(call, module)
                if found is not None:
                    yield found

    def _use(self, call: cst.Call, module: ModuleFile) -> Use | None:
        for name in library_names(self.facts.values.get(call.func)):
            asks = name in ASKED
            path = named_by(call, ASKED[name] if asks else READ.get(name))
            if path is not None and ("write", call) not in self.facts.effects:
                return Use(Site(call, module), path, asks)
        if isinstance(call.func, cst.Attribute) and self._is_path(call.func.value):
            name = call.func.attr.value
            if name in ASKED_OF_PATHS or name in READ_FROM_PATHS:
                return Use(Site(call, module), call.func.value, name in ASKED_OF_PATHS)
        return None

    def _is_path(self, node: cst.BaseExpression) -> bool:
        held = self.facts.values.get(node, UNKNOWN).atoms
        return any(isinstance(a, Instance) and a.type == "pathlib.Path" for a in held)

    # ------------------------------------------------------------------ the same file
    def may_be_same(
        self, one: cst.BaseExpression, in_one: ModuleFile, other: cst.BaseExpression, at: ModuleFile
    ) -> bool:
        """Whether two paths are written alike, or surely end alike."""
        if code_of(one) == code_of(other):
            return True
        ends = self.ends(one, in_one) or frozenset()
        return not ends.isdisjoint(self.ends(other, at) or ())

    def ends(self, node: cst.BaseExpression, module: ModuleFile) -> frozenset[str] | None:
        """The last parts that a path may have; None where they are not known."""
        if node not in self._ends:
            self._ends[node] = self._ends_of(node, module, _DEPTH)
        return self._ends[node]

    def _ends_of(
        self, node: cst.BaseExpression, module: ModuleFile, depth: int
    ) -> frozenset[str] | None:
        held = self.facts.values.get(node, UNKNOWN).constant()
        if isinstance(held, str):
            return frozenset({held.rsplit("/", 1)[-1]})
        if isinstance(node, cst.SimpleString):
            return frozenset({str(node.evaluated_value).rsplit("/", 1)[-1]})
        if isinstance(node, cst.FormattedString):
            return self._end_of_text(node)
        if isinstance(node, cst.BinaryOperation):
            return self._ends_of(node.right, module, depth)
        if isinstance(node, cst.Call):
            names = set(library_names(self.facts.values.get(node.func)))
            joined = names & {"os.path.join", "pathlib.Path", "builtins.str"}
            return self._ends_of(node.args[-1].value, module, depth) if joined else None
        if isinstance(node, (cst.Name, cst.Attribute)) and depth > 0:
            return self._ends_of_name(node, module, depth)
        return None

    def _end_of_text(self, node: cst.FormattedString) -> frozenset[str] | None:
        """``best.pt`` of ``f"{folder}/best.pt"``: the whole last part must be written out."""
        last = node.parts[-1] if node.parts else None
        text = last.value if isinstance(last, cst.FormattedStringText) else ""
        return frozenset({text.rsplit("/", 1)[-1]}) if "/" in text else None

    def _ends_of_name(
        self, node: cst.BaseExpression, module: ModuleFile, depth: int
    ) -> frozenset[str] | None:
        found: set[str] = set()
        moves = self.flow.moves_to(set(self.flow.names.of_target(node, module)))
        for move in moves:
            owner = _file_of(self.flow.structures, move.node)
            ends = None
            if move.value is not None and owner is not None:
                ends = self._ends_of(move.value, owner, depth - 1)
            if ends is None:
                return None
            found |= ends
        return frozenset(found) if found else None

    # ------------------------------------------------------------------ what an answer decides
    def decided_by(self, use: Use) -> set[Slot]:
        """What is made from the answer to a question, or set under a condition that asks it."""
        structure = self.flow.structures[use.site.module]
        inside = {n for test in tests_of(structure, use.site.node) for n in _reach(structure, test)}
        around = {use.site.node, *structure.up(use.site.node)}
        start: set[Slot] = set()
        for move in self.flow.moves:
            if move.value in around or move.node in inside:
                start.update(move.targets)
        for one in inside:
            if isinstance(one, cst.Return):
                start.add(("result", structure.function(one)))
        return self.flow.derived(start)


def tests_of(
    structure: Structure, node: cst.CSTNode
) -> list[cst.If | cst.While | cst.Assert | cst.IfExp]:
    """The statements whose conditions hold a node."""
    below: cst.CSTNode = node
    found: list[cst.If | cst.While | cst.Assert | cst.IfExp] = []
    for above in structure.up(node):
        if isinstance(above, (cst.If, cst.While, cst.Assert, cst.IfExp)) and below is above.test:
            found.append(above)
        if isinstance(above, cst.BaseStatement):
            break
        below = above
    return found


def _reach(structure: Structure, test: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes that run or not as a condition says: its branches, and the loop that it ends."""
    yield from walk(test)
    if any(isinstance(n, (cst.Break, cst.Continue)) for n in walk(test)):
        loops = structure.loops(test)
        yield from walk(loops[0]) if loops else ()


def _file_of(structures: dict[ModuleFile, Structure], node: cst.CSTNode) -> ModuleFile | None:
    return next((file for file, one in structures.items() if node in one.order), None)
