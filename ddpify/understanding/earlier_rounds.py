"""Which names of a loop's body hold what an earlier round has left, or what is computed of that.

``previous = 0.5 * previous + x`` leaves a name to the next round; ``scaled = previous * 2`` depends
on it. Liveness tells what a round takes over, and what else depends on it follows from the
assignments of the body, and from the conditions that they stand under.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import takewhile

import libcst as cst

from ddpify.understanding.liveness import Names, assigned, reads, taken_over
from ddpify.understanding.structure import Structure, walk

_ASSIGNING = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.NamedExpr)


def goes_by(
    structure: Structure, loop: cst.For, node: cst.CSTNode, *, ignoring: Names = frozenset()
) -> bool:
    """Whether an expression in a loop, or whether it is reached, goes by what a round has left.

    Args:
        structure: That of the file.
        loop: The one whose rounds are meant, around ``node``.
        node: A node in its body.
        ignoring: Names that a round may leave.
    """
    left = _left_by_rounds(loop, ignoring)
    if not left:
        return False
    inside = takewhile(lambda one: one is not loop, structure.up(node))
    tests = [one.test for one in inside if isinstance(one, (cst.If, cst.While, cst.IfExp))]
    return any(reads(one) & left for one in (node, *tests))


@lru_cache(maxsize=256)
def _left_by_rounds(loop: cst.For, ignoring: Names) -> Names:
    """The names of a loop's body that hold what an earlier round has left, or depend on such."""
    bound = frozenset[str]().union(*(_bound(one) for one in walk(loop.body)))
    carried = (taken_over(loop) & bound) - ignoring
    while carried:
        more = carried.union(*(_made_of(one, carried) for one in walk(loop.body)))
        if more == carried:
            break
        carried = more
    return carried


def _bound(node: cst.CSTNode) -> Names:
    if isinstance(node, (cst.For, cst.NamedExpr)):
        return assigned(node.target)
    return assigned(node) if isinstance(node, _ASSIGNING) else frozenset()


def _made_of(node: cst.CSTNode, carried: Names) -> Names:
    """The names that a node makes of others, among them ones that an earlier round has left."""
    if isinstance(node, (cst.If, cst.While)) and reads(node.test) & carried:
        return frozenset[str]().union(*(_bound(one) for one in walk(node.body)))
    if isinstance(node, cst.For) and reads(node.iter) & carried:
        return assigned(node.target)
    if isinstance(node, _ASSIGNING) and node.value is not None and reads(node.value) & carried:
        return _bound(node)
    return frozenset()
