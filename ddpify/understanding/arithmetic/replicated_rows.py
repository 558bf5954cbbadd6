"""What tensor functions make of the rows of all ranks, and of what else all of them hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import (
    across_samples,
    along_batch,
    dimensions_left,
    parts_of_rows,
    views,
)
from ddpify.understanding.arithmetic.tensor_dimensions import (
    KEEPING_DIMENSIONS,
    OVER_A_DIMENSION,
    PARTING,
    gives_a_pair,
    goes_over_rows,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.forms import Layout
from ddpify.understanding.operators.dimensions import ALONG
from ddpify.understanding.operators.results import how_many
from ddpify.understanding.operators.table import broadcasts
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions, transpositions
from ddpify.understanding.syntax import spreads
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Number,
    Params,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_WITH_DIMENSIONS = (Data, Number, Params, Const)  # which options, such as a type, have not
CHOOSING = frozenset({"topk", "kthvalue"})


def on_replicated(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    """The same for replicated values: rows stay rows, unless the function adds them up."""
    held = [a for _, v in operands for a in v.atoms if isinstance(a, Data)]
    if not held:
        told = () if isinstance(node, cst.Call) and spreads(node) else rest
        return of_numbers(name, operands, told, kwargs)
    if name == "detach" and held[0].form is not Layout.GATHERED:
        return REPLICATED
    if name in views.RESHAPING and isinstance(node, cst.Call):  # as many as all ranks have
        bounds.count_sizes(run, [argument.value for argument in node.args])
    call = _Call(run, node, name, operands, held[0], rest, kwargs)
    known = first_answer(_RULES, call)
    made = _left(call) if known is None else known
    first = [a for a in operands[0][1].atoms if isinstance(a, Data)]
    if len(first) != 1 or first[0].form is not Layout.GATHERED:
        return made
    return dimensions_left.after(made, name, first[0].ndim, rest, kwargs)


def of_numbers(
    name: str, operands: list[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """What has no rows, with its dimensions where they are known."""
    tensors = [one for _, one in operands if any(True for _ in one.of(*_WITH_DIMENSIONS))]
    broadcast = broadcasts(name)
    ndim = dimensions.of_values(*(tensors if broadcast else tensors[:1]))
    given = () if broadcast else rest
    return dimensions_left.after(REPLICATED, name, ndim or 0, given, kwargs)


@record
class _Call:
    """A call of a tensor function on what all ranks hold, the first of which are ``rows``."""

    run: RunState
    node: cst.BaseExpression
    name: str
    operands: list[Operand]
    rows: Data
    rest: Sequence[Value]
    kwargs: Mapping[str, Value]

    @property
    def gathered(self) -> bool:
        """Whether these are the rows of all ranks."""
        return self.rows.form is Layout.GATHERED

    @property
    def over_rows(self) -> bool:
        """Whether it goes along the dimension of the rows."""
        over = self.name in OVER_A_DIMENSION
        return over and goes_over_rows(self.name, self.rows, self.rest, self.kwargs)


def _parted(call: _Call) -> Value | None:
    """Pieces of the rows of all ranks, or each of them."""
    run, node, rows = call.run, call.node, call.rows
    if call.name in PARTING and parts_of_rows.parts(rows, call.rest, call.kwargs):
        return parts_of_rows.of_gathered(run, node, rows)
    if call.name == "unbind" and parts_of_rows.one_by_one(rows, call.rest, call.kwargs):
        return parts_of_rows.each(run, node, call.operands[0][0], rows)
    if call.name in (*PARTING, "unbind") and call.gathered:
        return value(replace(rows, opaque=True))  # tensors, each with the rows of all ranks
    return None


def _transposed(call: _Call) -> Value | None:
    rows = call.rows
    if call.name not in transpositions.TRANSPOSING or not call.gathered:
        return None
    place = transpositions.place(call.name, rows.dim, rows.ndim, call.rest, call.kwargs)
    return value(replace(rows, dim=place or 0, opaque=rows.opaque or place is None))


def _behind_another(call: _Call) -> Value | None:
    """``x.unsqueeze(0)``: the rows lie along the next dimension; ``x.squeeze(0)`` the other way."""
    rows, added = call.rows, call.name == "unsqueeze"
    named = call.kwargs.get("dim") or (call.rest[0] if call.rest else UNKNOWN)
    if not call.gathered or rows.opaque or call.name not in ("unsqueeze", "squeeze"):
        return None
    place = dimensions.place(named.constant(), rows.ndim and rows.ndim + added)
    if not isinstance(place, int) or place < 0:
        return None
    dim = rows.dim + (place <= rows.dim) if added else rows.dim - (place < rows.dim)
    return value(replace(rows, dim=dim))


def _coupled(call: _Call) -> Value | None:
    coupled_ = across_samples.of_replicated(call.name, call.rows)
    if coupled_ is None or call.name in ALONG:
        return None
    return each_of_several(call.name, value(coupled_), call.kwargs)


def _along(call: _Call) -> Value | None:
    return along_batch.of_replicated(call.name, call.operands, call.rest, call.kwargs)


def _perhaps_along(call: _Call) -> Value | None:
    """Along a dimension that may be that of the rows."""
    name, rows = call.name, call.rows
    if name not in OVER_A_DIMENSION or not may_mix_rows(name, rows, call.rest, call.kwargs):
        return None
    if name in across_samples.SORTING and call.gathered:
        return across_samples.ordered(rows, name)
    return across_samples.perhaps_rows(name, value(rows))


def _in_a_pair(call: _Call) -> Value | None:
    """Values and indices."""
    if not call.gathered or not gives_a_pair(call.name, call.rest, call.kwargs):
        return None
    return _pair_of_replicated(call.name, call.rows, call.rest, call.kwargs)


def _way_back(call: _Call) -> Value | None:
    """``torch.sort(order)``: its indices put rows back that are in this order."""
    permuted = call.name == "sort" and call.rows.form is Layout.PERMUTATION
    return across_samples.ordered(call.rows, call.name) if permuted else None


def _ordered(call: _Call) -> Value | None:
    """The order of the rows of all ranks."""
    if call.name != "argsort" or not call.over_rows or call.rows.ndim >= 2:
        return None
    return value(replace(call.rows.placed(Placement.REPLICATE), form=Layout.PERMUTATION))


_RULES = (
    _parted,
    _transposed,
    _behind_another,
    _coupled,
    _along,
    _way_back,
    _perhaps_along,
    _in_a_pair,
    _ordered,
)
"""The first that says something of a call is right."""


def _left(call: _Call) -> Value:
    """The rows, unless the function adds them up."""
    rows = call.rows
    along_one = bool(call.rest) or bool({"dim", "axis"} & call.kwargs.keys())
    stay = rows.opaque and along_one  # perhaps rows along another dimension
    if not call.over_rows or call.name in KEEPING_DIMENSIONS or stay:
        return value(rows)
    number = rows.placed(Placement.REPLICATE)
    one_each = rows.one_each and rows.reduced
    return value(replace(number, definition_sites=rows.definition_sites, one_each=one_each))


def _pair_of_replicated(
    name: str, rows: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """Values and indices of the rows of all ranks, or along them."""
    if not mixes_rows(name, rows, rest, kwargs):
        return value(Tup((value(rows), value(rows))))
    if name == "sort":
        return across_samples.ordered(rows, name)
    if name in KEEPING_DIMENSIONS and name not in CHOOSING:
        return value(Tup((value(rows), value(rows))))
    number = value(
        replace(rows.placed(Placement.REPLICATE), definition_sites=rows.definition_sites)
    )
    return value(Tup((number, number)))


def each_of_several(name: str, made: Value, kwargs: Mapping[str, Value]) -> Value:
    """What an operator gives that gives several tensors: each of them holds what is known of it."""
    chosen = {option for option, given in kwargs.items() if given.constant() is True}
    count = how_many(name, chosen)
    held = [atom for atom in made.atoms if isinstance(atom, Data)]
    if count == 1 or len(held) != len(made.atoms) or not held:
        return made
    return value(Tup((made,) * count))
