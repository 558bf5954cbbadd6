"""Which of several assignments to a name is surely the last before the name is used."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ddpify.understanding.structure import Structure

_BLOCKS = (cst.IndentedBlock, cst.Module, cst.SimpleStatementLine, cst.SimpleStatementSuite)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


def reaching_definition(
    structure: Structure, use: cst.CSTNode, assigned: Sequence[cst.CSTNode]
) -> cst.CSTNode | None:
    """The assignment that stands before ``use`` in its block, or in one around it.

    None where that is not sure: it stands under a condition or in a loop, in another function, or
    may be reached from ``use``.
    """
    below = use
    for above in structure.up(use):
        if isinstance(above, _SCOPES):
            return None
        if isinstance(above, _BLOCKS):
            earlier = above.body[: next(i for i, one in enumerate(above.body) if one is below)]
            for statement in reversed(earlier):
                inside = [one for one in assigned if _is_in(structure, one, statement)]
                if inside:
                    sure = len(inside) == 1 and _always_runs(structure, inside[0], statement)
                    return inside[0] if sure else None
        looped = isinstance(above, (cst.For, cst.While))
        if looped and any(_is_in(structure, one, above) for one in assigned):
            return None
        below = above
    return None


def _always_runs(structure: Structure, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether a statement runs what is in it whenever it runs: also a ``with`` its block."""
    plain = (cst.SimpleStatementLine, cst.IndentedBlock, cst.With)
    if node is statement and isinstance(node, cst.BaseSmallStatement):
        return True  # of several in one line
    for above in (node, *structure.up(node)):
        if isinstance(above, cst.BaseCompoundStatement) and not isinstance(above, cst.With):
            return False
        if above is statement:
            return isinstance(above, plain)
    return False


def _is_in(structure: Structure, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    return node is statement or any(above is statement for above in structure.up(node))
