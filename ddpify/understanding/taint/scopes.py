"""Which function, loop or block owns each name of a file: this follows from its text alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.understanding.definite_assignment import DefiniteAssignment, target_names
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import parameters

FunctionNode = cst.FunctionDef | cst.Lambda


@dataclass(eq=False, repr=False, slots=True)
class Scopes:
    """The names of each function, those that it shares with what is around it, and fresh ones."""

    local: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    shared: dict[cst.CSTNode, set[str]] = field(default_factory=lambda: defaultdict(set))
    definitely_assigned: dict[cst.CSTNode, set[str]] = field(
        default_factory=dict
    )  # of loops and blocks
    bound: dict[str, list[cst.CSTNode]] = field(default_factory=dict)  # where each name is set


def scopes_of(structure: Structure) -> Scopes:
    """Who owns the names of a file."""
    found = Scopes(definitely_assigned=DefiniteAssignment(structure.tree).names)
    for function in structure.all(cst.FunctionDef, cst.Lambda):
        found.local[function] |= {p.name.value for p in parameters(function)}
        found.local[function] |= {name for name in collecting(function) if name is not None}
    for statement in structure.all(cst.Global, cst.Nonlocal):
        owner = structure.function(statement)
        if owner is not None:
            found.shared[owner] |= {item.name.value for item in statement.names}
    for node, target in _bindings(structure):
        owner = structure.function(node)
        for name in target_names(target):
            found.bound.setdefault(name, []).append(node)
            if owner is not None:
                found.local[owner].add(name)
    return found


def collecting(function: FunctionNode) -> tuple[str | None, str | None]:
    """The names for further arguments: of ``*args`` and of ``**kwargs``."""
    more, named = function.params.star_arg, function.params.star_kwarg
    return (
        more.name.value if isinstance(more, cst.Param) else None,
        named.name.value if named is not None else None,
    )


def _bindings(structure: Structure) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Every place that binds names, with its target."""
    for node in structure.all(cst.AssignTarget):
        yield node, node.target
    for one in structure.all(cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr):
        yield one, one.target
    for item in structure.all(cst.AsName):
        if isinstance(item.name, (cst.Name, cst.Tuple, cst.List)):
            yield item, item.name
