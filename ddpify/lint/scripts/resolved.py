"""Whether all that an expression may be is known, and not only one of several things."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import BARS, is_loader
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Const, Instance


def is_resolved(
    script: Script, node: cst.BaseExpression, seen: frozenset[Location] = frozenset()
) -> bool:
    """Whether each assignment in sight of what an expression reads gives something known.

    Of what callers pass to a function, one that is known is enough.
    """
    if script.strict:
        return True
    if not script.value(node).atoms:
        return False
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return True
    locations = set(script.control.locations(node)) - seen
    inner = seen | locations
    edges = [
        one for one in script.flow.edges_into(locations) if one.value is not None and not one.adds
    ]
    set_here = [one for one in edges if not one.passes]
    passed = [one for one in edges if one.passes]
    return all(is_resolved(script, one.value, inner) for one in set_here if one.value) and (
        not passed or any(is_resolved(script, one.value, inner) for one in passed if one.value)
    )


def goes_through_resolved(script: Script, node: cst.BaseExpression) -> bool:
    """Whether what a loop goes through has known loaders only."""
    for one in walk(node):
        if not isinstance(one, (cst.Name, cst.Attribute)):
            continue
        atoms = script.value(one).atoms
        loaders = [a for a in atoms if isinstance(a, Instance) and (is_loader(a) or a.type in BARS)]
        others = [a for a in atoms if a not in loaders and not isinstance(a, Const)]
        if loaders and not script.strict and (others or not is_resolved(script, one)):
            return False
    return True
