"""Objects with state, one for each place in the code that makes them, and what is bound to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding.values.atoms import Atom, Const
from ddpify.understanding.values.lattice import UNKNOWN, Container, Tup, Value, join, value
from ddpify.understanding.values.scopes import Class, Function

if TYPE_CHECKING:
    from ddpify.understanding.project import ModuleFile


CONTAINERS = ("list", "dict", "set", "generator")  # the types of Python's containers


_CONTAINERS = ("list", "dict", "set", "argparse.Namespace")


_ATTRIBUTES, _ARGUMENTS = object(), object()  # all of them
CHANGED = "<changed>"  # under it: whether settings may be others than those that are seen
ANY_NAME = "<any>*"  # under which an attribute is held whose name is not known


@dataclass(eq=False, repr=False, slots=True)
class Instance(Container):
    """An object made at one place: of a project class, a library class, or a container.

    It notes what a pass of the interpreter reads of it: what changes afterwards needs another pass.
    """

    site: cst.CSTNode
    module: ModuleFile
    type: Class | str
    role: str | None = None
    maker: Instance | None = None  # whose method it was first made in
    each: bool = False  # a list with an item for each of a rank's rows
    calls: tuple[
        cst.CSTNode | int, ...
    ] = ()  # the last ones that led to the place where it is made
    _attributes: dict[str, Value] = field(default_factory=dict)
    _arguments: dict[str, Value] = field(default_factory=dict)
    _read: set[object] = field(default_factory=set)  # names, or all of them, in this pass
    # Names that were read only to be added to, with what each addition gave.
    _totals: dict[str, Value] = field(default_factory=dict)
    growth: int = 0  # how often it has come to hold more
    _elements: tuple[int, Value] | None = None  # all that it held at a growth
    _methods: dict[str, Value] = field(default_factory=dict)  # a library's, that were asked for

    def __repr__(self) -> str:
        name = self.type if isinstance(self.type, str) else self.type.node.name.value
        return f"<{name} of {self.module.name}>"

    @property
    def kind(self) -> str:
        """The qualified name of a library's class, or of a container; empty for the project's."""
        return self.type if isinstance(self.type, str) else ""

    @property
    def place(self) -> tuple[cst.CSTNode | int, ...]:
        """Where it is made, with the calls that led there: the same in every run."""
        return (self.site, *self.calls)

    @property
    def attributes(self) -> dict[str, Value]:
        """All attributes and elements."""
        self._read.add(_ATTRIBUTES)
        return self._attributes

    @property
    def arguments(self) -> dict[str, Value]:
        """What it was made with, by name or by position as text."""
        self._read.add(_ARGUMENTS)
        return self._arguments

    def attribute(self, name: str) -> Value | None:
        """One attribute or element; None where it has none of its own."""
        self._read.add(name)
        return self._attributes.get(name)

    def of_prefix(self, name: str) -> Value | None:
        """What was set under names that are put together, as ``stage3`` under ``"stage" + x``."""
        ends = [key for key in self._attributes if key.endswith("*") and key != "*"]
        found = [key for key in ends if key == ANY_NAME or name.startswith(key[:-1])]
        self._read.update(found)
        return join(*(self._attributes[key] for key in found)) if found else None

    def put(self, name: str, new: Value) -> bool:
        """Let an attribute or element be this too; whether this pass has read it before."""
        if not _grown(self._attributes, name, new):
            return False
        self.growth += 1
        if self.has_read(name):
            return True
        return name in self._totals and not _is_added_alike(new, self._totals[name])

    def holds_just(self, name: str, held: Value) -> bool:
        """Whether an attribute is this as far as is known, which counts as no read of it."""
        return self._attributes.get(name) == held

    def has_read(self, name: str) -> bool:
        """Whether this pass has read an attribute, and not only to add to it."""
        return name in self._read or _ATTRIBUTES in self._read

    def read_for_total(self, name: str, total: Value) -> None:
        """What this pass has read of an attribute was only added to, with this result each time."""
        if self._totals.setdefault(name, total) == total:
            self._read.discard(name)

    def take_back(self, name: str, before: Value | None) -> None:
        """Let an attribute or element be what it was, or be none."""
        if before is None:
            self._attributes.pop(name, None)
        else:
            self._attributes[name] = before
        self.growth += 1

    def hold(self, name: str, new: Value) -> None:
        """Let an attribute or element be this alone."""
        self.hold_all({name: new})

    def hold_all(
        self, attributes: Mapping[str, Value], arguments: Mapping[str, Value] | None = None
    ) -> None:
        """Let these attributes, and these of what it was made with, be this alone."""
        if attributes:
            self.attributes.update(attributes)
        if arguments:
            self.arguments.update(arguments)
        self.growth += 1

    def give(self, name: str, new: Value) -> bool:
        """The same for an argument."""
        grown = _grown(self._arguments, name, new)
        self.growth += grown
        return grown and _ARGUMENTS in self._read

    def forget_reads(self) -> None:
        """A new pass has read nothing yet."""
        self._read.clear()
        self._totals.clear()

    @property
    def elements(self) -> Value:
        """All that the container may hold."""
        self._read.add(_ATTRIBUTES)
        return self.held_so_far

    @property
    def held_so_far(self) -> Value:
        """The same, joined again only where it has come to hold more. It notes no reading."""
        if self._elements is None or self._elements[0] != self.growth:
            self._elements = self.growth, either(*self._attributes.values())
        return self._elements[1]

    def contents(self) -> Sequence[Value]:
        """What it holds, if it is one of Python's containers."""
        return (self.elements,) if self.kind in _CONTAINERS else ()

    def method(self, name: str) -> Value:
        """One of its methods, of which the script has no code: the same object each time."""
        if name not in self._methods:
            self._methods[name] = value(Method(value(self), name))
        return self._methods[name]

    def held(self) -> Iterator[Atom]:
        """The atoms of its attributes and arguments, and of what containers hold there.

        It notes no reading.
        """
        todo, seen = [*self._attributes.values(), *self._arguments.values()], {id(self)}
        while todo:
            for atom in todo.pop().atoms:
                yield atom
                if id(atom) in seen:
                    continue
                seen.add(id(atom))
                if isinstance(atom, Tup):
                    todo += atom.items
                elif isinstance(atom, Instance) and atom.kind in _CONTAINERS:
                    todo += atom._attributes.values()

    def parts(self) -> Iterator[Instance]:
        """The objects that it holds, or was made with. It notes no reading."""
        held = [*self._attributes.values(), *self._arguments.values()]
        seen = {id(one) for one in held}  # tuples may hold the same values over and over
        while held:
            for atom in held.pop().atoms:
                if isinstance(atom, Instance):
                    yield atom
                elif isinstance(atom, Tup):
                    new = [item for item in atom.items if id(item) not in seen]
                    seen.update(map(id, new))
                    held += new


def _is_added_alike(new: Value, total: Value) -> bool:
    """Whether adding to this as well gives no more than adding to plain numbers has given."""
    return all(type(atom) in (Const, Number) or atom in total.atoms for atom in new.atoms)


def _not_surely_literal(known: Value) -> Value:
    """What is a literal, or something that is not known: no test of it may be decided."""
    literal = bool(known) and all(type(atom) is Const for atom in known.atoms)
    return join(known, REPLICATED) if literal else known


def _grown(held: dict[str, Value], name: str, new: Value) -> bool:
    """Let what is held under a name be this too; whether it was not."""
    old = held.get(name, UNKNOWN)
    both = join(old, new)
    if name in held and not (old and new):
        both = _not_surely_literal(both)
    if both == old and name in held:
        return False
    held[name] = both
    return True


@record
class Number(Atom):
    """A number, string or other plain value that is the same on every rank.

    ``setting`` is the option of the command line that it is: the object that holds them, its name.
    ``loaded`` is the expression that took it out of a file, which may hold any object. ``ndim`` is
    the number of dimensions of the tensor that it is, 0 for a number; None where it is not known.
    ``least``: a whole number of a range that begins there, or such numbers; None for others.
    """

    setting: tuple[Instance, str] | None = None
    loaded: cst.CSTNode | None = None
    ndim: int | None = None
    least: int | None = None


REPLICATED = Value((Number(),))


def either(*values: Value) -> Value:
    """What may be any of these; what is not understood may be what all ranks hold.

    Beside a rank's part of a sum, say, that must not be lost: it would be added up as well.
    """
    joined = join(*values)
    if all(one.atoms for one in values) or not any(d.placement.local for d in joined.data):
        return joined
    return join(joined, REPLICATED)


@record
class Params(Atom):
    """Parameters of a model; ``ndim``: of one of them, its dimensions, 0 where not known."""

    owner: Instance
    ndim: int = 0


@record
class Method(Atom):
    """A method bound to a value of a library type, or a function bound to an instance."""

    receiver: Value
    name: str


@record
class Bound(Atom):
    """A function of the project bound to an instance, or a class method to its class."""

    receiver: Instance | Class
    function: Function


@record
class Super(Atom):
    """``super()`` of an instance, or of a class in a method of its metaclass."""

    receiver: Instance | Class


def may_be_integer(atom: Atom) -> bool:
    """Whether this is an integer that all ranks share, or a plain value that may be one."""
    return isinstance(atom, Number) or (isinstance(atom, Const) and isinstance(atom.value, int))
