"""Tuples that each round of a loop makes longer: what later rounds make of them is foreseen.

Without that, each pass over the program would find one that is longer by one round, and others that
hold what earlier passes have found beside what this one has.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpify.understanding.arithmetic.tensor_pairs import MOST_LENGTHS
from ddpify.understanding.values import UNKNOWN, Tup, Value, join

_Items = tuple[Value, ...]


def foreseen(started: Mapping[str, Value], left: Mapping[str, Value]) -> dict[str, Value]:
    """What a round leaves in names; of tuples that get longer, all lengths that are told apart."""
    return {name: _of_later_rounds(started.get(name, UNKNOWN), late) for name, late in left.items()}


def _of_later_rounds(first: Value, late: Value) -> Value:
    if first is late:
        return late
    known, tuples = _tuples(first), _tuples(late)
    longest, added = _growth(known, tuples)
    if not added:
        return late
    lengths = dict.fromkeys(map(len, tuples))
    while len(lengths) <= MOST_LENGTHS:
        longest += added
        lengths[len(longest)] = None
    held = [*known, *tuples, longest]
    places = [join(*(one[at] for one in held if len(one) > at)) for at in range(len(longest))]
    others = [atom for atom in late.atoms if type(atom) is not Tup]
    return join(Value([*others, *(Tup(tuple(places[:length])) for length in lengths)]))


def _tuples(one: Value) -> list[_Items]:
    return [atom.items for atom in one.atoms if type(atom) is Tup]


def _growth(known: list[_Items], tuples: list[_Items]) -> tuple[_Items, _Items]:
    """The longest tuple that begins as a known one does, and what it has more; else nothing."""
    grown = [
        (one, one[len(before) :])
        for one in tuples
        for before in known
        if len(before) < len(one) and all(a.covers(b) for a, b in zip(one, before, strict=False))
    ]
    return max(grown, key=lambda pair: (len(pair[0]), -len(pair[1])), default=((), ()))
