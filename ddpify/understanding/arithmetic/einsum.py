"""``torch.einsum``: which letter of its equation is the batch, and what becomes of that."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import across_samples, tensor_pairs
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import batch_rows, handmade_batches
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import Data, Number, ReplicatedTensor, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState
_OPEN = "àâäçéèêëîïôöùûü"  # the dimensions that ``...`` stands for, the last one last


def given(name: str, operands: list[Operand]) -> tuple[object, list[Operand]]:
    """The equation of a call, and its tensors; einops has words for letters, behind the tensors."""
    if not name.startswith("einops."):
        return operands[0][1].constant(), operands[1:]
    equation = operands[-1][1].constant()
    if not isinstance(equation, str) or "(" in equation:
        return ..., operands[:-1]
    words = dict.fromkeys(re.findall(r"\w+", equation))
    letters = {word: chr(ord("a") + number) for number, word in enumerate(words)}
    return re.sub(r"\w+", lambda found: letters[found[0]], equation), operands[:-1]


def contracted(
    run: RunState, node: cst.BaseExpression, equation: object, operands: list[Operand]
) -> Value | None:
    """What an equation such as ``"ni,nj->ij"`` makes of rows; None where it does not show that.

    In a forward the rows' dimension is less certain: there it is only followed to where it ends up.
    An equation that is not known, or has an ellipsis for who knows what, may add up over samples.
    """
    equation = _spelled_out(run, equation, operands)
    if not _is_plain_equation(equation):
        own = [(shown, held) for shown, held in listed(run, operands) if held.data]
        if not own or not all(_is_plain(d) for _, held in own for d in held.data):
            return None
        made = across_samples.coupled_operands(run, node, own)
        return across_samples.perhaps_rows("einsum", made)
    inputs, output = _letters(equation)  # type: ignore[arg-type]
    pairs = zip(inputs, listed(run, operands), strict=False)
    rows = [(letters, d) for letters, (_, held) in pairs for d in held.data]
    known = all(_is_plain(d) and d.dim < len(letters) for letters, d in rows)
    if not rows or not known or any(_is_gathered(held) for _, held in operands):
        return None
    batch = {letters[d.dim] for letters, d in rows}
    first = rows[0][1]
    place = output.find(min(batch))
    if run.frames_forward() and len(batch) > 1:
        for shown, held in listed(run, operands):
            run.demand(shown, value(*held.data), uses.A_STATISTIC)
        return value(replace(first.placed(Placement.REPLICATE), form=Layout.GATHERED))
    if len(batch) > 1:
        return tensor_pairs.mixed(run, node, first, operands)
    loaders = frozenset(loader for _, d in rows for loader in d.loaders)
    if place < 0:
        return value(replace(first.placed(Placement.SUM), loaders=loaders, one_each=not output))
    kept = replace(first.placed(Placement.SHARD), dim=place, ndim=len(output))
    return value(replace(kept, loaders=loaders))


def on_batches(run: RunState, equation: object, operands: list[Operand]) -> Value | None:
    """What an equation makes of batches that a script makes by hand; None where it shows nothing.

    Rows lie along no letter that is summed over, as a graph's nodes are by its matrix.
    """
    if not _is_plain_equation(equation):
        return None
    inputs, output = _letters(equation)  # type: ignore[arg-type]
    kept: list[ReplicatedTensor] = []
    for letters, (_, held) in zip(inputs, listed(run, operands), strict=False):
        for atom in handmade_batches.replicated_tensors(held):
            place = output.find(letters[atom.dim]) if atom.dim < len(letters) else -1
            if place < 0:
                batch_rows.refute(run, atom)
            else:
                kept.append(batch_rows.moved(atom, place))
    return value(Number(), *kept)


def _spelled_out(run: RunState, equation: object, operands: list[Operand]) -> object:
    """An equation with letters of its own in place of ``...``; as it is where these are unknown."""
    if not isinstance(equation, str) or "..." not in equation:
        return equation
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms, longest = inputs.split(","), 0
    for place, (_, held) in enumerate(listed(run, operands)[: len(terms)]):
        if "..." in terms[place]:
            length = (dimensions.of_value(held) or 0) - len(terms[place].replace("...", ""))
            if length < 0:
                return equation
            terms[place] = terms[place].replace("...", _OPEN[len(_OPEN) - length :])
            longest = max(longest, length)
    return ",".join(terms) + arrow + output.replace("...", _OPEN[len(_OPEN) - longest :])


def listed(run: RunState, operands: list[Operand]) -> list[Operand]:
    """The operands, which may be given as a list of them."""
    shown = operands[0][0] if len(operands) == 1 else None
    if not isinstance(shown, (cst.List, cst.Tuple)):
        return operands
    return [(element.value, run.seen(element.value)) for element in shown.elements]


def _is_plain_equation(equation: object) -> bool:
    return isinstance(equation, str) and "." not in equation


def _letters(equation: str) -> tuple[list[str], str]:
    """The letters of each operand and of the result, which may be left out."""
    given, arrow, output = equation.replace(" ", "").partition("->")
    if arrow:
        return given.split(","), output
    counted = Counter(given.replace(",", ""))
    return given.split(","), "".join(sorted(c for c, times in counted.items() if times == 1))


def _is_plain(rows: Data) -> bool:
    return rows.placement is Placement.SHARD and not rows.opaque and rows.form is Layout.TENSOR


def _is_gathered(held: Value) -> bool:
    return any(isinstance(a, Data) and a.form is Layout.GATHERED for a in held.atoms)
