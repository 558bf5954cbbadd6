"""Sets of atoms, since a name can stand for different things on different paths."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import TypeVar, overload

from ddpify.records import replace
from ddpify.understanding.placement import Placement
from ddpify.understanding.values.atoms import Atom, Const, QualifiedName
from ddpify.understanding.values.tensors import Data, is_within, merge_key, merged

A = TypeVar("A", bound=Atom)
B = TypeVar("B", bound=Atom)

_WHOLE = Placement.REPLICATE
_FEW = 4  # values: of more that are joined, most add nothing to the first
_MOST_TUPLES = 16  # that are told apart in one value; of more, only the lengths are
_DEEPEST_TUPLE = 3  # tuples within each other that are told apart


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
            if (
                type(atom) is Data
                and atom.placement is one.placement
                and merge_key(atom) == merge_key(one)
            ):
                return is_within(one, atom)
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

    @overload
    def of(self, kind: type[A], /) -> Iterator[A]: ...

    @overload
    def of(self, kind: type[A], other: type[B], /) -> Iterator[A | B]: ...

    @overload
    def of(self, *kinds: type[Atom]) -> Iterator[Atom]: ...

    def of(self, *kinds: type[Atom]) -> Iterator[Atom]:
        """The atoms of these kinds."""
        return (atom for atom in self.atoms if isinstance(atom, kinds))

    @property
    def data(self) -> list[Data]:
        """Its tensors and numbers with a placement other than replicated."""
        atoms = self.atoms
        if len(atoms) == 1:  # as most have, for which a comprehension takes longer than its work
            only = atoms[0]
            return [only] if type(only) is Data and only.placement is not _WHOLE else []
        return [a for a in atoms if type(a) is Data and a.placement is not _WHOLE]

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


class Container(Atom):
    """An atom that may hold values, which count as a part of it."""

    __slots__ = ()

    def contents(self) -> Sequence[Value]:
        """What it holds, the last first."""
        raise NotImplementedError


@dataclass(slots=True, unsafe_hash=True)
class Tup(Container):
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

    def contents(self) -> Sequence[Value]:
        """Its elements, the last first."""
        return self.items[::-1]

    def covers(self, other: Tup) -> bool:
        """Whether each element may be all that the other's may be."""
        pairs = zip(self.items, other.items, strict=False)
        return len(self.items) == len(other.items) and all(a.covers(b) for a, b in pairs)


UNKNOWN = Value()


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
    by_key: dict[tuple[object, ...], Data] = {}
    others: list[Atom] = []
    for atom in atoms:
        if type(atom) is not Data:
            others.append(atom)
            continue
        key = merge_key(atom)
        twin = by_key.get(key)
        by_key[key] = atom if twin is None else merged(atom, twin)
    return [*others, *by_key.values()]


def without_views(one: Value) -> Value:
    """A value that a computation has made anew: it shows the elements of no other."""
    if not any(isinstance(a, Data) and a.views for a in one.atoms):
        return one
    return value(*(replace(a, views=frozenset()) if isinstance(a, Data) else a for a in one.atoms))


def deep_atoms(one: Value, seen: set[int] | None = None) -> Iterator[Atom]:
    """All atoms of a value and of what its containers hold: a container once.

    ``seen`` are the ids of those that were gone through before, which are left out.
    """
    for direct in one.atoms:
        if isinstance(direct, Container):
            break
    else:  # mostly there are none, and nothing to look into
        yield from one.atoms
        return
    seen = set() if seen is None else seen
    todo = [iter(one.atoms)]
    while todo:
        atom = next(todo[-1], None)
        if atom is None:
            todo.pop()
            continue
        if isinstance(atom, Container):
            if id(atom) in seen:
                continue
            seen.add(id(atom))
            todo.extend(iter(part.atoms) for part in atom.contents())
        yield atom


def _without_deepest(one: Value) -> Value:
    """The same value, with what the tuples of the greatest depth hold in their place."""
    deepest = [a for a in one.atoms if type(a) is Tup and a.depth == _DEEPEST_TUPLE]
    others = [a for a in one.atoms if a not in deepest]
    held = [a for a in deep_atoms(Value(deepest)) if type(a) is not Tup]
    return join(Value([*others, *held])) if deepest else one
