"""Arithmetic on placements: what tensor operations make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.placement import Placement, combine
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Instance,
    Method,
    Number,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

Operand = tuple[cst.BaseExpression, Value]

LINEAR = frozenset(
    "to cpu cuda float double half bfloat16 type type_as detach detach_ clone squeeze unsqueeze"
    " view reshape"
    " contiguous mean sum neg negative numpy requires_grad_ flatten ravel expand expand_as data"
    " retain_grad astype copy asarray array as_tensor from_numpy tensor item_ nan_to_num".split()
)
BINARY = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "subtract": "-", "mul": "*", "mul_": "*",
    "multiply": "*", "div": "/", "div_": "/", "divide": "/", "true_divide": "/", "matmul": "@",
    "mm": "@", "pow": "**",
}  # fmt: skip
OVER_A_DIMENSION = frozenset(
    "max min amax amin argmax argmin median std var norm prod all any logsumexp softmax"
    " log_softmax cumsum cumprod topk sort argsort mode kthvalue unbind chunk split count_nonzero"
    " nanmean nansum mean sum average softmin normalize cosine_similarity argpartition".split()
)
SELF_COUPLING = frozenset("unique bincount histc cdist pdist corrcoef cov".split())
ROW_WISE_WITHOUT_DIMENSION = frozenset("softmax log_softmax softmin normalize split chunk".split())
_PAIRS = frozenset("max min median mode topk sort kthvalue".split())  # values and indices
TRANSPOSING = frozenset("t T transpose permute swapaxes movedim".split())
RESHAPING = frozenset("view reshape flatten ravel".split())


# ---------------------------------------------------------------------- simple questions
def fresh(whole: Value) -> Value:
    """The value under a linear operation: the same placement, as a new tensor."""
    atoms = [
        replace(a, births=frozenset())
        if isinstance(a, Data) and a.placement.partial and a.form != "number"
        else a
        for a in whole.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def without_counts(whole: Value) -> Value:
    """The value with each count taken for a size that follows from the others."""
    atoms = [
        Const(-1) if isinstance(a, Data) and a.placement is Placement.COUNT else a
        for a in whole.atoms
    ]
    return value(*atoms)


def picked(placement: Placement) -> Placement:
    """The placement of rows taken by position."""
    return Placement.ROWS if placement is Placement.SHARD else placement


def part(atom: Data, position: int) -> Value:
    """One element of an unpacked tensor, batch or shape."""
    if atom.form == "shape":
        return (
            value(replace(atom, placement=Placement.COUNT, form="number"))
            if (position == atom.dim)
            else REPLICATED
        )
    return value(replace(atom, form="tensor") if atom.form == "batch" else atom)


def attribute(atom: Data, name: str, *, called: bool) -> Value:
    """An attribute of a tensor, or of an unseen structure of tensors."""
    if name == "shape":
        return value(replace(atom, form="shape", births=frozenset()))
    if name in ("device", "dtype", "ndim", "requires_grad", "is_cuda", "layout"):
        return REPLICATED
    if name in ("T", "mT"):
        return value(replace(atom, dim=1 - atom.dim if atom.dim < 2 else atom.dim))
    if name in ("data", "real"):
        return value(replace(atom, births=frozenset()))
    return value(Method(value(atom), name) if called else replace(atom, births=frozenset()))


# ---------------------------------------------------------------------- items
def item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    """``tensor[...]``."""
    if atom.form == "shape":
        return _shape_item(run, node, atom)
    if atom.form == "batch" or _string_key(run, node):
        return _batch_item(run, node, atom)
    if atom.placement is not Placement.SHARD:
        return value(replace(atom, births=frozenset()))
    return value(_index(run, node, atom))


def _shape_item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    first = node.slice[0].slice
    if not isinstance(first, cst.Index):
        return value(atom)
    index = run.facts.values.get(first.value, UNKNOWN).constant()
    if index is ... or index == atom.dim:
        return value(
            replace(atom, placement=Placement.COUNT, form="number", births=frozenset({node}))
        )
    return REPLICATED


def _string_key(run: Interpreter, node: cst.Subscript) -> bool:
    """Whether the index is a name: then the whole is a dictionary of tensors."""
    first = node.slice[0].slice
    return isinstance(first, cst.Index) and isinstance(
        run.facts.values.get(first.value, UNKNOWN).constant(), str
    )


def _batch_item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    """An element of a batch by literal index; anything else indexes a tensor."""
    first = node.slice[0].slice
    if len(node.slice) == 1 and isinstance(first, cst.Index):
        if isinstance(run.facts.values.get(first.value, UNKNOWN).constant(), (int, str)):
            return value(replace(atom, form="tensor"))
        return value(_index(run, node, atom))
    return value(_index(run, node, atom))


def _index(run: Interpreter, node: cst.Subscript, atom: Data) -> Data:
    """Rows that are picked by position are no longer a shard; whole rows stay one."""
    dim = 0
    for element in node.slice:
        part_ = element.slice
        kind, index = _index_kind(run, part_)
        if kind == "ellipsis":
            return replace(atom, births=frozenset())
        if kind == "new":
            if dim <= atom.dim:
                atom = replace(atom, dim=atom.dim + 1)
            dim += 1
            continue
        if dim == atom.dim:
            return _index_rows(run, node, atom, part_, kind, index)
        dim += 1
    return replace(atom, births=frozenset(), form="tensor")


def _index_kind(run: Interpreter, part_: cst.BaseSlice) -> tuple[str, Value]:
    if isinstance(part_, cst.Slice):
        whole = part_.lower is None and part_.upper is None
        return ("whole" if whole and part_.step is None else "slice"), UNKNOWN
    assert isinstance(part_, cst.Index)
    if isinstance(part_.value, cst.Ellipsis):
        return "ellipsis", UNKNOWN
    index = run.facts.values.get(part_.value, UNKNOWN)
    if index.constant() is None:
        return "new", index
    return "index", index


def _index_rows(
    run: Interpreter, node: cst.Subscript, atom: Data, part_: cst.BaseSlice, kind: str, index: Value
) -> Data:
    if kind == "whole" or _counted_bounds(run, node):
        return replace(atom, births=frozenset(), form="tensor")
    if any(d.placement is Placement.SHARD for d in index.data):
        shuffled = any(d.form == "permutation" for d in index.data)
        return replace(atom, births=frozenset(), form="tensor" if shuffled else "masked")
    if atom.opaque or run.frames_forward():
        # An element of an unseen container; in a forward, which treats each sample alone, the
        # dimension that is indexed is not the batch.
        return replace(atom, births=frozenset())
    picked_from = frozenset({node.value})  # where the whole batch could be gathered
    return replace(atom.placed(Placement.ROWS), births=picked_from)


def replicated_item(run: Interpreter, node: cst.Subscript) -> Value:
    """An item of something replicated: sharded where the index is, as in ``weights[labels]``."""
    indices = [
        run.facts.values.get(e.slice.value, UNKNOWN)
        for e in node.slice
        if isinstance(e.slice, cst.Index)
    ]
    shards = [d for i in indices for d in i.data if d.placement is Placement.SHARD]
    shards += _counted_bounds(run, node)
    return value(shards[0].placed(Placement.SHARD)) if shards else REPLICATED


def _counted_bounds(run: Interpreter, node: cst.Subscript) -> list[Data]:
    """Bounds of slices that are the number of this rank's rows: ``x[:len(batch)]``."""
    bounds = [
        bound
        for element in node.slice
        if isinstance(element.slice, cst.Slice)
        for bound in (element.slice.lower, element.slice.upper)
        if bound is not None
    ]
    held = [d for bound in bounds for d in run.facts.values.get(bound, UNKNOWN).data]
    return [d for d in held if d.placement is Placement.COUNT]


# ---------------------------------------------------------------------- operators
def binary(
    run: Interpreter, node: cst.CSTNode, operator: str, left: Operand, right: Operand
) -> Value:
    """``left operator right``; an operand that cannot stay partial is demanded."""
    if not left[1].data and not right[1].data:
        return _plain(left[1], right[1])
    results: list[Value] = []
    for one in _parts(left[1]):
        for other in _parts(right[1]):
            results.append(_pair(run, operator, (left[0], one), (right[0], other)))
    return join(*results)


def _parts(whole: Value) -> list[Data | None]:
    """What ranks hold in part; else what has been reduced over them, if the value is such."""
    parts: list[Data | None] = [*whole.data]
    return parts or [next((a for a in whole.atoms if isinstance(a, Data)), None)]


def _plain(left: Value, right: Value) -> Value:
    """Arithmetic of replicated values; containers add up to one that holds both."""
    kept = [a for a in (*left.atoms, *right.atoms) if isinstance(a, (Instance, Tup, Data))]
    return join(value(*kept)) if kept else REPLICATED


def _pair(
    run: Interpreter,
    operator: str,
    left: tuple[cst.BaseExpression, Data | None],
    right: tuple[cst.BaseExpression, Data | None],
) -> Value:
    a = left[1].placement if left[1] else Placement.REPLICATE
    b = right[1].placement if right[1] else Placement.REPLICATE
    placement = _matmul(left[1], right[1]) if operator == "@" else combine(operator, a, b)
    if _half_reduced(left[1], right[1]):
        placement = None
    base = next(d for d in (left[1], right[1]) if d is not None and d.placement.local)
    if placement is Placement.SHARD and not run.frames_forward() and _crossed(left[1], right[1]):
        placement = Placement.COUPLED
    loaders = (left[1].loaders if left[1] else frozenset()) | (
        right[1].loaders if right[1] else frozenset()
    )
    if placement is not None:
        result = _result(base, placement, left[1], right[1])
        return value(replace(result, loaders=loaders))
    for expression, data in (left, right):
        if data is not None and data.placement.partial:
            run.demand(expression, value(data), "arithmetic that does not commute with a sum")
    kept = Placement.SHARD if Placement.SHARD in (a, b) else Placement.REPLICATE
    return value(replace(base.placed(kept), loaders=loaders))


def _crossed(left: Data | None, right: Data | None) -> bool:
    """Whether rows meet other rows: two shards with their batch along different dimensions."""
    if left is None or right is None or left.placement is not right.placement:
        return False
    return left.dim != right.dim and not (left.opaque or right.opaque)


def _result(base: Data, placement: Placement, left: Data | None, right: Data | None) -> Data:
    if placement in (Placement.COUNT, Placement.PER_COUNT):
        births = (left.births if left else frozenset()) | (right.births if right else frozenset())
        return replace(base, placement=placement, births=births, form="number")
    opaque = any(d.opaque for d in (left, right) if d is not None)
    forms = {d.form for d in (left, right) if d is not None}
    form = next((f for f in ("masked", "stacked") if f in forms), "tensor")
    dims = [d.dim for d in (left, right) if d is not None and d.placement is Placement.SHARD]
    return replace(base.placed(placement), opaque=opaque, form=form, dim=max(dims, default=0))


def _half_reduced(left: Data | None, right: Data | None) -> bool:
    """Whether a partial loss meets a reduced one: its gradient would be scaled a second time."""
    if left is None or right is None:
        return False
    placements = {left.placement, right.placement}
    return Placement.REPLICATE in placements and any(
        p in (Placement.MEAN, Placement.SUM, Placement.WEIGHTED) for p in placements
    )


def _matmul(left: Data | None, right: Data | None) -> Placement | None:
    """Rows times weights are rows; rows against rows couple the batch."""
    if left is None or right is None or not (left.placement.local and right.placement.local):
        return Placement.SHARD
    rows = left.dim == 0 and right.dim == 0
    return Placement.SHARD if rows else Placement.COUPLED


def compare(run: Interpreter, nodes: Sequence[cst.BaseExpression], values: list[Value]) -> Value:
    """A comparison: elementwise on rows, and a reading of anything partial."""
    if any(d.form == "shape" for one in values for d in one.data):
        return REPLICATED  # whether shapes are equal does not depend on the number of rows
    shards = []
    for node, one in zip(nodes, values, strict=True):
        for data in one.data:
            if data.placement.partial:
                run.demand(node, value(data), "a comparison")
            else:
                shards.append(data)
    if not shards:
        return REPLICATED
    if len(shards) == 2 and not run.frames_forward() and _crossed(*shards):
        return value(shards[0].placed(Placement.COUPLED))
    rows = [d for d in shards if d.placement is Placement.ROWS]
    first = (rows or shards)[0]
    return value(replace(first, births=first.births if rows else frozenset()))


# ---------------------------------------------------------------------- functions
def function(
    run: Interpreter,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    kwargs: Mapping[str, Value],
    rest: Sequence[Value] = (),
) -> Value:
    """A tensor function or method by its last name; ``rest`` are the arguments after the tensor."""
    if name in BINARY and len(operands) > 1:
        return binary(run, node, BINARY[name], operands[0], operands[1])
    if name in ("eq", "ne", "gt", "lt", "ge", "le", "equal"):
        return compare(run, [n for n, _ in operands], [v for _, v in operands])
    data = [(n, d) for n, v in operands for d in v.data]
    if not data:
        reduced = [a for _, v in operands for a in v.atoms if isinstance(a, Data)]
        return value(reduced[0]) if reduced and name != "detach" else REPLICATED
    results = [_one(run, node, name, n, d, rest, kwargs) for n, d in data]
    followed = [r for r in results if any(isinstance(a, (Data, Tup)) for a in r.atoms)]
    return join(*followed) if followed else REPLICATED


def _one(
    run: Interpreter,
    node: cst.BaseExpression,
    name: str,
    operand: cst.BaseExpression,
    data: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    if data.placement.partial:
        return _on_partial(run, name, operand, data)
    if data.placement is Placement.ROWS:
        return value(data)
    if name in TRANSPOSING:
        return value(replace(data, dim=_moved(name, data.dim, rest), births=frozenset()))
    if name == "unsqueeze" and rest:
        place = rest[0].constant()
        shifted = isinstance(place, int) and 0 <= place <= data.dim
        return value(replace(data, dim=data.dim + shifted, births=frozenset()))
    if name in RESHAPING:
        return _reshaped(run, data, rest)
    if name in OVER_A_DIMENSION:
        return _over(run, name, data, rest, kwargs)
    if name == "grad":  # torch.autograd.grad: one gradient for each input
        return value(replace(data, births=frozenset(), form="batch"))
    if name in SELF_COUPLING:
        return value(data.placed(_coupled(run)))
    return value(replace(data, births=frozenset(), form=_kept_form(data)))


def _kept_form(data: Data) -> str:
    return data.form if data.form in ("batch", "masked", "permutation", "stacked") else "tensor"


def _on_partial(run: Interpreter, name: str, operand: cst.BaseExpression, data: Data) -> Value:
    if data.placement is Placement.COUNT:
        run.demand(operand, value(data), f"{name}()")
        return REPLICATED
    if name in LINEAR:
        return value(replace(data, births=frozenset()))
    run.demand(operand, value(data), f"{name}(), which does not commute with a sum")
    return value(data.placed(Placement.REPLICATE))


def _dimension(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> object:
    given = kwargs.get("dim") or kwargs.get("axis")
    if given is None and rest:
        given = rest[0]
    if given is None:
        return None
    constant = given.constant()
    return given if constant is ... else constant


def _over(
    run: Interpreter, name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A function along one dimension, or over all elements where none is named."""
    if name in ("topk", "split", "chunk", "norm", "kthvalue"):  # their first argument is a size
        rest = rest[1:]
    dim = _dimension(rest, kwargs)
    if name in ROW_WISE_WITHOUT_DIMENSION or (name in ("topk", "sort", "argsort") and dim is None):
        dim = dim if isinstance(dim, int) else -1
    along_rows = dim is None or dim == data.dim
    if isinstance(dim, Value):
        held = [i.constant() for a in dim.of(Tup) for i in a.items]  # type: ignore[union-attr]
        along_rows = data.dim in held
    if rest and rest[0].data:  # torch.max(a, b): elementwise
        along_rows = False
    if not along_rows:
        kept = replace(data, births=frozenset(), form=_kept_form(data))
        if name in ("split", "chunk", "unbind"):
            kept = replace(kept, form="batch")
        pair = name in _PAIRS and not (rest and rest[0].data)
        return value(Tup((value(kept), value(kept)))) if pair else value(kept)
    if name in ("mean", "average", "nanmean"):
        masked = data.form == "masked"
        return value(data.placed(Placement.WEIGHTED if masked else Placement.MEAN))
    if name in ("sum", "nansum", "count_nonzero"):
        return value(data.placed(Placement.SUM))
    return value(data.placed(_coupled(run)))


def _coupled(run: Interpreter) -> Placement:
    """What mixes rows; a model's forward treats each sample alone, as far as is known."""
    return Placement.SHARD if run.frames_forward() else Placement.COUPLED


def _moved(name: str, dim: int, rest: Sequence[Value]) -> int:
    """Where a transposition puts the batch dimension."""
    if name in ("t", "T"):
        return 1 - dim if dim < 2 else dim
    order = [r.constant() for r in rest]
    if name == "permute":
        return order.index(dim) if dim in order else dim
    if dim in order and len(order) >= 2:
        other = order[1] if order[0] == dim else order[0]
        return other if isinstance(other, int) and other >= 0 else dim
    return dim


def _reshaped(run: Interpreter, data: Data, rest: Sequence[Value]) -> Value:
    """A view keeps rows as rows, unless its first size is a number of its own."""
    first = rest[0] if rest else UNKNOWN
    constant = first.constant()
    own = constant is not ... and isinstance(constant, int) and constant > 1
    plain = any(isinstance(a, Number) for a in first.atoms) and not first.data
    if data.dim == 0 and (own or plain) and len(rest) > 1:
        return value(data.placed(Placement.ROWS))
    dim = 1 if constant == 1 and len(rest) > 1 else 0
    return value(replace(data, dim=dim, births=frozenset(), form=_kept_form(data)))


def size(data: Data, node: cst.BaseExpression, rest: Sequence[Value]) -> Value:
    """``tensor.size(...)`` and ``len(tensor)``."""
    if data.placement.partial:
        return REPLICATED
    if data.form == "masked":
        return value(data.placed(Placement.SUM))
    dim = rest[0].constant() if rest else ...
    if not rest:
        return value(replace(data, form="shape", births=frozenset()))
    if dim is ... or dim == data.dim:
        return count(data, node)
    return REPLICATED


def count(data: Data, node: cst.BaseExpression) -> Value:
    """The number of this rank's rows, born at the expression that asks for it."""
    if data.placement.partial:
        return REPLICATED
    if data.form == "masked":
        return value(data.placed(Placement.SUM))
    return value(
        replace(data, placement=Placement.COUNT, form="number", births=frozenset({node}), dim=0)
    )
