"""What kinds of indices a subscript has, and which dimensions they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import loop_indices
from ddpify.understanding.batching import per_sample_lists
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    Tup,
    Value,
    join,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def index_kind(run: RunState, part: cst.BaseSlice) -> tuple[str, Value]:
    """Its kind and its value: "whole", "slice", "ellipsis", "new" or "index"."""
    if isinstance(part, cst.Slice):
        whole = part.lower is None and part.upper is None
        return ("whole" if whole and part.step is None else "slice"), UNKNOWN
    assert isinstance(part, cst.Index)
    if isinstance(part.value, cst.Ellipsis):
        return "ellipsis", UNKNOWN
    index = per_sample_lists.as_index(run.seen(part.value))
    if index.constant() is None:
        return "new", index
    tuples = [item for atom in index.of(Tup) for item in atom.items]
    return "index", join(index, *tuples)  # as np.where() gives positions


def is_one_wide(run: RunState, part: cst.BaseSlice) -> bool:
    """Whether this leaves a dimension of size one, as ``:1``, ``-1:``, ``k : k + 1`` or ``[k]``."""
    if isinstance(part, cst.Index) and isinstance(part.value, cst.List):
        return len(part.value.elements) == 1
    if not isinstance(part, cst.Slice) or part.step is not None:
        return False
    lower, upper = part.lower, part.upper
    first = 0 if lower is None else run.seen(lower).constant()
    last = 0 if upper is None else run.seen(upper).constant()
    if isinstance(first, int) and isinstance(last, int):
        return last - first == 1
    above = upper.left if isinstance(upper, cst.BinaryOperation) else None
    return above is not None and lower is not None and above.deep_equals(lower)


def operands(run: RunState, node: cst.Subscript) -> list[tuple[cst.BaseExpression, Value]]:
    """The parts of an index, with lists of positions taken for tensors of them."""
    return [(one, per_sample_lists.as_index(run.seen(one))) for one in indices_of(node)]


def takes_one(run: RunState, part: cst.BaseSlice, index: Value) -> bool | None:
    """Whether an index is a number, which leaves no dimension; None where it may be a tensor."""
    counts = loop_indices.is_counter(run, part) or loop_indices.counts_each_row(run, part)
    if isinstance(index.constant(), int) or counts:
        return True
    if any(isinstance(atom, (Tup, Instance)) for atom in index.atoms):
        return False  # as of a list, or of what np.where() gives
    known = {_is_number(atom) for atom in index.atoms}
    return known.pop() if len(known) == 1 else None


def _is_number(atom: Atom) -> bool | None:
    """Whether something is one number; None where it may be a tensor with dimensions as well."""
    if isinstance(atom, Const):
        return isinstance(atom.value, int) and not isinstance(atom.value, bool)
    if not isinstance(atom, Number):
        return False
    return None if atom.ndim is None else atom.ndim == 0


def reaches_rows(index: Value, before: int) -> bool:
    """Whether a mask over so many dimensions before the rows has rows along the same one.

    As ``out[tokens != 0]`` does where time steps come first: the samples of each step that it
    leaves lie beside each other.
    """
    held = (one for one in index.atoms if isinstance(one, Data) and one.dim == before)
    return any(
        not one.opaque and (one.placement is Placement.SHARD or one.form is Layout.GATHERED)
        for one in held
    )


def left_open(run: RunState, node: cst.Subscript, ndim: int) -> int:
    """For how many dimensions an ellipsis stands."""
    kinds = [index_kind(run, element.slice)[0] for element in node.slice]
    return ndim - sum(kind not in ("new", "ellipsis") for kind in kinds)


def dimensions_left(run: RunState, node: cst.Subscript, atom: Data) -> int:
    """How many dimensions an index leaves; 0 where that is not known."""
    left = atom.ndim
    for element in node.slice if left else ():
        kind, index = index_kind(run, element.slice)
        if kind == "index" and not isinstance(index.constant(), int):
            return 0
        left += (kind == "new") - (kind == "index")
    return max(left, 0)


def left_of_replicated(run: RunState, node: cst.Subscript, ndim: int | None) -> int:
    """How many dimensions an index leaves of what all ranks hold; 0 where that is not known."""
    left = ndim or 0
    for element in node.slice if left else ():
        kind, index = index_kind(run, element.slice)
        if kind == "index" and not takes_one(run, element.slice, index):
            return 0
        left += (kind == "new") - (kind == "index")
    return max(left, 0)


def leaves_one_each(run: RunState, node: cst.Subscript, atom: Data) -> bool:
    """Whether ``x[:, 0]``, or ``x[places, labels]``, may be a single number for each sample."""
    parts = [(element.slice, *index_kind(run, element.slice)) for element in node.slice]
    kinds = [kind for _, kind, _ in parts]
    taken = [takes_one(run, at, i) is not False for at, kind, i in parts if kind == "index"]
    dropped = sum(taken) + max(taken.count(False) - 1, 0)  # what picks several at once meets
    kept = len(parts) - dropped
    if not dropped:
        seen = kinds.count("whole") + kinds.count("slice")
        return atom.one_each and not atom.ndim and seen < 2 and not _is_new_behind(kinds)
    return kept == 1 and dimensions.may_leave_one_each(atom, dropped)


def _is_new_behind(kinds: Sequence[str]) -> bool:
    """Whether an index puts a new dimension behind others, as ``x[:, None]`` does."""
    return kinds[-1] == "new" and set(kinds) != {"new"}


def dimension_left(run: RunState, node: cst.Subscript, dim: int) -> int:
    """Which dimension one of the rows of all ranks is after an index."""
    at = 0
    for element in node.slice:
        kind, index = index_kind(run, element.slice)
        if kind == "ellipsis" or at > dim or (at == dim and kind != "new"):
            break
        if kind == "index" and reaches_rows(index, dim - at):
            return at
        gone = kind == "index" and isinstance(index.constant(), int)
        dim += (kind == "new") - gone
        at += not gone
    return dim
