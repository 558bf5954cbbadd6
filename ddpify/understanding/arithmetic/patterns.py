"""einops: where the pattern of ``rearrange``, ``reduce`` or ``repeat`` puts the rows of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import one_tensor, tensor_dimensions, tensors
from ddpify.understanding.batching import batch_rows
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

LAYERS = frozenset({"einops.layers.torch.Rearrange", "einops.layers.torch.Reduce"})
_DOTS = "..."  # any number of dimensions
_LINEAR = ("mean", "sum")
# Forms that say of a whole tensor's layout what a pattern shows anew.
_OF_LAYOUT = (*SEVERAL_TENSORS, Layout.YIELDED, Layout.STATE, Layout.STATES)

Group = tuple[str, ...]  # names of what is laid out in one dimension, the outermost first


@record
class _Pattern:
    """``"(b s) d -> b s d"``, with the lengths that the call names."""

    left: tuple[Group, ...]
    right: tuple[Group, ...]
    lengths: tuple[tuple[str, Value], ...] = ()
    reduction: str = ""

    def length(self, name: str) -> Value:
        """What a call says of a length."""
        return dict(self.lengths).get(name, UNKNOWN)

    @property
    def ndim(self) -> int:
        """How many dimensions the result has; 0 where that is not known."""
        return 0 if (_DOTS,) in self.right else len(self.right)


def function(
    run: RunState, node: cst.BaseExpression, short: str, args: list[Value], kwargs: Keywords
) -> Value | None:
    """A function of einops; None where its pattern does not show what becomes of the rows."""
    pattern = _pattern(short, args[1:], kwargs) if args else None
    if pattern is None:
        return None
    for _, held in pattern.lengths:
        for data in tensor_sizes.counts(held):
            run.facts.sizes.shape_uses.update(data.definition_sites)
    copied = _for_each_row(pattern, args[0])
    return copied or _applied(run, node, args, pattern)


def layer(
    run: RunState, node: cst.BaseExpression, target: Instance, args: list[Value]
) -> Value | None:
    """What a layer of einops makes of its input; None where its pattern does not show that."""
    given = dict(target.arguments)
    rest = [given.pop(place) for place in ("0", "1") if place in given]
    pattern = _pattern("reduce" if target.kind.endswith("Reduce") else "", rest, given)
    return _applied(run, node, args, pattern) if args and pattern is not None else None


def _applied(
    run: RunState, node: cst.BaseExpression, args: list[Value], pattern: _Pattern
) -> Value | None:
    shown = argument_pairs(node, args, {})[0][0]
    made = [_one(run, node, (shown, atom), pattern) for atom in _stacked(args[0]).atoms]
    if any(one is None for one in made):
        return None
    return join(*(one for one in made if one is not None)) or REPLICATED


def _pattern(short: str, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> _Pattern | None:
    """The pattern of a call, where it is written out."""
    text = (rest[0] if rest else kwargs.get("pattern", UNKNOWN)).constant()
    if not isinstance(text, str) or text.count("->") != 1:
        return None
    how = rest[1] if len(rest) > 1 else kwargs.get("reduction", UNKNOWN)
    left, right = (_groups(side) for side in text.split("->"))
    lengths = tuple((n, v) for n, v in kwargs.items() if n not in ("pattern", "reduction"))
    reduction = str(how.constant()) if short == "reduce" else ""
    return _Pattern(left, right, lengths, reduction)


def _groups(side: str) -> tuple[Group, ...]:
    parts = re.findall(r"\(([^)]*)\)|(\S+)", side.replace("\N{HORIZONTAL ELLIPSIS}", _DOTS))
    names = (inner.split() if alone == "" else [alone] for inner, alone in parts)
    return tuple(tuple(name for name in group if name != "1") for group in names)


def _stacked(given: Value) -> Value:
    """A list of tensors is one of them all, behind each other in a dimension of its own."""
    lists = [a for a in given.atoms if isinstance(a, Tup) or _is_list(a)]
    inner = [a for a in deep_atoms(value(*lists)) if isinstance(a, Data)]
    if (
        not inner
        or len(lists) < len(given.atoms)
        or any(a.form is not Layout.TENSOR for a in inner)
    ):
        return given
    return value(*(replace(a, dim=a.dim + 1, ndim=a.ndim and a.ndim + 1) for a in inner))


def _is_list(atom: Atom) -> bool:
    return isinstance(atom, Instance) and atom.type == "list"


def _for_each_row(pattern: _Pattern, given: Value) -> Value | None:
    """``repeat(x, "d -> b d", b=len(batch))`` of what all ranks hold: one for each of its rows."""
    known = {name for group in pattern.left for name in group}
    for place, group in enumerate(pattern.right):
        for name in group if not given.data else ():
            counted = tensor_sizes.counts(pattern.length(name)) if name not in known else []
            if counted and (_DOTS,) not in pattern.right[:place]:
                rows = tensor_sizes.rows_as_many(counted[0])
                form = rows.form if name == group[0] else Layout.INTERLEAVED
                return value(replace(rows, dim=place, ndim=pattern.ndim, form=form))
    return None


def _one(
    run: RunState,
    node: cst.BaseExpression,
    operand: tuple[cst.BaseExpression, Atom],
    pattern: _Pattern,
) -> Value | None:
    """What becomes of one thing that the tensor may be; None where the pattern does not show it."""
    shown, atom = operand
    if isinstance(atom, ReplicatedTensor):
        return _replicated(run, atom, pattern)
    if not isinstance(atom, Data):
        return None if isinstance(atom, (Instance, Tup)) else value(Number())
    if atom.placement is not Placement.SHARD:
        return _no_rows(run, node, (shown, atom), pattern)
    name = _row_name(atom, pattern)
    if name == "":
        return value(replace(atom.placed(Placement.ROWS), definition_sites=frozenset({shown})))
    if name is None:
        return None
    place = _place(name, pattern)
    if place is None:
        return None
    if place < 0:
        over = {"dim": value(Const(atom.dim))}
        given = [(shown, value(replace(atom, opaque=False)))]
        return tensors.function(run, node, pattern.reduction, given, over)
    return value(_moved(atom, name, place, pattern))


def _no_rows(
    run: RunState,
    node: cst.BaseExpression,
    operand: tuple[cst.BaseExpression, Data],
    pattern: _Pattern,
) -> Value:
    """The same of a mean or a sum, or of a replicated value."""
    shown, data = operand
    if data.placement.partial and pattern.reduction in ("", *_LINEAR):
        return one_tensor.fresh(value(data))
    dropped = pattern.reduction and _place(_row_name(data, pattern) or "", pattern) == -1
    name = pattern.reduction if dropped or data.placement.partial else "clone"
    return tensors.function(run, node, name, [(shown, value(data))], {})


def _row_name(data: Data, pattern: _Pattern) -> str | None:
    """The name of the rows in the pattern; empty where it cuts across them, None if not known."""
    group = _group_at(data.dim, data.ndim, pattern.left)
    if not group:
        return None
    if len(group) == 1:
        return group[0]
    if data.form is Layout.INTERLEAVED:
        return group[-1]
    counted = bool(tensor_sizes.counts(pattern.length(group[0])))
    if data.form is Layout.STACKED:
        return group[-1] if pattern.length(group[0]) and not counted else ""
    return group[0] if counted or not pattern.length(group[0]) else ""


def _group_at(dim: int, ndim: int, groups: Sequence[Group]) -> Group | None:
    """The names of what lies in a dimension."""
    dots = groups.index((_DOTS,)) if (_DOTS,) in groups else len(groups)
    if dim > dots:
        behind = dim - ndim if ndim else 0
        held = -behind <= len(groups) - dots - 1
        return groups[behind] if behind and held else None
    return groups[dim] if dim < len(groups) else None


def _place(name: str, pattern: _Pattern) -> int | None:
    """The dimension in which a name lies in the result: -1 for none, None where it is not known."""
    for place, group in enumerate(pattern.right):
        if name in group:
            return None if (_DOTS,) in pattern.right[:place] else place
    return -1 if pattern.reduction else None


def _moved(rows: Data, name: str, place: int, pattern: _Pattern) -> Data:
    """Rows along another dimension, perhaps several for each sample."""
    group = pattern.right[place]
    form = tensor_dimensions.kept_form(rows)
    if form in (*_OF_LAYOUT, Layout.INTERLEAVED, Layout.STACKED):
        alone = len(_group_at(rows.dim, rows.ndim, pattern.left) or ()) == 1
        form = form if alone and form not in _OF_LAYOUT else Layout.TENSOR
    if len(group) > 1 and name != group[0]:
        form = Layout.INTERLEAVED
    return replace(
        rows,
        dim=place,
        ndim=pattern.ndim,
        form=form,
        definition_sites=rows.counting,
        opaque=False,
        one_each=pattern.ndim == 1,
    )


def _replicated(run: RunState, atom: ReplicatedTensor, pattern: _Pattern) -> Value | None:
    """What becomes of a batch that the script makes by hand."""
    group = _group_at(atom.dim, 0, pattern.left)
    if group is None or len(group) != 1:
        return None
    place = _place(group[0], pattern)
    if place == -1:
        batch_rows.refute(run, atom)
        return REPLICATED
    if place is None:
        return None
    several = pattern.right[place]
    moved = batch_rows.moved(atom, place)
    if len(several) == 1:
        return value(moved)
    return value(
        replace(moved, flat=True) if several[0] == group[0] else replace(moved, mixed=True)
    )
