"""Whether one of two ranks is in a loop of the script, and the other one behind that loop."""

from __future__ import annotations

import ast
from pathlib import Path

from ddpify.verify.compare.matching import Mismatch


def left_loop(root: Path, found: Mismatch) -> bool:
    """Whether a rank has left a loop that the other one is still in.

    The outermost lines that differ tell: both are in one function, one of them alone in a loop, and
    the other one under no condition that does not hold the first.

    Args:
        root: The folder of the script that ran.
        found: Where the ranks' collectives differ.
    """
    pairs = zip(*(reversed(chain) for chain in found.chains), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if first is None:
        return False
    (path, _, mine), (other, _, theirs) = (line.rpartition(":") for line in first)
    if path != other or not (root / path).is_file():
        return False
    inside, behind = sorted((int(mine), int(theirs)))
    nodes = list(ast.walk(ast.parse((root / path).read_text("utf-8", "replace"))))
    functions = [one for one in nodes if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if any(_holds(one, inside) != _holds(one, behind) for one in functions):
        return False
    if any(isinstance(one, ast.If) and _holds(one, behind) and not _holds(one, inside)
           for one in nodes):  # fmt: skip
        return False  # the condition may keep the other rank from getting there
    loops = [node for node in nodes if isinstance(node, (ast.For, ast.While))]
    return any(_holds(loop, inside) and not _holds(loop, behind) for loop in loops)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
