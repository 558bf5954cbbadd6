"""``match``: what its patterns ask of the subject, and what they bind.

A pattern that only takes apart what it gets, as ``(x, y)`` does of a pair, asks nothing that ranks
answer differently. One that compares, or that counts the items of a list, is a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from ddpify.understanding import mapping_classes, uses
from ddpify.understanding.arithmetic import tensor_parts
from ddpify.understanding.definition_sites import reduced
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.language import assignments, attributes, elements
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import UNKNOWN, Data, Instance, Tup, Value, deep_atoms, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What a pattern takes the parts of: their number is the same on all ranks.
_WHOLE = (Layout.BATCH, Layout.PART, Layout.YIELDED, Layout.SAMPLE, NumberKind.SHAPE)


def match(
    run: RunState, pattern: cst.MatchPattern | None, place: cst.BaseExpression, held: Value
) -> None:
    """Bind the names of a pattern, and note what it compares.

    place: the expression that gives what is matched.
    held: its value.
    """
    todo = _KINDS.get(type(pattern))
    if todo is not None:
        todo(run, pattern, place, held)
    elif pattern is not None:
        _compare(run, place, held)


def _as(run: RunState, pattern: cst.MatchAs, place: cst.BaseExpression, held: Value) -> None:
    match(run, pattern.pattern, place, held)
    if pattern.name is not None:
        assignments.assign(run, pattern.name, held)


def _value(run: RunState, pattern: cst.MatchValue, place: cst.BaseExpression, held: Value) -> None:
    run.eval(pattern.value)
    _compare(run, place, held)


def _singleton(
    run: RunState, pattern: cst.MatchSingleton, place: cst.BaseExpression, held: Value
) -> None:
    if pattern.value.value != "None":  # whether something is None, all ranks know
        _compare(run, place, held)


def _or(run: RunState, pattern: cst.MatchOr, place: cst.BaseExpression, held: Value) -> None:
    for one in pattern.patterns:
        match(run, one.pattern, place, held)


def _sequence(
    run: RunState, pattern: cst.MatchList | cst.MatchTuple, place: cst.BaseExpression, held: Value
) -> None:
    """A sequence of fixed length is taken apart; how many rows there are is a comparison."""
    known = [a for a in held.atoms if isinstance(a, Tup) or getattr(a, "form", None) in _WHOLE]
    if len(known) < len(held.atoms):
        _compare(run, place, held)
        known, held = [], reduced(held)
    parts = pattern.patterns
    starred = any(isinstance(one, cst.MatchStar) for one in parts)
    shown = displayed(place) if not starred else None
    places = shown if shown is not None and len(shown) == len(parts) else [place] * len(parts)
    for position, (one, at) in enumerate(zip(parts, places, strict=True)):
        part = _any_item(held) if starred else elements.unpacked(run, held, position, len(parts))
        if isinstance(one, cst.MatchSequenceElement):
            _take_sizes(run, one.value, place, held, part)
            match(run, one.value, at, part)
        elif one.name is not None:
            assignments.assign(run, one.name, value(Tup((part,))) if known else held)


def _take_sizes(
    run: RunState, pattern: cst.MatchPattern, place: cst.BaseExpression, held: Value, part: Value
) -> None:
    """A name in a pattern is no place to count at: the number of rows that it gets is of all."""
    named = isinstance(pattern, cst.MatchAs) and pattern.name is not None
    if named and any(one.placement is Placement.COUNT for one in part.data):
        _compare(run, place, held)


def _any_item(held: Value) -> Value:
    """What may stand at any place of a sequence."""
    found = []
    for atom in held.atoms:
        if isinstance(atom, Tup):
            found.append(join(*atom.items))
        elif isinstance(atom, Instance):
            found.append(atom.elements)
        else:
            found.append(tensor_parts.part(atom, 0) if isinstance(atom, Data) else value(atom))
    return join(*found)


def _mapping(
    run: RunState, pattern: cst.MatchMapping, place: cst.BaseExpression, held: Value
) -> None:
    for one in pattern.elements:
        key = run.eval(one.key).constant()
        match(run, one.pattern, place, join(*(_under(a, f"[{key!r}]") for a in held.atoms)))
    if pattern.rest is not None:
        assignments.assign(run, pattern.rest, held)


def _under(atom: Any, key: str) -> Value:
    """What a mapping holds under a key."""
    if isinstance(atom, Instance):
        return mapping_classes.item(atom, key) or atom.elements
    return tensor_parts.part(atom, 0) if isinstance(atom, Data) else UNKNOWN


def _class(run: RunState, pattern: cst.MatchClass, place: cst.BaseExpression, held: Value) -> None:
    """Fields by name; one without a name is that of its place, or the whole: it may be any."""
    run.eval(pattern.cls)
    for keyword in pattern.kwds:
        name = keyword.key.value
        found = (attributes.attribute_of(run, place, a, name) for a in held.atoms)
        match(run, keyword.pattern, place, join(*found))
    for one in pattern.patterns:
        fields = (a.elements if isinstance(a, Instance) else value(a) for a in held.atoms)
        match(run, one.value, place, join(*fields))


def _compare(run: RunState, place: cst.BaseExpression, held: Value) -> None:
    """What a pattern compares must be the same on all ranks."""
    local = [a for a in deep_atoms(held) if isinstance(a, Data) and a.placement.local]
    run.demand_held(place, value(*local), uses.A_COMPARISON)


_KINDS: dict[type, Callable[[RunState, Any, cst.BaseExpression, Value], None]] = {
    cst.MatchAs: _as,
    cst.MatchValue: _value,
    cst.MatchSingleton: _singleton,
    cst.MatchOr: _or,
    cst.MatchList: _sequence,
    cst.MatchTuple: _sequence,
    cst.MatchMapping: _mapping,
    cst.MatchClass: _class,
}
