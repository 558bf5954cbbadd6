"""Which files a script reads or asks for, and whether two expressions may name the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.facts import Effect, Facts, Site
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.libraries.path_objects import PATH
from ddpify.understanding.libraries.paths import (
    ASKED,
    ASKED_OF_PATHS,
    READ,
    READ_FROM_PATHS,
    TREES,
    named_by,
    path_of,
)
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import UNKNOWN, Instance

_ANY = "{}"
# What takes a path, or a part of it, and opens nothing.
_NOT_READING = (
    "builtins.", "os.", "posixpath.", "pathlib.", "logging.", "re.", "sys.", "warnings.",
    "argparse.", "string.", "collections.", "functools.", "itertools.", "urllib.", "subprocess.",
    "tqdm.", "torch.device", "typing.", "time.", "datetime.", "fnmatch.",
)  # fmt: skip
_DEPTH = 4  # names behind names that are looked up for the end of a path


Place = tuple[cst.BaseExpression, ModuleFile]


@record
class FileUse:
    """A call that reads a file, or asks (``asks``) for files, and the expression of its path."""

    site: Site
    path: cst.BaseExpression
    asks: bool

    @property
    def place(self) -> Place:
        """The path, with its file."""
        return self.path, self.site.module


@dataclass(eq=False, repr=False, slots=True)
class FileNames:
    """The files of one script."""

    facts: Facts
    flow: Flow
    uses: list[FileUse] = field(default_factory=list)
    _texts: dict[cst.CSTNode, frozenset[str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find every call that reads a file or asks for one, in the order of each file."""
        calls = ((c, m) for m, s in self.flow.structures.items() for c in s.all(cst.Call))
        written = self._written()
        for call, module in calls:
            use = use_of(self.facts, call, module)
            self.uses += [use] if use is not None else self._unread(call, module, written)

    def _written(self) -> frozenset[str]:
        """The ends of the paths that are written."""
        effects = (e for e in self.facts.effects.values() if e.kind == "write")
        paths = ((path_of(effect), effect.site.module) for effect in effects)
        texts = (self.texts(path, module) for path, module in paths if path is not None)
        return frozenset(_end(text) for known in texts for text in known or ())

    def _unread(self, call: cst.Call, module: ModuleFile, written: frozenset[str]) -> list[FileUse]:
        """A library's function that is not known gets the path of a file: it may read that."""
        names = library_names(self.facts.values.get(call.func))
        other = [name for name in names if not name.startswith(_NOT_READING)]
        if not written or not other or module.is_unused(call) or self._has_effect(call):
            return []
        given = (argument.value for argument in call.args)
        return [
            FileUse(Site(call, module), path, asks=False)
            for path in given
            if any(_end(text) in written for text in self.texts(path, module) or ())
        ]

    def _has_effect(self, call: cst.Call) -> bool:
        return any(effect.site.node is call for effect in self.facts.effects.values())

    # ------------------------------------------------------------------ the same file
    def is_on(self, effect: Effect, use: FileUse) -> bool:
        """Whether an effect may be on the file, or folder, that is read or asked for."""
        path = path_of(effect)
        assert path is not None
        place = (path, effect.site.module)
        if self.may_be_same(place, use.place):
            return True
        return (use.asks and self.may_hold(use.place, place)) or (
            effect.name in TREES and self.may_hold(place, use.place)
        )

    def may_be_same(self, one: Place, other: Place) -> bool:
        """Whether two paths are written alike, or surely end alike."""
        if self._alike(one, other):
            return True
        ends, others = ({_end(text) for text in self.texts(*place) or ()} for place in (one, other))
        return any(map(_says_something, ends & others))

    def _alike(self, one: Place, other: Place) -> bool:
        """Whether two expressions are written alike, with the same names in them."""
        return code_of(one[0]) == code_of(other[0]) and self._slots(one) == self._slots(other)

    def _slots(self, place: Place) -> set[Location]:
        """What a path is made of; its attributes alone where it has some.

        ``self`` and ``args`` are another name in each function, and mostly the same object.
        """
        read = self.flow.locations(*place)
        return {one for one in read if one[0] == "attribute"} or read

    def may_hold(self, folder: Place, file: Place) -> bool:
        """Whether one path may be that of the folder in which the other lies."""
        inside = self._folder(file[0])
        if inside is not None and self._alike((inside, file[1]), folder):
            return True
        known = self.texts(inside, file[1]) if inside is not None else None
        if known is None and inside is None:
            folders = {t.rpartition("/")[0] for t in self.texts(*file) or ()}
            known = frozenset(t for t in folders if t and _ANY not in t)
        asked = {t.rpartition("/")[0] if "*" in t else t for t in self.texts(*folder) or ()}
        return not {t.rstrip("/") for t in asked}.isdisjoint(known or ())

    def _folder(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``a`` of ``os.path.join(a, b)`` and of ``a / b``."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            return node.left
        if isinstance(node, cst.Call) and len(node.args) == 2:
            names = library_names(self.facts.values.get(node.func))
            return node.args[0].value if "os.path.join" in names else None
        return None

    def texts(self, node: cst.BaseExpression, module: ModuleFile) -> frozenset[str] | None:
        """The paths that an expression, or an item of it, may be, with ``{}`` for what is not known
        inside of them.

        What is not known may be left out in front; None where the end is not known.
        """
        if node not in self._texts:
            self._texts[node] = self._texts_of(node, module, _DEPTH)
        return self._texts[node]

    def _texts_of(
        self, node: cst.BaseExpression, module: ModuleFile, depth: int
    ) -> frozenset[str] | None:
        held = self.facts.values.get(node, UNKNOWN).constant()
        if isinstance(held, str):
            return frozenset({held})
        if isinstance(node, cst.SimpleString):
            return frozenset({str(node.evaluated_value)})
        template = _template(node)
        if template is not None:
            return frozenset({template})
        if isinstance(node, cst.BinaryOperation):
            return self._texts_of(node.right, module, depth)
        if isinstance(node, cst.Call):
            names = set(library_names(self.facts.values.get(node.func)))
            joined = names & {"os.path.join", PATH, "builtins.str"} and node.args
            return self._texts_of(node.args[-1].value, module, depth) if joined else None
        if isinstance(node, (cst.Name, cst.Attribute)) and depth > 0:
            return self._texts_of_name(node, module, depth)
        if isinstance(node, (cst.List, cst.Tuple)):
            return self._texts_of_items([one.value for one in node.elements], module, depth)
        return None

    def _texts_of_items(
        self, items: list[cst.BaseExpression], module: ModuleFile, depth: int
    ) -> frozenset[str] | None:
        """The paths of a list, one of which a loop over it has in each round."""
        texts = [self._texts_of(one, module, depth) for one in items]
        known = [one for one in texts if one is not None]
        return frozenset().union(*known) if known and len(known) == len(texts) else None

    def _texts_of_name(
        self, node: cst.BaseExpression, module: ModuleFile, depth: int
    ) -> frozenset[str] | None:
        found: set[str] = set()
        for edge in self.flow.edges_into(set(self.flow.names.of_target(node, module))):
            owner = _file_of(self.flow.structures, edge.node)
            texts = None
            if edge.value is not None and owner is not None:
                texts = self._texts_of(edge.value, owner, depth - 1)
            if texts is None:
                return None
            found |= texts
        return frozenset(found) if found else None

    # ------------------------------------------------------------------ what an answer decides
    def decided_by(self, use: FileUse) -> set[Location]:
        """What is made from the answer to a question, or set under a condition that asks it."""
        structure = self.flow.structures[use.site.module]
        inside = {n for test in tests_of(structure, use.site.node) for n in _reach(structure, test)}
        around = {use.site.node, *structure.up(use.site.node)}
        start: set[Location] = set()
        for edge in self.flow.edges:
            if edge.value in around or edge.node in inside:
                start.update(edge.targets)
        for one in inside:
            if isinstance(one, cst.Return):
                start.add(("result", structure.function(one)))
        return self.flow.derived(start)


def _end(text: str) -> str:
    return text.rsplit("/", 1)[-1]


def use_of(facts: Facts, call: cst.Call, module: ModuleFile) -> FileUse | None:
    """What a call reads or asks for; None for any other call."""
    for name in library_names(facts.values.get(call.func)):
        asks = name in ASKED
        path = named_by(call, ASKED[name] if asks else READ.get(name))
        if path is not None and ("write", call) not in facts.effects:
            return FileUse(Site(call, module), path, asks)
    if isinstance(call.func, cst.Attribute) and _is_path(facts, call.func.value):
        name = call.func.attr.value
        if name in ASKED_OF_PATHS or name in READ_FROM_PATHS:
            return FileUse(Site(call, module), call.func.value, name in ASKED_OF_PATHS)
    return None


def asks(facts: Facts, node: cst.CSTNode, module: ModuleFile) -> bool:
    """Whether an expression asks for files."""
    calls = (one for one in walk(node) if isinstance(one, cst.Call))
    return any((use := use_of(facts, one, module)) is not None and use.asks for one in calls)


def _is_path(facts: Facts, node: cst.BaseExpression) -> bool:
    held = facts.values.get(node, UNKNOWN).atoms
    return any(isinstance(a, Instance) and a.type == PATH for a in held)


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


def _template(node: cst.BaseExpression) -> str | None:
    """``x_{}.pt`` of ``f"x_{n}.pt"``, ``"x_{}.pt".format(n)`` and ``"x_%d.pt" % n``."""
    if isinstance(node, cst.FormattedString):
        texts = (p.value if isinstance(p, cst.FormattedStringText) else _ANY for p in node.parts)
        return "".join(texts)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        text, pattern = node.func.value, r"\{[^{}]*\}"
        formats = node.func.attr.value == "format"
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        text, pattern, formats = node.left, r"%[-+0-9.]*[a-z]", True
    else:
        return None
    if not formats or not isinstance(text, cst.SimpleString):
        return None
    return re.sub(pattern, _ANY, str(text.evaluated_value))


def _says_something(end: str) -> bool:
    """Whether more than the kind of a file is written out in its name."""
    return bool(end.replace(_ANY, "").partition(".")[0])


def _file_of(structures: dict[ModuleFile, Structure], node: cst.CSTNode) -> ModuleFile | None:
    return next((file for file, one in structures.items() if node in one.order), None)
