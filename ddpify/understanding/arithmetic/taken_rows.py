"""Rows that are taken by positions which the rows themselves hold, as ``x[nearest]`` does.

Positions count the rows of the global batch, so that each rank takes rows of all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.batching import current_batch
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import NO_ROWS, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OWN_POSITIONS = (NumberKind.RANGE, NumberKind.COMPUTED, Layout.ORDER, Layout.PERMUTATION)


def by_positions(run: RunState, node: cst.Subscript, rows: Data, index: Value) -> Data | None:
    """What positions take of a batch's rows; None for masks and a rank's own positions."""
    held = [data for data in index.data if data.placement is Placement.SHARD]
    if not held or all(_counts_own_rows(run, data) for data in held):
        return None
    if run.collating:
        run.mixes(node, rows)
        return replace(rows, definition_sites=frozenset(), form=Layout.MASKED)
    first, *others = node.slice
    plain = rows.form is Layout.TENSOR and rows.dim == 0 and not rows.opaque
    if not plain or others or not isinstance(first.slice, cst.Index) or not run.module.editable:
        # A forward may count the rows of a view from each sample's first, as graphs of points do.
        laid_out = run.frames_forward() and (rows.flat or rows.several)
        known = [] if rows.opaque or laid_out else [rows]
        run.demand(node.value, value(*known), uses.A_STATISTIC)
        return None
    current_batch.used(run, node, [rows])
    run.facts.rows.taken_rows[node] = run.site(node)
    return replace(rows, definition_sites=frozenset(), form=Layout.MASKED, ndim=0)


def are_own_positions(run: RunState, index: Data) -> bool:
    """Whether positions are surely those of a rank's own rows: found by a mask, or counted.

    A collate function that numbers its samples counts them, too.
    """
    return are_found(run, index) or index.form in _OWN_POSITIONS


def are_found(run: RunState, index: Data) -> bool:
    """Whether a mask of a rank's rows, or its collate function, gave positions among those."""
    numbered = index.ragged and not run.facts.loading.numbered.isdisjoint(index.loaders)
    return numbered or bool(index.found_in)


def _counts_own_rows(run: RunState, index: Data) -> bool:
    """Whether an index is a mask, or has positions among a rank's own rows."""
    mask = index.boolean or index.opaque
    return mask or index.dim == NO_ROWS or are_own_positions(run, index)
