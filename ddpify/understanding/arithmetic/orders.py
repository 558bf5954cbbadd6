"""Orders of the rows of all ranks, as ``torch.randperm(len(x))`` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def as_numbers(
    run: RunState, *operands: tuple[cst.BaseExpression, Value]
) -> list[tuple[cst.BaseExpression, Value]]:
    """Operands, with each order taken for what it is to arithmetic: a number for each row.

    Every rank has those of all rows. A collate function's order is that of the samples it gets.
    """
    if run.collating:
        return list(operands)
    flat = run.frames_forward()  # where an order is named, nothing says how to take a part of it
    return [(one, value(*(as_number(a, flat=flat) for a in held.atoms))) for one, held in operands]


def as_number(atom: Atom, *, flat: bool = False) -> Atom:
    """An order of all rows as what all ranks hold; anything else as it is."""
    if not isinstance(atom, Data) or atom.form is not Layout.PERMUTATION:
        return atom
    return replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED, flat=flat)
