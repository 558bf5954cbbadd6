"""What a file defines, and which names stand in each definition, as its tree says.

Importing a file runs its own lines, decorators, defaults and what classes set among them. A
function or class of it runs where its name stands in something that runs: in code or in a text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from ddpify.records import record
from ddpify.understanding.text_imports import Imports

_WORD = re.compile(r"[^\W\d]\w*")
# What finds definitions, or modules, by names that need not stand anywhere.
_FINDING = frozenset("globals import_module __import__ runpy builtins __subclasses__".split())
_RUNNING = frozenset({"eval", "exec"})  # as methods, they set a mode
_NOTING = frozenset({"__init_subclass__", "__set_name__"})
_ABSTRACT = frozenset({"ABCMeta", "EnumMeta"})  # metaclasses that note nothing
_OF_AN_OBJECT = frozenset({"vars", "dir", "getmembers", "getattr"})
_OF_ANY = frozenset({"attrgetter", "methodcaller"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# Methods that are called although nothing of the project may name them, as those with underscores.
_BY_LIBRARIES = frozenset("forward backward setup_context run step call apply".split())


@record
class Definition:
    """Lines of a file that run together: those of a function or class, or, without a name, others.

    ``names`` are all that stand in it, ``texts`` those of its texts, ``beginnings`` those of names
    that it puts together.
    ``values`` are names, each with its last attribute, that are more than called or asked for
    others. It ``asks`` for attributes by names that are not written there, and ``looks_up`` those
    of what may be a module, or ``finds`` anything. Its ``methods`` run only where they are named.
    """

    name: str | None
    names: frozenset[str]
    texts: frozenset[str]
    beginnings: frozenset[str]
    values: frozenset[tuple[str, str]]
    looks_up: bool
    asks: bool
    finds: bool
    methods: tuple[Definition, ...] = ()


@record
class Bound:
    """A name of ``module`` that an import gives a name; without ``name``, the module itself."""

    level: int
    module: str
    name: str
    given: str


@record
class Defined:
    """A file's definitions, what it imports, and the names that it gives to that and to others."""

    definitions: tuple[Definition, ...]
    imports: Imports
    bound: tuple[Bound, ...]
    assigned: frozenset[str]


def defined_in(text: str) -> Defined | None:
    """What a file defines; None where its syntax is another one than this Python's."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    by_import = _Lines()
    definitions, assigned = [], set[str]()
    imports: list[ast.Import | ast.ImportFrom] = []
    for line in tree.body:
        read = by_import
        if isinstance(line, (*_FUNCTIONS, ast.ClassDef)) and not line.decorator_list:
            read = _Lines()
            by_import.add_all(_run_by_import(line))
            assigned.add(line.name)
        if isinstance(line, ast.ClassDef) and read is not by_import:
            read.add_class(line)
        elif not _lists_names(line):
            read.add(line)
        if read is not by_import:
            definitions.append(read.definition(getattr(line, "name", None)))
            imports += read.imports
            assigned |= read.assigned
    definitions.append(by_import.definition(None))
    imports += by_import.imports
    return Defined(
        tuple(definitions),
        tuple(dict.fromkeys(found for one in imports for found in _imports(one))),
        tuple(pair for one in imports for pair in _bound(one)),
        frozenset(assigned | by_import.assigned),
    )


class _Lines:
    """What stands in lines that run together."""

    def __init__(self) -> None:
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.assigned = set[str]()
        self._names, self._texts, self._starts = set[str](), set[str](), set[str]()
        self._values = set[tuple[str, str]]()
        self._looks_up = self._asks = self._finds = False
        self._methods: list[Definition] = []

    def add_all(self, lines: Iterable[ast.AST]) -> None:
        """Read these lines, too."""
        for one in lines:
            self.add(one)

    def add(self, line: ast.AST) -> None:
        """Read a line; what a function is given, others have handed on."""
        if isinstance(line, ast.ClassDef):
            self.add_all(ast.iter_child_nodes(line))
            return
        nodes, given = list(_walk(line)), set[str]()
        if isinstance(line, _FUNCTIONS):
            given = {one.arg for one in _walk(line.args) if isinstance(one, ast.arg)}
            self._finds = self._finds or line.name in _NOTING
        passing = set[ast.AST]()
        for one in nodes:
            self._read(one)
            if isinstance(one, ast.Attribute):
                passing.add(one.value)
            elif isinstance(one, ast.Call):
                passing.add(one.func)
        for one in nodes:
            if isinstance(one, (ast.Name, ast.Attribute)) and one not in passing:
                root, last = _ends(one)
                if root and root not in given:
                    self._values.add((root, last))

    def add_class(self, line: ast.ClassDef) -> None:
        """Read a class; its methods apart, where something has to name them."""
        for one in ast.iter_child_nodes(line):
            if not isinstance(one, _FUNCTIONS) or not _has_to_be_named(one):
                self.add(one)
                continue
            read = _Lines()
            read.add(one)
            self._methods.append(read.definition(one.name))
            self.imports += read.imports
            self.assigned |= read.assigned

    def definition(self, name: str | None) -> Definition:
        """All of it, under the name that a function or class has."""
        return Definition(
            name,
            frozenset(self._names | self._texts),
            frozenset(self._texts),
            frozenset(self._starts),
            frozenset(self._values),
            self._looks_up,
            self._asks,
            self._finds or (name is None and "locals" in self._names),
            tuple(self._methods),
        )

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self._names.add(node.id)
            self._finds = self._finds or node.id in _RUNNING or node.id in _FINDING
            if node.id in _OF_ANY:
                self._ask(in_module=True)
            if isinstance(node.ctx, ast.Store):
                self.assigned.add(node.id)
        elif isinstance(node, ast.Attribute):
            self._names.add(node.attr)
            self._read_attribute(node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self._texts.update(_WORD.findall(node.value))
        elif isinstance(node, ast.Call):
            self._read_call(node)
        elif isinstance(node, _IMPORTS):
            self.imports.append(node)
            renamed = (one.name for one in node.names if one.asname is not None)
            self._names.update(word for name in renamed for word in name.split("."))
        elif isinstance(node, ast.keyword) and node.arg == "metaclass":
            made = getattr(node.value, "attr", "") or getattr(node.value, "id", "")
            self._finds = self._finds or made not in _ABSTRACT

    def _read_attribute(self, node: ast.Attribute) -> None:
        in_sys = isinstance(node.value, ast.Name) and node.value.id == "sys"
        self._finds = self._finds or node.attr in _FINDING or (in_sys and node.attr == "path")
        if node.attr in _OF_ANY or node.attr == "__dict__":
            self._ask(in_module=not _is_receiver(node.value))

    def _read_call(self, node: ast.Call) -> None:
        """Note where attributes are asked for by a name that is not written there."""
        called = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        if called not in _OF_AN_OBJECT:
            return
        if called == "getattr" and len(node.args) > 1:
            if isinstance(node.args[1], ast.Constant):
                return
            if start := _beginning(node.args[1]):
                self._starts.add(start)
                return
        self._ask(in_module=not (node.args and _is_receiver(node.args[0])))

    def _ask(self, *, in_module: bool) -> None:
        self._asks = True
        self._looks_up = self._looks_up or in_module


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, but for texts that name nothing: documentation and complaints."""
    todo = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        yield one
        for held in vars(one).values():  # three times as fast as ``ast.iter_child_nodes``
            if isinstance(held, list):
                todo += [inner for inner in held if isinstance(inner, ast.AST)]
            elif isinstance(held, ast.AST) and not isinstance(held, ast.expr_context):
                todo.append(held)
        if isinstance(one, ast.Assert) and isinstance(one.msg, (ast.Constant, ast.JoinedStr)):
            todo.remove(one.msg)
        elif isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call):
            todo.remove(one.exc)
            texts = (ast.Constant, ast.JoinedStr)
            todo += [one.exc.func, *(x for x in one.exc.args if not isinstance(x, texts))]
            todo += one.exc.keywords


def _has_to_be_named(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether nothing runs a method but what names it."""
    plain = not method.decorator_list and not method.name.startswith("__")
    return plain and method.name not in _BY_LIBRARIES


def _lists_names(line: ast.stmt) -> bool:
    """Whether this is ``__all__ = [..]``, which uses nothing."""
    targets = line.targets if isinstance(line, ast.Assign) else ()
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


def _run_by_import(line: ast.AST) -> Iterator[ast.AST]:
    """The parts of a definition that run where it stands: defaults, and what a class sets."""
    if isinstance(line, _FUNCTIONS):
        yield from line.args.defaults
        yield from (one for one in line.args.kw_defaults if one is not None)
        yield from line.decorator_list
    elif isinstance(line, ast.ClassDef):
        yield from (one for one in line.bases if isinstance(one, ast.Call))
        yield from line.keywords
        yield from line.decorator_list
        for one in line.body:
            inner = isinstance(one, (*_FUNCTIONS, ast.ClassDef))
            yield from _run_by_import(one) if inner else (one,)


def _ends(node: ast.Name | ast.Attribute) -> tuple[str, str]:
    """The first and the last name of ``a.b.c``; of ``a.b.__dict__``, those of ``a.b``."""
    whole = node.value if isinstance(node, ast.Attribute) and node.attr == "__dict__" else node
    root: ast.AST = whole
    while isinstance(root, ast.Attribute):
        root = root.value
    return getattr(root, "id", ""), getattr(whole, "attr", "")


def _is_receiver(node: ast.expr) -> bool:
    """Whether this is the object of a method, or its class: no module."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _beginning(name: ast.expr) -> str:
    """``stage`` of ``f"stage{n}"``, ``"stage" + n``, ``"stage%d" % n``, ``"stage{}".format(n)``."""
    while isinstance(name, ast.BinOp):
        name = name.left
    if isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute):
        name = name.func.value if name.func.attr == "format" else name
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]
    text = name.value if isinstance(name, ast.Constant) else None
    found = _WORD.match(text) if isinstance(text, str) else None
    return found.group() if found is not None else ""


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """What a statement imports, with the packages around it."""
    if isinstance(node, ast.ImportFrom):
        yield node.level, node.module or "", tuple(one.name for one in node.names)
        return
    for one in node.names:
        parts = one.name.split(".")
        yield from ((0, ".".join(parts[:n]), ()) for n in range(1, len(parts) + 1))


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[Bound]:
    for one in node.names:
        if isinstance(node, ast.ImportFrom):
            yield Bound(node.level, node.module or "", one.name, one.asname or one.name)
        else:
            whole = one.name if one.asname is not None else one.name.partition(".")[0]
            yield Bound(0, whole, "", one.asname or whole)
