"""Data sets that draw from a random generator of their own, which goes on from sample to sample.

``self.rng = np.random.RandomState(0)`` draws the same sequence in every run, so that what a sample
is goes by how many were taken before it. One that starts from entropy draws by chance, and one
that is seeded for each sample draws the same for it wherever it is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import argument, content, dotted, names_of
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance, QualifiedName, Value

_SEEDED_BY_AN_ARGUMENT = frozenset(
    f"numpy.random.{name}"
    for name in "RandomState default_rng MT19937 PCG64 PCG64DXSM Philox SFC64".split()
) | {"random.Random"}
_ALWAYS_SEEDED = "torch.Generator"
_SEEDING = frozenset("seed manual_seed setstate set_state".split())
_DEEPEST = 4  # objects in each other
_KEEPING = ("functools.partial", "builtins.iter", "numpy.random.Generator")  # what they are given
_HOLDING = (
    cst.List, cst.Tuple, cst.Set, cst.Dict, cst.Element, cst.DictElement, cst.BooleanOperation,
    cst.IfExp, cst.NamedExpr, cst.ListComp, cst.Subscript,
)  # fmt: skip


def draws_in_turn(
    data_set: Instance, nodes: Sequence[cst.CSTNode], seen: Mapping[cst.CSTNode, Value]
) -> bool:
    """Whether ``nodes``, which give a sample, draw from a generator that outlives it."""
    kind = data_set.type
    if not isinstance(kind, Class):
        return False
    search = _Search(seen)
    places = search.of_file(kind.module) | search.of_class(kind, search.given_to(data_set, kind))
    reached = [*nodes, *_in_functions(nodes, kind.module), *_in_methods(nodes, kind)]
    read = {place for node in reached for place in _read(node)} & places
    anew = {place for node in reached for place in search.set_anew(node)}
    return bool(read - anew)


def _in_functions(nodes: Sequence[cst.CSTNode], module: ModuleFile) -> Iterator[cst.CSTNode]:
    """What stands in the functions of a file that these nodes name."""
    named = {node.value for node in nodes if isinstance(node, cst.Name)}
    for function in module.structure.all(cst.FunctionDef):
        if function.name.value in named and module.structure.class_of(function) is None:
            yield from walk(function)
    for name, given in _globals(module):
        if name in named and isinstance(given, cst.Lambda):
            yield from walk(given)


def _in_methods(nodes: Sequence[cst.CSTNode], kind: Class) -> Iterator[cst.CSTNode]:
    """What stands in the methods and properties of a class that these nodes name."""
    for name in {node.attr.value for node in nodes if isinstance(node, cst.Attribute)}:
        found = kind.find(name)
        for function in found.of(Function) if found else ():
            yield from walk(function.node)


def _globals(module: ModuleFile) -> Iterator[tuple[str, cst.BaseExpression]]:
    """What a file assigns outside of its functions and classes."""
    structure = module.structure
    for node in structure.all(cst.Assign):
        if structure.function(node) is None and structure.class_of(node) is None:
            yield from ((dotted(one.target) or "", node.value) for one in node.targets)


def _read(node: cst.CSTNode) -> Iterator[str]:
    """The name of what a node reads: a variable, an attribute, or ``getattr(self, name)``."""
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, cst.Attribute):
        yield node.attr.value
    elif isinstance(node, cst.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        name = node.args[1].value
        if isinstance(name, cst.SimpleString):
            yield str(content(name))


class _Search:
    """Finds the generators that draw the same sequence in every run, by what is seen of calls.

    Each file, class and function is looked through once at each depth, wherever it is called.
    """

    def __init__(self, seen: Mapping[cst.CSTNode, Value]) -> None:
        self.seen = seen
        self._files: dict[tuple[ModuleFile, int], frozenset[str]] = {}
        self._classes: dict[tuple[Class, frozenset[str], int], frozenset[str]] = {}
        self._functions: dict[tuple[cst.CSTNode, int], bool] = {}

    def of_file(self, module: ModuleFile, left: int = _DEEPEST) -> frozenset[str]:
        """The global names of a file that hold one, ``Class.attribute`` by its last name."""
        key = module, left
        if key not in self._files:
            found = (name for name, given in _globals(module) if self._holds(given, set(), left))
            self._files[key] = frozenset(name.rsplit(".", 1)[-1] for name in found)
        return self._files[key]

    def of_class(self, kind: Class, given: Set[str], left: int = _DEEPEST) -> frozenset[str]:
        """The attributes under which objects of a class hold one; ``given`` are such arguments."""
        key = kind, frozenset(given), left
        if key not in self._classes:
            self._classes[key] = frozenset(self._kept_by(kind, given, left))
        return self._classes[key]

    def _kept_by(self, kind: Class, given: Set[str], left: int) -> set[str]:
        names = {*given, *self.of_file(kind.module, left)}
        found = set[str]()
        for node, targets, held in _assignments(kind.node):
            if self._holds(held, names | found, left):
                local = kind.module.structure.function(node) is not None
                for target in map(_owner, targets):
                    kept = not local or isinstance(target, cst.Attribute)
                    (found if kept else names).update(_read(target))
        for base in kind.project_bases():
            found |= self.of_class(base, given, left - 1)
        return found

    def given_to(self, made: Instance, kind: Class) -> set[str]:
        """The parameters of a constructor that get one where an object is made."""
        init = kind.find("__init__")
        functions = list(init.of(Function)) if init else []
        if len(functions) != 1 or not isinstance(made.site, cst.Call):
            return set()
        names = [one.name.value for one in functions[0].node.params.params][1:]
        given = ((name, argument(made.site, name, place)) for place, name in enumerate(names))
        known = self.of_file(made.module)
        return {name for name, one in given if one and self._holds(one.value, known, 1)}

    def set_anew(self, node: cst.CSTNode) -> Iterator[str]:
        """The generator that a call seeds, or that an assignment makes."""
        called = node.func if isinstance(node, cst.Call) else None
        if isinstance(called, cst.Attribute) and called.attr.value in _SEEDING:
            yield from _read(called.value)
        made = node.value if isinstance(node, cst.Assign) else None
        if isinstance(node, cst.Assign) and isinstance(made, cst.Call) and self._is_seeded(made):
            yield from (one for target in node.targets for one in _read(target.target))

    def _holds(self, given: cst.CSTNode, names: Set[str], left: int) -> bool:
        """Whether the value of an expression is, holds or draws from one; ``names`` are such."""
        if isinstance(given, (cst.Name, cst.Attribute)):
            held = not names.isdisjoint(_read(given))
            return held or (
                isinstance(given, cst.Attribute) and self._holds(given.value, names, left)
            )
        if isinstance(given, cst.Lambda):
            return any(not names.isdisjoint(_read(one)) for one in walk(given.body))
        if isinstance(given, cst.Call):
            return self._comes_of(given, names, left)
        inside = children(given) if isinstance(given, _HOLDING) else ()
        return any(self._holds(one, names, left) for one in inside)

    def _comes_of(self, call: cst.Call, names: Set[str], left: int) -> bool:
        """Whether a call makes one, keeps one that it is given, or gives one that it makes."""
        called = self.seen.get(call.func, UNKNOWN)
        if self._is_seeded(call):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "manual_seed":
            return self._holds(call.func.value, names, left)
        functions = list(called.of(Function)) if left > 0 else []
        classes = list(called.of(Class)) if left > 0 else []
        library = any(one.name in _KEEPING for one in called.of(QualifiedName))
        keeps = library or functions or classes
        if keeps and any(self._holds(one.value, names, left) for one in call.args):
            return True
        made = any(self.of_class(one, set(), left - 1) for one in classes)
        return made or any(self._gives_one(one.node, left - 1) for one in functions)

    def _gives_one(self, function: cst.FunctionDef | cst.Lambda, left: int) -> bool:
        """Whether a function returns one, or a function that draws from one."""
        key = function, left
        if key not in self._functions:
            self._functions[key] = self._returns_one(function, left)
        return self._functions[key]

    def _returns_one(self, function: cst.FunctionDef | cst.Lambda, left: int) -> bool:
        names = set[str]()
        for _, targets, given in _assignments(function.body):
            if self._holds(given, names, left):
                names |= {one for target in targets for one in _read(target)}
        inner = [one for one in walk(function.body) if isinstance(one, cst.FunctionDef)]
        drawing = (one for one in inner if any(not names.isdisjoint(_read(x)) for x in walk(one)))
        names |= {one.name.value for one in drawing}
        returned = (one.value for one in walk(function.body) if isinstance(one, cst.Return))
        return any(one is not None and self._holds(one, names, left) for one in returned)

    def _is_seeded(self, call: cst.Call) -> bool:
        names = {one.name for one in self.seen.get(call.func, UNKNOWN).of(QualifiedName)}
        told = bool(call.args) and dotted(call.args[0].value) != "None"
        return _ALWAYS_SEEDED in names or (told and not names.isdisjoint(_SEEDED_BY_AN_ARGUMENT))


def _assignments(
    within: cst.CSTNode,
) -> Iterator[tuple[cst.CSTNode, list[cst.BaseExpression], cst.BaseExpression]]:
    """All that is given to something below a node, with what it is given to."""
    for one in walk(within):
        if isinstance(one, cst.Assign):
            targets = [part for target in one.targets for part in names_of(target.target)]
            yield one, targets, one.value
        elif isinstance(one, (cst.AnnAssign, cst.NamedExpr)) and one.value is not None:
            yield one, [one.target], one.value


def _owner(target: cst.BaseExpression) -> cst.BaseExpression:
    """What an entry is of."""
    while isinstance(target, cst.Subscript):
        target = target.value
    return target
