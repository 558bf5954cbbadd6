"""What the script's text adds to a mismatch: a rank that is behind a loop, or under a condition."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from ddpify.verify.compare import causes, matching
from ddpify.verify.compare.matching import Mismatch

_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp)  # ``rank or barrier()`` is one as well


def settled(root: Path, found: Mismatch) -> Mismatch:
    """``found`` with the cause and the line that the text tells.

    Where each rank is at a line that the other one has not reached, one under a condition that does
    not hold the other is what should not be there.

    Args:
        root: The folder of the script that ran.
        found: Where the ranks' collectives differ.
    """
    if left_loop(root, found):
        return replace(found, cause=causes.CONTROL_FLOW)
    lines = [place.line for place in found.places]
    if len(lines) != 2 or not all(lines):
        return found
    for place, other in (found.places, reversed(found.places)):
        if _conditional(root, place.line, other.line):
            return replace(found, cause=matching.cause_of((place,)), line=place.line)
    return found


def _conditional(root: Path, line: str, other: str) -> bool:
    """Whether a line is under a condition, or a handler, that another line is not under."""
    path, _, number = line.rpartition(":")
    there, _, else_number = other.rpartition(":")
    if not (root / path).is_file():
        return False
    tree = ast.parse((root / path).read_text("utf-8", "replace"))
    return any(
        _holds(node, int(number)) and not (there == path and _holds(node, int(else_number)))
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.Try))
    )


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
    if any(isinstance(one, _CONDITIONS) and _holds(one, behind) and not _holds(one, inside)
           for one in nodes):  # fmt: skip
        return False  # the condition may keep the other rank from getting there
    loops = [node for node in nodes if isinstance(node, (ast.For, ast.While))]
    return any(_holds(loop, inside) and not _holds(loop, behind) for loop in loops)


def _holds(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
