"""Displays that functions return, and what takes one element or several out of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.locations import Location, Locations


def elements(node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The elements of a display; None for anything else."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [element.value for element in node.elements]
    return None


def side_by_side(
    target: cst.BaseExpression, source: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]] | None:
    """Which target gets what of a display; None where that is not known.

    Of ``a, b, c = 1, *pair`` the first gets 1, and the others may get anything of the pair.
    """
    ones, others = elements(target), elements(source)
    if ones is None or others is None or _stars(target):
        return None
    stars = _stars(source)
    if not stars:
        return list(zip(ones, others, strict=True)) if len(ones) == len(others) else None
    first, spread = stars[0], len(ones) - len(others) + 1
    if len(stars) > 1 or spread < 0:
        return None
    filled = [*others[:first], *[others[first]] * spread, *others[first + 1 :]]
    return list(zip(ones, filled, strict=True))


def _stars(node: cst.BaseExpression) -> list[int]:
    """The places of the elements of a display that are starred."""
    ones = node.elements if isinstance(node, (cst.Tuple, cst.List)) else ()
    return [at for at, one in enumerate(ones) if isinstance(one, cst.StarredElement)]


def widths(structures: Iterable[Structure]) -> dict[object, int]:
    """Functions all of whose returns are displays of one length, with that length."""
    found: dict[object, set[int]] = defaultdict(set)
    for structure in structures:
        for node in structure.all(cst.Return):
            ones = elements(node.value) if node.value is not None else None
            plain = ones is not None and not any(isinstance(e, cst.StarredElement) for e in ones)
            found[structure.function(node)].add(len(ones) if plain and ones else 0)
    return {f: min(sizes) for f, sizes in found.items() if len(sizes) == 1 and min(sizes)}


def positions(node: cst.Subscript, width: int) -> range | None:
    """Which of ``width`` elements ``x[2]``, ``x[1:3]`` or ``x[-2:]`` takes; None if not known."""
    part = node.slice[0].slice if len(node.slice) == 1 else None
    if isinstance(part, cst.Index):
        at = _number(part.value)
        one = None if at is None else at + width if at < 0 else at
        return None if one is None or not 0 <= one < width else range(one, one + 1)
    if not isinstance(part, cst.Slice) or part.step is not None:
        return None
    bounds = [None if one is None else _number(one) for one in (part.lower, part.upper)]
    known = [one is None or _number(one) is not None for one in (part.lower, part.upper)]
    return range(width)[slice(*bounds)] if all(known) else None


def made_once(
    structure: Structure, locations: Locations, module: ModuleFile
) -> dict[Location, cst.Call]:
    """The names that a file sets once, to what a call gives."""
    found: dict[Location, list[cst.Call | None]] = defaultdict(list)
    for node in structure.all(cst.Assign, cst.AnnAssign):
        targets = node.targets if isinstance(node, cst.Assign) else (node,)
        for one in targets:
            if isinstance(one.target, cst.Name) and isinstance(node.value, cst.Call):
                found[locations.of_name(one.target, module)[0]].append(node.value)
            elif node.value is not None:
                _set_otherwise(found, locations.of_target(one.target, module))
    for other in structure.all(cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr):
        _set_otherwise(found, locations.of_target(other.target, module))
    return {location: calls[0] for location, calls in found.items() if len(calls) == 1 and calls[0]}


def _set_otherwise(found: dict[Location, list[cst.Call | None]], targets: list[Location]) -> None:
    for location in targets:
        found[location].append(None)


def _number(node: cst.BaseExpression) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _number(node.expression)
        return None if inner is None else -inner
    return node.evaluated_value if isinstance(node, cst.Integer) else None
