"""How ranks hold what two operands give, by how they hold these."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching import (
    joint_loaders,
)
from ddpify.understanding.forms import Column, Layout, NumberKind
from ddpify.understanding.placement import Placement, combine
from ddpify.understanding.shapes import columns, relative_ranks
from ddpify.understanding.values import (
    Data,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

LINEAR_IN = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED)
_PLACED = (Layout.TENSOR, Layout.STATE)  # forms of rows along the dimension that is noted


def met(run: RunState, operator: str, left: Data | None, right: Data | None) -> Placement | None:
    """How ranks hold what two operands give; None where no reduction of it would be right."""
    if any(d is not None and d.form is Layout.PERMUTATION for d in (left, right)):
        return Placement.COUPLED
    if _half_reduced(left, right):
        return None
    if _of_one_sample(run, left, right):
        return Placement.ROWS
    if operator == "@":
        placement: Placement | None = _matmul(left, right)
        if placement is Placement.SUM and _are_in_two_orders(left, right):
            return Placement.COUPLED
    else:
        one, other = placement_of(operator, left, right), placement_of(operator, right, left)
        placement = combine(operator, one, other)
    if placement is not None and placement.partial and _of_two_sizes(run, left, right):
        return Placement.SUM if placement is Placement.COUNT else None
    crosswise = placement is Placement.SHARD and crossed(run, left, right)
    return Placement.COUPLED if crosswise else placement


def _of_one_sample(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether a sample meets a statistic of its own elements, as in ``x[i] / x[i].max()``."""
    for one, other in permutations((left, right)):
        if one is None or other is None or one.placement is not Placement.ROWS:
            continue
        own = other.placement is Placement.COUPLED and bool(other.definition_sites)
        if own and not any(_is_fixed(run, site) for site in other.definition_sites):
            return True
    return False


def _is_fixed(run: RunState, picked_from: cst.BaseExpression) -> bool:
    """Whether samples were picked at places that no loop counts, as in ``x[[0, 1]]``."""
    above = run.module.parents.get(picked_from)
    taken = isinstance(above, cst.Subscript) and above.value is picked_from
    return taken and picked_from not in run.facts.rows.positions


def _of_two_sizes(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether parts of two batches meet that may differ in size: each goes by its own."""
    return bool(left and right and joint_loaders.unequal(run, left.loaders, right.loaders))


def placement_of(operator: str, one: Data | None, other: Data | None) -> Placement:
    """An operand's placement; what may be a loss is taken for one where it is added to one."""
    if one is None:
        return Placement.REPLICATE
    added = operator in "+-" and other is not None and other.placement is Placement.MEAN
    return Placement.MEAN if one.opaque and added else one.placement


def crossed(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether rows meet other rows: two shards with their batch along different dimensions.

    In a forward the rows' dimension is less certain.
    """
    if left is None or right is None or left.placement is not right.placement:
        return False
    if _are_aligned(left, right) is not None:
        return not _are_aligned(left, right)
    if run.frames_forward() and not surely_crossed(left, right):
        return False
    return left.dim != right.dim and not (left.opaque or right.opaque)


def _are_aligned(left: Data, right: Data) -> bool | None:
    """Whether broadcasting puts the rows of one beside the same rows of the other.

    It aligns the last dimensions. None where the number of dimensions is not known, and nothing
    tells that they may lie beside others.
    """
    more = relative_ranks.difference(left, right)
    placed = all(d.form in _PLACED and not d.opaque for d in (left, right))
    if placed and more is None and columns.may_meet_all(left, right):
        return False
    return left.dim - right.dim == more if placed and more is not None else None


def surely_crossed(left: Data | None, right: Data | None) -> bool:
    """Whether rows meet other rows wherever that is: views under each other, or ``x @ y.t()``."""
    if left is None or right is None:
        return False
    if _are_aligned(left, right) is not None:
        return not _are_aligned(left, right)
    if {left.dim, right.dim} != {0, 1}:
        return False
    if both_plain(left, right):
        return True
    alike = left.form == right.form and left.form in (Layout.STACKED, Layout.PAIRS)
    return alike or (right.dim == 1 and right.ndim == 2)


def _are_in_two_orders(left: Data | None, right: Data | None) -> bool:
    if left is None or right is None:
        return False
    return in_another_order(left, right) or in_another_order(right, left)


def in_another_order(rows: Data, others: Data) -> bool:
    """Whether rows of several tensors under each other meet several rows for each sample.

    The second of the one is the second sample's; that of the other is the first sample's, too.
    """
    by_place = rows.form in (Layout.STACKED, Layout.INTERLEAVED)
    return by_place and others.form is Layout.TENSOR and others.several


def both_plain(left: Data, right: Data) -> bool:
    """Whether both are rows whose place is known: no states, stacks, or what is not seen."""
    return left.form is right.form is Layout.TENSOR and not (left.opaque or right.opaque)


def result_of(
    operator: str, base: Data, placement: Placement, left: Data | None, right: Data | None
) -> Data:
    """What two operands give that is held so."""
    held = [d for d in (left, right) if d is not None]
    number = _number(operator, base, placement, left, held)
    if number is not None:
        return number
    if placement is Placement.SUM and base.form is NumberKind.MULTIPLE and None in (left, right):
        return base  # summed where it is counted: a share of it could be rounded on each rank
    own = [d for d in held if d.placement.local]
    if placement is Placement.SHARD and own and all(map(_is_counting, own)):
        counting = frozenset(site for d in held for site in d.counting)
        return replace(base, definition_sites=counting, form=NumberKind.COMPUTED, ndim=0)
    forms = {Layout.MASKED if d.ragged else d.form for d in held}
    ranked = (Layout.MASKED, Layout.STACKED, Layout.INTERLEAVED)
    form = next((one for one in ranked if one in forms), Layout.TENSOR)
    dim = max((d.dim for d in held if d.placement is Placement.SHARD), default=0)
    if operator == "@" and left and right and left.ndim == 1 < right.ndim == right.dim + 1:
        dim -= 1  # a vector leaves none of the dimensions before
    dot = operator == "@" and len(held) == 2 and all(d.ndim == 1 for d in held)
    one_each = dot or any(d.one_each for d in held)
    opaque = any(d.opaque for d in held)
    made = replace(base.placed(placement), opaque=opaque, form=form, dim=dim, one_each=one_each)
    rows = [d for d in held if d.placement is Placement.SHARD]
    column = min((d.column for d in rows), default=Column.NONE)
    return replace(made, column=column if operator != "@" else Column.NONE)


def _number(
    operator: str, base: Data, placement: Placement, left: Data | None, held: list[Data]
) -> Data | None:
    """A number of rows, or what is computed of one; None for rows and their means."""
    if placement is Placement.SUM and base.placement is Placement.COUNT:
        return replace(base.placed(placement), form=NumberKind.NUMBER)
    if placement not in (Placement.COUNT, Placement.PER_COUNT):
        return None
    local = [d for d in held if d.placement.local]
    sites = frozenset(site for d in local for site in d.definition_sites)
    multiple = NumberKind.ROUNDED if _is_rounded(operator, left, local) else NumberKind.MULTIPLE
    form = multiple if placement is Placement.COUNT else NumberKind.NUMBER
    return replace(base, placement=placement, definition_sites=sites, form=form)


def _is_counting(operand: Data) -> bool:
    """Whether these are numbers that count rows, or that of a rank's rows."""
    return bool(operand.counting) or operand.placement is Placement.COUNT


def _is_rounded(operator: str, left: Data | None, numbers: list[Data]) -> bool:
    """Whether a part of a number of rows is not the sum of the ranks' parts."""
    halved = operator == "//" and left is not None
    return halved or any(number.form is NumberKind.ROUNDED for number in numbers)


def _half_reduced(left: Data | None, right: Data | None) -> bool:
    """Whether a partial loss meets a reduced one: its gradient would be scaled a second time."""
    if left is None or right is None:
        return False
    placements = {left.placement, right.placement}
    return Placement.REPLICATE in placements and not placements.isdisjoint(LINEAR_IN)


def _matmul(left: Data | None, right: Data | None) -> Placement | None:
    """What times weights stays what it is, as rows or sums do; rows against rows couple them."""
    held = [d.placement for d in (left, right) if d is not None and d.placement.local]
    if Placement.ROWS in held:
        return None if any(placement.partial for placement in held) else Placement.ROWS
    if Placement.COUPLED in held:
        return Placement.COUPLED
    if left is None or right is None or len(held) < 2:
        alone = _is_summed(left, 0) or _is_summed(right, 1)
        return held[0] if held[0] in LINEAR_IN else Placement.COUPLED if alone else Placement.SHARD
    if any(placement.partial for placement in held):
        return None
    if _is_summed(left, 0) and _is_summed(right, 1):
        return Placement.SUM
    if left.dim == 0 and right.dim == 0:
        summed = any(map(_may_be_summed, (left, right), (0, 1)))
        return Placement.COUPLED if summed else Placement.SHARD
    # ``x.t() @ y`` adds up over the rows of both.
    matrices = {left.ndim, right.ndim} <= {0, 2}
    summed = left.dim == 1 and right.dim == 0 and matrices
    rows = left.placement is Placement.SHARD and right.placement is Placement.SHARD
    return Placement.SUM if summed and rows else Placement.COUPLED


def _may_be_summed(factor: Data, side: int) -> bool:
    """Whether a product of rows may add up over those of this factor."""
    single = factor.one_each and not factor.ndim and both_plain(factor, factor)
    return single or _is_summed(factor, side)


def _is_summed(factor: Data | None, side: int) -> bool:
    """Whether a product adds up over the rows of its left factor (0) or of its right one (1).

    That is over the last dimension on the left, and over the last but one on the right.
    """
    if factor is None or factor.placement is not Placement.SHARD or not both_plain(factor, factor):
        return False
    last = factor.ndim - 1 if side == 0 or factor.ndim == 1 else factor.ndim - 2
    return factor.ndim > 0 and factor.dim == last
