"""Operators of several tensors, where rows stand in one of them that is no batch of samples.

A weight, a table or an index of rows meets each of the samples: all ranks get those of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.forms import Layout
from ddpify.understanding.operators.places import HOLDING_ROWS, TABLE, WITH_ONE_INDEX
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import NO_ROWS, UNKNOWN, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_BEHIND = 99  # the place of an argument that is given by its name
_PRODUCTS = frozenset("addmm addmv baddbmm addbmm".split())
_PLANES = frozenset("fft2 ifft2".split())
_INDEX = 2  # its place behind the tensor and the dimension


def of_all_ranks(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: Sequence[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """What such an operator gives of the rows of all ranks; None where each rank's own suit."""
    plain = name[:-1] if name.endswith("_") and not name.startswith("_") else name
    rows = {place(node, operands, shown): held for shown, held in operands if _has_rows(held)}
    found = [(shown, held) for shown, held in operands if _has_rows(held)]
    if not rows:
        return None
    if plain in WITH_ONE_INDEX:
        _take_whole_index(run, node, operands, rest, kwargs)
        return None
    if plain in TABLE and TABLE[plain] in rows:
        return across_samples.coupled_operands(run, node, found, rows=len(rows) > 1)
    if plain == "repeat_interleave":
        told = 1 in rows or _BEHIND in rows
        return _repeated(run, node, found, rows, rest, kwargs) if told else None
    last = max(rows)
    meets = rule_of(plain) is Rule.PER_SAMPLE and last >= HOLDING_ROWS.get(plain, 1)
    adds = plain in _PRODUCTS and not _is_product_by_row(plain, rows)
    if meets or adds or (plain in _PLANES and _is_told_rows(rows, rest, kwargs)):
        return across_samples.coupled_operands(run, node, found)
    return None


def place(node: cst.BaseExpression, operands: Sequence[Operand], shown: cst.BaseExpression) -> int:
    """Where an operand stands among the arguments, the tensor of a method first."""
    if not isinstance(node, cst.Call):
        return 0
    method = isinstance(node.func, cst.Attribute) and any(
        node.func.value is one for one, _ in operands
    )
    if method and isinstance(node.func, cst.Attribute) and node.func.value is shown:
        return 0
    given = [one for one in node.args if one.value is shown]
    if not given or given[0].keyword is not None:
        first = given and given[0].keyword is not None and given[0].keyword.value == "input"
        return 0 if first or not given else _BEHIND
    return node.args.index(given[0]) + method


def _has_rows(held: Value) -> bool:
    return any(d.placement is Placement.SHARD and d.dim != NO_ROWS for d in held.data)


def _take_whole_index(
    run: RunState,
    node: cst.BaseExpression,
    operands: Sequence[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> None:
    """Ask for the index of all samples where it goes along another dimension than theirs."""
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    taken = [d for shown, held in operands if not place(node, operands, shown) for d in held.data]
    if not taken or any(dimensions.place(along, d.ndim) in (d.dim, ...) for d in taken):
        return
    for shown, held in operands:
        at = place(node, operands, shown)
        index = at == _INDEX or held is kwargs.get("index")
        rows = [d for d in held.data if d.placement is Placement.SHARD and d.form is Layout.TENSOR]
        if index and rows:
            run.demand(shown, value(*rows), uses.A_STATISTIC)


def _repeated(
    run: RunState,
    node: cst.BaseExpression,
    found: Sequence[Operand],
    rows: Mapping[int, Value],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    """Rows that are repeated as often as each of them says; any number of them on a rank."""
    for shown, held in found[1:]:
        run.demand(shown, value(*(d for d in held.data if d.counting)), uses.POSITIONS)
    given = kwargs.get("dim") or kwargs.get("axis") or (rest[1] if len(rest) > 1 else None)
    repeated = rows[0].data[0] if 0 in rows else None
    line = repeated is not None and repeated.ndim == 1
    along = 0 if given is None and line else given.constant() if given is not None else None
    if repeated is None or dimensions.place(along, repeated.ndim) != repeated.dim:
        return across_samples.coupled_operands(run, node, found)
    return value(replace(repeated, definition_sites=frozenset(), form=Layout.MASKED))


def _is_product_by_row(name: str, rows: Mapping[int, Value]) -> bool:
    """Whether each sample alone makes its row of a product, and of what is added to it."""
    held = {at: one.data[0] for at, one in rows.items()}
    if name == "addbmm" or any(data.dim for data in held.values()):
        return False
    if name == "baddbmm":
        return all(data.ndim == 3 for data in held.values())
    added = 0 not in held or held[0].ndim == (2 if name == "addmm" else 1)
    return added and 1 in held and held.keys() <= {0, 1}


def _is_told_rows(
    rows: Mapping[int, Value], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a transform of two dimensions may be told that of the samples."""
    given = kwargs.get("dim") or kwargs.get("axes") or (rest[1] if len(rest) > 1 else None)
    data: list[Data] = rows[min(rows)].data
    dims = [dim for dims in named_dimensions((given,), {}) for dim in dims] if given else []
    places = [dimensions.place(dim, data[0].ndim) for dim in dims]
    return any(not isinstance(one, int) or one < 0 or one == data[0].dim for one in places)
