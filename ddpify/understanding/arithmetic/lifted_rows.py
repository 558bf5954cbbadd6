"""Rows beside what all ranks hold, where nobody knows how many dimensions that has.

``out * table`` of a table out of a file has its rows behind the dimensions that the table has more.
Whatever goes over all elements, or treats each alone, gives the same; all else is computed of the
rows of all ranks, which are gathered before they meet the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic.dimensions_left import is_a_number
from ddpify.understanding.arithmetic.tensor_dimensions import SUMMING
from ddpify.understanding.batching import item_dimensions
from ddpify.understanding.forms import Layout
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, sure_numbers
from ddpify.understanding.values import (
    CONTAINERS,
    NO_ROWS,
    Atom,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Operand = tuple[cst.BaseExpression, Value]

_NEUTRAL = frozenset(  # besides what treats each element alone
    "to cpu cuda float double half bfloat16 type type_as detach detach_ clone contiguous data"
    " requires_grad_ retain_grad numpy backward register_hook item dim is_contiguous"
    " dropout zeros_like ones_like full_like empty_like where maximum minimum fmax fmin"
    " logaddexp".split()
)


def noted(run: RunState, made: Value, operands: Sequence[Operand]) -> Value:
    """What rows make with other operands, with where they met such as may have more dimensions."""
    rows = [(shown, one) for shown, held in operands for one in held.data if _are_rows(one)]
    behind = frozenset(site for _, one in rows for site in one.behind)
    whole = any(map(_is_gathered, made.atoms))
    if run.collating or not (rows or whole):
        return made
    held = [one for _, one in rows]
    if not run.frames_forward() and any(_may_have_more(run, *one, held) for one in operands):
        behind |= {shown for shown, _ in rows}
        made = value(*(replace(a, opaque=True) if _is_gathered(a) else a for a in made.atoms))
    return _with(made, behind) if behind else made


def _is_gathered(one: Atom) -> TypeGuard[Data]:
    return isinstance(one, Data) and one.form is Layout.GATHERED


def _are_rows(data: Data) -> bool:
    return data.placement is Placement.SHARD and data.dim != NO_ROWS and not data.counting


def _may_have_more(
    run: RunState, shown: cst.BaseExpression, held: Value, rows: Sequence[Data]
) -> bool:
    """Whether something that all ranks hold may have more dimensions than rows beside it."""
    if any(map(_is_told_otherwise, held.atoms)):
        return False
    most = dimensions.of_value(held)
    if most is not None:  # which is known, unless it may be one of several numbers
        fewest = min((one.ndim or one.dim + 1 for one in rows), default=0)
        return most > fewest and len({one.ndim for one in held.of(Number)}) > 1
    shown_to_have = item_dimensions.of_expression(shown, run.module)
    return not shown_to_have and not sure_numbers.is_number(run, shown)


def _is_told_otherwise(one: Atom) -> bool:
    """Whether this is made of rows, may be a batch that is split where it meets one, or a list."""
    listed = isinstance(one, Tup) or (isinstance(one, Instance) and one.kind in CONTAINERS)
    return listed or isinstance(one, (Data, ReplicatedTensor))


def _with(made: Value, behind: frozenset[cst.BaseExpression]) -> Value:
    return value(
        *(
            replace(one, behind=behind)
            if isinstance(one, Data) and one.placement is Placement.SHARD
            else one
            for one in made.atoms
        )
    )


def asked(
    run: RunState,
    name: str,
    held: Iterable[Data],
    rest: Sequence[Value] = (),
    kwargs: Mapping[str, Value] | None = None,
) -> Value | None:
    """Ask for the rows of all ranks where an operator may go by the place of such rows.

    None for an operator that does not, and for others.
    """
    lifted = [one for one in held if one.behind and one.placement is Placement.SHARD]
    if not lifted or _is_neutral(name, rest, kwargs or {}):
        return None
    ask(run, lifted)
    return value(replace(lifted[0].placed(Placement.REPLICATE), form=Layout.GATHERED, opaque=True))


def _is_neutral(name: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether an operator gives the same wherever the rows lie."""
    if name in _NEUTRAL or rule_of(name) is Rule.ELEMENTWISE:
        return True
    if name in SUMMING and is_a_number(name, rest, kwargs):
        return True
    told = bool(rest) and rest[0].constant() is not ...
    return name in ("max", "min") and bool(rest) and not told and not kwargs  # of two tensors


def ask(run: RunState, lifted: Iterable[Data]) -> None:
    """Ask for the rows of all ranks before they meet what may have more dimensions."""
    for site in {site for one in lifted for site in one.behind}:
        run.demand(site, value(*filter(_are_rows, run.seen(site).data)), uses.A_STATISTIC)
