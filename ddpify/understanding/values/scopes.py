"""Names and what they stand for; and what has names of its own: functions, classes, modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import dotted
from ddpify.understanding.values.atoms import Atom, QualifiedName
from ddpify.understanding.values.lattice import UNKNOWN, Value, join

if TYPE_CHECKING:
    from ddpify.understanding.project import ModuleFile


@dataclass(eq=False, repr=False, slots=True)
class Scope:
    """Names and what they stand for at the point that the interpreter has reached."""

    names: dict[str, Value] = field(default_factory=dict)
    parent: Scope | None = None
    kind: str = "function"  # "module", "class" or "function"
    shared: set[str] = field(default_factory=set)  # declared global or nonlocal
    stars: list[str] = field(default_factory=list)  # libraries imported with a star
    _passed: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)  # those of a computation that it does not
    captured: set[str] = field(default_factory=set)  # names that scopes inside have read
    alike: tuple[Scope, ...] = ()  # of other calls, for functions that stand for those made there
    # Parameters that count as passed if this says so, once it matters: mostly, it never does.
    _undecided: set[str] = field(default_factory=set)
    _decide: Callable[[], bool] | None = None

    @property
    def passed(self) -> set[str]:
        """Parameters that this call gives a value."""
        if self._undecided and self._decide is not None:
            self._passed |= self._undecided if self._decide() else set()
            self._undecided.clear()
        return self._passed

    def passes(self, name: str) -> None:
        """Note that this call gives a parameter a value."""
        self._passed.add(name)

    def passes_if(self, name: str, decide: Callable[[], bool]) -> None:
        """The same, if this says so where it is asked for."""
        self._undecided.add(name)
        self._decide = decide

    def held(self, name: str) -> Value:
        """What a name of this scope may stand for in a function that is made in it."""
        others = (one.names[name] for one in self.alike if name in one.names)
        return join(self.names[name], *others)

    def rebind(self, name: str, new: Value) -> None:
        """Let a name be this: what a call gives it is gone."""
        self.names[name] = new
        self._passed.discard(name)
        self._undecided.discard(name)
        self.left_out.discard(name)


@dataclass(eq=False, repr=False, slots=True)
class Function(Atom):
    """A function or lambda of the project, perhaps with some of its arguments given beforehand.

    ``defaults`` holds those that are no literals, as they were where the function was made.
    """

    node: cst.FunctionDef | cst.Lambda
    module: ModuleFile
    scope: Scope
    owner: Class | None = None
    given: tuple[Value, ...] = ()
    given_by_name: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, repr=False, slots=True)
class Class(Atom):
    """A class of the project."""

    node: cst.ClassDef
    module: ModuleFile
    scope: Scope
    bases: list[Value] = field(default_factory=list)
    metaclass: Value = UNKNOWN

    def __repr__(self) -> str:
        return f"<class {self.node.name.value} of {self.module.name}>"

    def find(self, name: str) -> Value | None:
        """An attribute of the class or of its bases in the project."""
        if name in self.scope.names:
            return self.scope.names[name]
        for base in self.project_bases():
            found = base.find(name)
            if found is not None:
                return found
        return None

    def find_in_metaclass(self, name: str) -> Value | None:
        """An attribute that the class itself has, as an object of its metaclass."""
        for made in (*self.metaclass.of(Class), *self.project_bases()):
            own = made in self.metaclass.atoms
            found = made.find(name) if own else made.find_in_metaclass(name)
            if found is not None:
                return found
        return None

    def fields(self) -> list[str]:
        """What a data class or named tuple is made with, in order: ``name: type`` in it or a base.

        Nothing for a class that says itself what it is made with.
        """
        if self.find("__init__") is not None or not (self._is_data_class() or self.is_named_tuple):
            return []
        found = [name for base in self.project_bases() for name in base.fields()]
        for line in self.node.body.body:
            for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(one, cst.AnnAssign) and isinstance(one.target, cst.Name):
                    found += [one.target.value] if _is_given(one) else []
        return list(dict.fromkeys(found))

    @property
    def is_named_tuple(self) -> bool:
        """Whether its objects are tuples whose elements have names."""
        return any(name.rsplit(".", 1)[-1] == "NamedTuple" for name in self.library_bases())

    def _is_data_class(self) -> bool:
        made = (one.decorator for one in self.node.decorators)
        names = (dotted(one.func if isinstance(one, cst.Call) else one) or "" for one in made)
        return any(name.rsplit(".", 1)[-1] == "dataclass" for name in names)

    def project_bases(self) -> Iterator[Class]:
        """The bases that the project itself defines."""
        for value in self.bases:
            yield from (atom for atom in value.atoms if isinstance(atom, Class))

    def library_bases(self) -> Iterator[str]:
        """Qualified names of all library classes that it derives from."""
        for value in self.bases:
            for atom in value.atoms:
                if isinstance(atom, QualifiedName):
                    yield atom.name
                elif isinstance(atom, Class):
                    yield from atom.library_bases()


def _is_given(field_of: cst.AnnAssign) -> bool:
    """Whether a field of a data class is an argument: not ``ClassVar``, ``field(init=False)``."""
    kind = field_of.annotation.annotation
    of_class = dotted(kind.value if isinstance(kind, cst.Subscript) else kind) or ""
    given = field_of.value.args if isinstance(field_of.value, cst.Call) else ()
    left_out = any(a.keyword is not None and a.keyword.value == "init" for a in given)
    return not left_out and not of_class.endswith("ClassVar")


@dataclass(eq=False, repr=False, slots=True)
class Namespace(Atom):
    """A module of the project, as a value."""

    module: ModuleFile
    scope: Scope
