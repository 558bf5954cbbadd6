"""The abstract values that the interpreter computes: what a name may stand for.

A :class:`Value` is a set of atoms, since a name can stand for different things on different
paths. Objects with state (instances, lists, dictionaries) are one atom for each place in the code
that makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding.forms import Form
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import dotted

if TYPE_CHECKING:
    from ddpify.understanding.project import ModuleFile


NO_ROWS = -99  # the dimension of the rows of a single sample, which has none


@record
class Const:
    """A literal of the script."""

    value: object


@record
class QualifiedName:
    """Something a library defines, by its qualified name."""

    name: str


@record
class Number:
    """A number, string or other plain value that is the same on every rank.

    ``setting`` is the option of the command line that it is: the object that holds them, its name.
    ``loaded`` is the expression that took it out of a file, which may hold any object.
    """

    setting: tuple[Instance, str] | None = None
    loaded: cst.CSTNode | None = None


@record
class Data:
    """A tensor, an array or a number, with its placement.

    ``loaders`` are the loaders whose batches it comes from. ``definition_sites`` are the
    expressions at which a reduction could be inserted instead of at the use. An ``opaque`` value
    comes out of code that ddpify cannot read: it may be a loss as well as rows. ``names`` are the
    expressions at which its rows last got a name, and could be gathered. ``dim`` is the dimension
    of the batch among ``ndim``, which is 0 where their number is not known: then the last may be
    the batch's where there is ``one_each``, perhaps a single number for a sample. ``found_in`` are
    the masks of whose rows these are the positions. ``flat``: perhaps several for each sample,
    which a view laid out. ``boolean``: surely truth values. ``taken_by`` are the positions, as
    code, of a single sample. ``views`` are the expressions that may have taken it as a view of some
    samples. ``past``: its loader has given another batch since.
    """

    placement: Placement
    loaders: frozenset[Instance] = frozenset()
    definition_sites: frozenset[cst.BaseExpression] = frozenset()
    names: frozenset[cst.BaseExpression] = frozenset()
    dim: int = 0
    ndim: int = 0
    opaque: bool = False
    form: Form = Form.TENSOR
    counted: tuple[str, ...] = ()  # how to compute the denominator of a WEIGHTED mean, as code
    one_each: bool = False
    found_in: frozenset[cst.BaseExpression] = frozenset()
    flat: bool = False
    boolean: bool = False
    taken_by: frozenset[str] = frozenset()
    views: frozenset[cst.BaseExpression] = frozenset()
    past: bool = False

    @property
    def ragged(self) -> bool:
        """Whether a rank has any number of rows: a mask left them, or samples brought several."""
        return self.form in (Form.MASKED, Form.RAGGED)

    @property
    def is_position(self) -> bool:
        """Whether this is a number that counts a rank's rows."""
        return self.form is Form.POSITION

    @property
    def is_of_one_sample(self) -> bool:
        """Whether this is one of a rank's rows, or the position of one."""
        return self.is_position or (self.placement is Placement.ROWS and self.form is Form.ROW)

    @property
    def counting(self) -> frozenset[cst.BaseExpression]:
        """Where a range, or what is computed of one, is told how far it goes; empty for others."""
        return self.definition_sites if self.form in (Form.RANGE, Form.COMPUTED) else frozenset()

    @property
    def reduced(self) -> bool:
        """Whether this is what a reduction over the ranks gave: a number, and no rows."""
        return self.placement is Placement.REPLICATE and self.form in (Form.TENSOR, Form.TOTAL)

    def placed(self, placement: Placement) -> Data:
        """The same data under another placement, as a fresh tensor."""
        return replace(
            self,
            placement=placement,
            definition_sites=frozenset(),
            form=Form.TENSOR,
            opaque=False,
            ndim=0,
            one_each=False,
            boolean=False,
            views=frozenset(),
        )


@record
class ReplicatedTensor:
    """A replicated tensor that may be a batch made by hand.

    Its rows would lie along dimension ``dim``, and along ``dim_at_definition`` at the places
    ``definition_sites``,
    where it could be split. ``flat`` marks one whose rows are laid out one after the other, several
    for a sample perhaps; ``mixed`` one that is flattened across them: they cannot be told apart.
    ``stacked`` marks a stack of matrices, ``guessed`` what may be no tensor at all, ``last`` one
    whose last dimension is surely that of the rows.
    """

    dim: int
    dim_at_definition: int
    definition_sites: frozenset[cst.CSTNode] = frozenset()
    flat: bool = False
    flat_at_definition: bool = False
    mixed: bool = False
    stacked: bool = False
    guessed: bool = False
    last: bool = False


_DEEPEST_TUPLE = 3  # tuples within each other that are told apart


@dataclass(slots=True, unsafe_hash=True)
class Tup:
    """A tuple whose elements are known one by one.

    One that holds itself in each round of a loop would grow without an end: where tuples lie in
    each other deeper than real ones do, what the innermost hold is what may stand in their place.
    """

    items: tuple[Value, ...]
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        depths = [a.depth for item in self.items for a in item.atoms if type(a) is Tup]
        self.depth = min(max(depths, default=0) + 1, _DEEPEST_TUPLE)
        if _DEEPEST_TUPLE in depths:
            self.items = tuple(map(_without_deepest, self.items))

    def covers(self, other: Tup) -> bool:
        """Whether each element may be all that the other's may be."""
        pairs = zip(self.items, other.items, strict=False)
        return len(self.items) == len(other.items) and all(a.covers(b) for a, b in pairs)


@record
class Params:
    """Parameters of a model."""

    owner: Instance


@record
class Method:
    """A method bound to a value of a library type, or a function bound to an instance."""

    receiver: Value
    name: str


@record
class Device:
    """A device; ``index`` is set where the script names one accelerator of several."""

    accelerator: bool
    index: int | None
    conditional: bool = False


@dataclass(eq=False, repr=False, slots=True)
class Function:
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


@record
class Bound:
    """A function of the project bound to an instance, or a class method to its class."""

    receiver: Instance | Class
    function: Function


@dataclass(eq=False, repr=False, slots=True)
class Class:
    """A class of the project."""

    node: cst.ClassDef
    module: ModuleFile
    scope: Scope
    bases: list[Value] = field(default_factory=list)

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


_ATTRIBUTES, _ARGUMENTS = object(), object()  # all of them


def _is_given(field_of: cst.AnnAssign) -> bool:
    """Whether a field of a data class is an argument: not ``ClassVar``, ``field(init=False)``."""
    kind = field_of.annotation.annotation
    of_class = dotted(kind.value if isinstance(kind, cst.Subscript) else kind) or ""
    given = field_of.value.args if isinstance(field_of.value, cst.Call) else ()
    left_out = any(a.keyword is not None and a.keyword.value == "init" for a in given)
    return not left_out and not of_class.endswith("ClassVar")


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


CONTAINERS = ("list", "dict", "set", "generator")  # the types of Python's containers


@dataclass(eq=False, repr=False, slots=True)
class Instance:
    """An object made at one place: of a project class, a library class, or a container.

    It notes what a pass of the interpreter reads of it: what changes afterwards needs another pass.
    """

    site: cst.CSTNode
    module: ModuleFile
    type: Class | str
    role: str | None = None
    maker: Instance | None = None  # whose method it was first made in
    each: bool = False  # a list with an item for each of a rank's rows
    calls: tuple[cst.CSTNode, ...] = ()  # the last ones that led to the place where it is made
    _attributes: dict[str, Value] = field(default_factory=dict)
    _arguments: dict[str, Value] = field(default_factory=dict)
    _read: set[object] = field(default_factory=set)  # names, or all of them, in this pass
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
    def place(self) -> tuple[cst.CSTNode, ...]:
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
        found = [key for key in ends if name.startswith(key[:-1])]
        self._read.update(found)
        return join(*(self._attributes[key] for key in found)) if found else None

    def put(self, name: str, new: Value) -> bool:
        """Let an attribute or element be this too; whether this pass has read it before."""
        grown = _grown(self._attributes, name, new)
        self.growth += grown
        return grown and (name in self._read or _ATTRIBUTES in self._read)

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

    @property
    def elements(self) -> Value:
        """All that the container may hold: joined again only where it has come to hold more."""
        self._read.add(_ATTRIBUTES)
        if self._elements is None or self._elements[0] != self.growth:
            self._elements = self.growth, join(*self._attributes.values())
        return self._elements[1]

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


@record
class Super:
    """``super()`` of an instance."""

    receiver: Instance


@dataclass(eq=False, repr=False, slots=True)
class Namespace:
    """A module of the project, as a value."""

    module: ModuleFile
    scope: Scope


Atom = (
    Const
    | QualifiedName
    | Number
    | Data
    | ReplicatedTensor
    | Tup
    | Params
    | Method
    | Device
    | Function
    | Bound
    | Class
    | Instance
    | Namespace
    | Super
)


class Value:
    """What an expression may stand for; empty: unknown. Equal whatever the atoms' order.

    The atoms keep the order in which they came, so that runs do not differ by hash seeds.
    """

    __slots__ = ("_hash", "_key", "atoms")

    def __init__(self, atoms: Iterable[Atom] = ()) -> None:
        held = tuple(atoms)
        # The keys of a dictionary differ already: hashing the atoms is most of the work here.
        distinct = len(held) < 2 or type(atoms) is dict
        self.atoms: tuple[Atom, ...] = held if distinct else tuple(dict.fromkeys(held))
        self._key: frozenset[Atom] | None = None
        self._hash: int | None = None

    @property
    def key(self) -> frozenset[Atom]:
        """The atoms as a set: computed where values are compared, which most never are."""
        if self._key is None:
            self._key = frozenset(self.atoms)
        return self._key

    def covers(self, other: Value) -> bool:
        """Whether this value may be all that the other may be."""
        mine = self.atoms
        if mine == other.atoms:
            return True
        # To look for one among few is mostly to meet the same object: sets would hash all of them.
        few = len(mine) <= _FEW and len(other.atoms) <= _FEW
        more = [a for a in other.atoms if a not in mine] if few else other.key - self.key
        return all(map(self._includes, more))

    def _includes(self, one: Atom) -> bool:
        """Whether what is none of these atoms is a part of one, so that nothing is added."""
        if type(one) is Data:
            return self._merges(one)
        return type(one) is Tup and any(type(a) is Tup and a.covers(one) for a in self.atoms)

    def _merges(self, one: Data) -> bool:
        """Whether a tensor is a part of one of these, so that joining them changes nothing."""
        for atom in self.atoms:
            if type(atom) is Data and atom.placement is one.placement and _kind(atom) == _kind(one):
                return _both(atom, one) == atom
        return False

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value) or len(self.atoms) != len(other.atoms):
            return False
        if self.atoms == other.atoms:
            return True
        return len(self.atoms) > 1 and self.key == other.key

    def __hash__(self) -> int:
        if self._hash is None:
            atoms = self.atoms
            self._hash = hash(atoms[0]) if len(atoms) == 1 else hash(self.key)
        return self._hash

    def __repr__(self) -> str:
        return f"Value{self.atoms}"

    def of(self, *types: type) -> Iterator[Atom]:
        """The atoms of these types."""
        return (atom for atom in self.atoms if isinstance(atom, types))

    @property
    def data(self) -> list[Data]:
        """Its tensors and numbers with a placement other than replicated."""
        whole = Placement.REPLICATE
        return [a for a in self.atoms if type(a) is Data and a.placement is not whole]

    @property
    def positions(self) -> list[Data]:
        """Its numbers that count a rank's rows."""
        return [a for a in self.atoms if type(a) is Data and a.is_position]

    def constant(self) -> object:
        """The literal that it surely is, or ``...`` where that is not known."""
        if len(self.atoms) == 1:
            atom = self.atoms[0]
            if isinstance(atom, Const):
                return atom.value
            if isinstance(atom, QualifiedName) and atom.name == "numpy.newaxis":
                return None
        return ...

    def __bool__(self) -> bool:
        return bool(self.atoms)


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


def _without_deepest(one: Value) -> Value:
    """The same value, with what the tuples of the greatest depth hold in their place."""
    deepest = [a for a in one.atoms if type(a) is Tup and a.depth == _DEEPEST_TUPLE]
    others = [a for a in one.atoms if a not in deepest]
    held = [a for a in deep_atoms(Value(deepest)) if type(a) is not Tup]
    return join(Value([*others, *held])) if deepest else one


_FEW = 4  # values: of more that are joined, most add nothing to the first
_MOST_TUPLES = 16  # that are told apart in one value; of more, only the lengths are
_CONTAINERS = ("list", "dict", "set", "argparse.Namespace")
UNKNOWN = Value()
REPLICATED = Value((Number(),))


def value(*atoms: Atom) -> Value:
    """The value that is one of these atoms."""
    return Value(atoms)


@cache
def library_value(name: str) -> Value:
    """What a library defines, by its qualified name: the same object each time."""
    return value(QualifiedName(name))


def join(*values: Value) -> Value:
    """What may be any of these values."""
    if not values:
        return UNKNOWN
    first = values[0]
    # Mostly one value, or twice the same: then there is nothing to build.
    for other in values:
        if other is not first and not first.covers(other):
            break
    else:
        atoms = first.atoms
        return first if len(atoms) < 2 or _is_merged(atoms) else Value(_merge_data(atoms))
    if len(values) > _FEW:
        values = tuple(_adding(values))
    joined = dict.fromkeys(chain.from_iterable(one.atoms for one in values))
    if sum(type(atom) is Tup for atom in joined) > 1:
        joined = dict.fromkeys(_with_few_tuples(joined))
    return Value(joined if _is_merged(joined) else _merge_data(joined))


def _adding(values: Iterable[Value]) -> Iterator[Value]:
    """Those that hold atoms which those before them do not: sets keep the hashes of theirs."""
    known: set[Atom] = set()
    for one in values:
        if not one.key <= known:
            known |= one.key
            yield one


def _with_few_tuples(atoms: Collection[Atom]) -> Iterator[Atom]:
    """The same atoms without tuples that others cover, and one for all of a length if many."""
    tuples: list[Tup] = []
    for atom in atoms:
        if type(atom) is Tup and not any(one.covers(atom) for one in tuples):
            tuples = [*(one for one in tuples if not atom.covers(one)), atom]
    if len(tuples) <= _MOST_TUPLES:
        yield from (atom for atom in atoms if type(atom) is not Tup or atom in tuples)
        return
    yield from (atom for atom in atoms if type(atom) is not Tup)
    for length in dict.fromkeys(len(one.items) for one in tuples):
        alike = [one.items for one in tuples if len(one.items) == length]
        yield Tup(tuple(join(*items) for items in zip(*alike, strict=True)))


def _is_merged(atoms: Collection[Atom]) -> bool:
    """Whether there is at most one tensor, so that none can be merged with another."""
    if len(atoms) < 2:
        return True
    seen = False
    for atom in atoms:
        if type(atom) is Data:
            if seen:
                return False
            seen = True
    return True


def _merge_data(atoms: Iterable[Atom]) -> list[Atom]:
    """Data of one placement become one atom, so that sets stay small."""
    merged: dict[tuple[object, ...], Data] = {}
    others: list[Atom] = []
    for atom in atoms:
        if type(atom) is not Data:
            others.append(atom)
            continue
        key = _kind(atom)
        twin = merged.get(key)
        merged[key] = atom if twin is None else _both(atom, twin)
    return [*others, *merged.values()]


def _kind(one: Data) -> tuple[object, ...]:
    """What two tensors that become one have in common."""
    return (one.placement, one.dim, one.opaque, one.form, one.counted, one.past)


def _both(one: Data, other: Data) -> Data:
    """Two tensors of one kind as one, from wherever either comes."""
    scalar = one.placement in (Placement.MEAN, Placement.SUM)
    # Where one of them could not be reduced, reducing the other would leave half of it to do.
    named = bool(one.definition_sites and other.definition_sites) or not scalar
    return Data(
        one.placement,
        one.loaders | other.loaders,
        one.definition_sites | other.definition_sites if named else frozenset(),
        one.names | other.names,
        one.dim,
        one.ndim if one.ndim == other.ndim else 0,
        one.opaque,
        one.form,
        one.counted,
        one.one_each or other.one_each,
        flat=one.flat or other.flat,
        boolean=one.boolean and other.boolean,
        taken_by=one.taken_by | other.taken_by,
        views=one.views | other.views,
        past=one.past,
    )


def without_views(one: Value) -> Value:
    """A value that a computation has made anew: it shows the elements of no other."""
    if not any(isinstance(a, Data) and a.views for a in one.atoms):
        return one
    return value(*(replace(a, views=frozenset()) if isinstance(a, Data) else a for a in one.atoms))


def may_be_integer(atom: Atom) -> bool:
    """Whether this is an integer that all ranks share, or a plain value that may be one."""
    return isinstance(atom, Number) or (isinstance(atom, Const) and isinstance(atom.value, int))


def deep_atoms(one: Value, seen: set[int] | None = None) -> Iterator[Atom]:
    """All atoms of a value and of what its containers hold: a container once.

    ``seen`` are the ids of those that were gone through before, which are left out.
    """
    seen = set() if seen is None else seen
    todo = [iter(one.atoms)]
    while todo:
        atom = next(todo[-1], None)
        if atom is None:
            todo.pop()
            continue
        if type(atom) is Instance or type(atom) is Tup:
            if id(atom) in seen:
                continue
            seen.add(id(atom))
            todo.extend(iter(part.atoms) for part in _held_by(atom))
        yield atom


def _held_by(atom: Tup | Instance) -> list[Value]:
    """What a container holds, the last first."""
    if isinstance(atom, Tup):
        return [*reversed(atom.items)]
    held = isinstance(atom.type, str) and atom.type in _CONTAINERS
    return [atom.elements] if held else []
