"""Calls of one function past those that are told apart: they are interpreted together.

A function has a body for each shape of its arguments, up to a number in each pass. Later calls on
the same object share one body where they give parts, and truth values, of the same sorts. Its
arguments are what any of these calls gives: where a tensor was made and which number an argument is
are no longer told apart. What still grows then is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Const,
    Data,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
)

_GROWTHS = 8  # of an argument of calls that are taken together


@record
class Bounds:
    """How many bodies a function has in a pass, before its calls are taken together.

    ``apart``: shapes of its calls; ``apart_on_one``: of those on one object, where the function has
    more. In a pass that has taken more than ``most_steps``, all further calls are taken together.
    With ``once``, their body is interpreted once in a pass, with what the passes before have found
    them to give.
    """

    apart: int
    apart_on_one: int
    most_steps: float = inf
    once: bool = False

    def has_many(self, steps: int) -> bool:
        """Whether a pass of so many steps tells no more calls apart."""
        return steps > self.most_steps


EXACT = Bounds(96, 4)
BRIEF = Bounds(96, 4, most_steps=40_000, once=True)


@dataclass(eq=False, repr=False, slots=True)
class MergedCalls:
    """Calls that share one body: what they give, and how often each argument has grown.

    ``mixed``: not all that the body gives need be what one of the calls gives.
    """

    given: list[Value]
    growths: list[int]
    mixed: bool = False

    def take(self, more: Sequence[Value]) -> bool:
        """Let one more call be among them; whether any argument may be more than before."""
        grown = False
        for place, new in enumerate(map(_widened, more)):
            known = self.given[place]
            both = join(known, new)
            if self.growths[place] > _GROWTHS or both == known:
                continue
            self.growths[place] += 1
            is_known = self.growths[place] <= _GROWTHS
            self.mixed |= not is_known and bool(both.data)
            self.given[place] = both if is_known else UNKNOWN
            grown = True
        return grown

    def gives(self, result: Value) -> None:
        """Note what their body gives: of several sorts, it is not that of each call."""
        self.mixed |= bool(result.data) and len(sorts(result)) > 1


@dataclass(eq=False, repr=False, slots=True)
class Ways:
    """The ways in which functions are called: how many there were in a pass, and those together."""

    bounds: Bounds = EXACT
    _of_functions: Counter[cst.CSTNode] = field(default_factory=Counter)
    _on_objects: Counter[tuple[cst.CSTNode, object]] = field(default_factory=Counter)
    _together: dict[object, MergedCalls] = field(default_factory=dict)

    def start_pass(self) -> None:
        """What calls have given together stays, so that a pass starts with what the last has."""
        self._of_functions.clear()
        self._on_objects.clear()

    def is_apart(self, function: cst.CSTNode, receiver: object, steps: int) -> bool:
        """Whether one more call has a body of its own, after so many steps of this pass."""
        if self.bounds.has_many(steps):
            return False
        self._of_functions[function] += 1
        self._on_objects[function, receiver] += 1
        few = self._of_functions[function] <= self.bounds.apart
        return few or self._on_objects[function, receiver] <= self.bounds.apart_on_one

    def together(self, key: object, given: Sequence[Value]) -> tuple[MergedCalls, bool]:
        """The calls that share a key, with this one, and whether it gives more than the others."""
        known = self._together.get(key)
        if known is None:
            made = MergedCalls([*map(_widened, given)], [0] * len(given))
            self._together[key] = made
            return made, True
        return known, known.take(given)


def _widened(one: Value) -> Value:
    """A value without where its tensors were made, and which numbers it is."""
    changed = [_wide(atom) for atom in one.atoms]
    same = all(new is old for new, old in zip(changed, one.atoms, strict=True))
    return one if same else join(Value(changed))


def _wide(atom: Atom) -> Atom:
    if type(atom) is Data and (atom.definition_sites or atom.names or atom.found_in):
        nowhere = frozenset[cst.BaseExpression]()
        return replace(atom, definition_sites=nowhere, names=nowhere, found_in=nowhere)
    if type(atom) is Const and type(atom.value) in (int, float, str):
        return Number()
    if type(atom) is Tup:
        items = tuple(map(_widened, atom.items))
        same = all(new is old for new, old in zip(items, atom.items, strict=True))
        return atom if same else Tup(items)
    return atom


def sorts(one: Value) -> frozenset[object]:
    """What sorts of tensors, plain values and truth values a value, and what it holds, may be."""
    return frozenset(map(_sort, deep_atoms(one))) - {None}


def _sort(atom: Atom) -> object:
    if type(atom) is Data:
        return atom.placement, atom.dim, atom.form, atom.opaque, atom.counted
    if type(atom) is Const and (atom.value is None or type(atom.value) is bool):
        return str(atom.value)
    return "plain" if type(atom) in (Const, Number, ReplicatedTensor) else None
