"""Along which dimension the rows lie that an index by rows takes of what all ranks hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic.index_kinds import index_kind, takes_one
from ddpify.understanding.batching import per_sample_lists
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def of_index(run: RunState, node: cst.Subscript) -> int | None:
    """The place in ``table[:, labels]`` at which its labels' rows are: 1; None if not known.

    Indices with a slice between them leave their dimension in front, as NumPy's rule has it.
    """
    dim = 0
    apart = _are_apart(run, node)
    for element in node.slice:
        kind, index = index_kind(run, element.slice)
        if kind == "ellipsis":
            return None
        if _is_of_rows(run, element.slice, index):
            return 0 if apart and kind == "index" else dim
        one = kind == "index" and takes_one(run, element.slice, index)
        dim += 0 if kind == "index" and one is not False else 1
    return dim


def _is_of_rows(run: RunState, part: cst.BaseSlice, index: Value) -> bool:
    """Whether this index takes as many as a rank has rows."""
    if isinstance(part, cst.Slice):
        return bool(bounds.counted_in(run, part))
    return any(data.placement is Placement.SHARD for data in index.data)


def _are_apart(run: RunState, node: cst.Subscript) -> bool:
    """Whether a slice stands between two indices that are tensors."""
    kinds = [(element.slice, *index_kind(run, element.slice)) for element in node.slice]
    tensors = [
        place
        for place, (part, kind, index) in enumerate(kinds)
        if kind == "index" and takes_one(run, part, index) is not True
    ]
    return bool(tensors) and len(tensors) <= tensors[-1] - tensors[0]


def among(run: RunState, node: cst.Subscript, rows: Data) -> Value:
    """Rows that an index takes, where they lie in the result; those of all ranks if not known."""
    dim = of_index(run, node)
    if dim is not None:
        behind = _dimensions_behind(run, node)
        return value(replace(rows, dim=rows.dim + dim, one_each=not behind))
    for shown in indices_of(node):
        by_rows = per_sample_lists.as_index(run.seen(shown)).data
        of_all(run, shown, [one for one in by_rows if one.placement is Placement.SHARD])
    return value(Data(Placement.REPLICATE, rows.loaders, form=Layout.GATHERED, opaque=True))


def _dimensions_behind(run: RunState, node: cst.Subscript) -> int:
    """How many dimensions a table surely has beside those that an index takes of it."""
    ndim = dimensions.of_value(run.seen(node.value)) or 0
    kinds = [index_kind(run, element.slice)[0] for element in node.slice]
    left_alone = max(ndim - len(kinds) + kinds.count("new"), 0)
    last = max((place for place, kind in enumerate(kinds) if kind in ("index", "slice")), default=0)
    return left_alone + sum(kind in ("whole", "new") for kind in kinds[last:])


def of_all(run: RunState, shown: cst.BaseExpression, rows: list[Data]) -> None:
    """Ask for the index of all ranks: it is not known where its rows would lie."""
    for one in rows:
        if run.collating:
            run.mixes(shown, one)
        else:
            run.demand(shown, value(one), uses.A_STATISTIC)
