"""``torch.einsum``: which letter of its equation is the batch, and what becomes of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import tensor_pairs
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def contracted(
    run: Interpreter, node: cst.CSTNode, equation: object, operands: list[Operand]
) -> Value | None:
    """What an equation such as ``"ni,nj->ij"`` makes of rows; None where it does not show that.

    In a forward the rows' dimension is less certain.
    """
    if not isinstance(equation, str) or "." in equation or run.frames_forward():
        return None
    inputs, output = _letters(equation)
    pairs = zip(inputs, operands, strict=False)
    rows = [(letters, d) for letters, (_, held) in pairs for d in held.data]
    known = all(_is_plain(d) and d.dim < len(letters) for letters, d in rows)
    if not rows or not known or any(_is_gathered(held) for _, held in operands):
        return None
    batch = {letters[d.dim] for letters, d in rows}
    first = rows[0][1]
    if len(batch) > 1:
        return tensor_pairs.mixed(run, node, first, operands)
    loaders = frozenset(loader for _, d in rows for loader in d.loaders)
    place = output.find(batch.pop())
    if place < 0:
        return value(replace(first.placed(Placement.SUM), loaders=loaders))
    kept = replace(first.placed(Placement.SHARD), dim=place, ndim=len(output))
    return value(replace(kept, loaders=loaders))


def _letters(equation: str) -> tuple[list[str], str]:
    """The letters of each operand and of the result, which may be left out."""
    given, arrow, output = equation.replace(" ", "").partition("->")
    if arrow:
        return given.split(","), output
    counted = Counter(given.replace(",", ""))
    return given.split(","), "".join(sorted(c for c, times in counted.items() if times == 1))


def _is_plain(rows: Data) -> bool:
    return rows.placement is Placement.SHARD and not rows.opaque and rows.form == "tensor"


def _is_gathered(held: Value) -> bool:
    return any(isinstance(a, Data) and a.form == "gathered" for a in held.atoms)
