"""Arithmetic on placements: what tensor operations make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import batch_rows, batches, collating, dimensions, sequences
from ddpify.understanding.facts import Regrouped
from ddpify.understanding.placement import Placement, combine
from ddpify.understanding.syntax import code_of
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
_OVER_THE_LAST = frozenset("topk sort argsort".split())  # unless they are told otherwise
_KEEPING_DIMENSIONS = frozenset(
    "softmax log_softmax softmin cumsum cumprod topk sort argsort argpartition split chunk"
    " normalize".split()
)
_PAIRS = frozenset("max min median mode topk sort kthvalue".split())  # values and indices
TRANSPOSING = frozenset("t T transpose permute swapaxes movedim".split())
REORDERING = frozenset("flip roll".split())
RESHAPING = frozenset("view reshape flatten ravel".split())


# ---------------------------------------------------------------------- simple questions
def fresh(whole: Value) -> Value:
    """The value under a linear operation: the same placement, as a new tensor.

    What has a denominator of its own is still reduced where the code for that is valid.
    """
    atoms = [
        replace(a, births=frozenset())
        if isinstance(a, Data) and a.placement.partial and a.form != "number" and not a.counted
        else a
        for a in whole.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def without_counts(whole: Value) -> Value:
    """The value with each count taken for a size that follows from the others.

    Where it may be a count or a plain number, the tensor whose size it is may be sharded or not,
    and it is the count for the sharded one.
    """
    counts = [d for d in whole.data if d.placement is Placement.COUNT]
    if not counts:
        return whole
    others = [a for a in whole.atoms if a not in counts and not isinstance(a, Number)]
    return value(Const(-1), *others)


def picked(placement: Placement) -> Placement:
    """The placement of rows taken by position."""
    return Placement.ROWS if placement is Placement.SHARD else placement


def part(atom: Data, position: int) -> Value:
    """One element of an unpacked tensor, batch or shape."""
    if atom.form == "packed":
        return value(sequences.elements(atom) if position == 0 else atom)
    if atom.form == "shape":
        return (
            value(replace(atom, placement=Placement.COUNT, form="number"))
            if (position == atom.dim)
            else REPLICATED
        )
    return value(
        replace(atom, form="tensor", ndim=0) if atom.form == "batch" else replace(atom, ndim=0)
    )


def attribute(atom: Data, name: str, *, called: bool) -> Value:
    """An attribute of a tensor, or of an unseen structure of tensors."""
    if name == "shape" and not atom.placement.local:
        return REPLICATED
    if name == "shape":
        return _whole_size(atom) or value(replace(atom, form="shape", births=frozenset()))
    if name == "ndim" and atom.ndim:
        return value(Const(atom.ndim))
    if name in ("device", "dtype", "ndim", "requires_grad", "is_cuda", "layout"):
        return REPLICATED
    if atom.form == "packed" and name == "data":
        return value(sequences.elements(atom))
    if name in ("T", "mT"):
        return value(replace(atom, dim=1 - atom.dim if atom.dim < 2 else atom.dim))
    if name in ("data", "real"):
        return value(replace(atom, births=_births(atom)))
    if called:
        return value(Method(value(atom), name))
    if name == "size":  # a NumPy array's number of elements
        return value(atom.placed(Placement.SUM))
    return value(replace(atom, births=frozenset(), ndim=0))


# ---------------------------------------------------------------------- items
def item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    """``tensor[...]``."""
    if atom.form == "shape":
        return _shape_item(run, node, atom)
    if atom.form == "packed":
        return value(sequences.elements(atom))
    if atom.form == "samples" or atom.dim == collating.NO_ROWS:
        return value(collating.sample(atom))
    if atom.form == "batch" or _string_key(run, node):
        return _batch_item(run, node, atom)
    if atom.placement is not Placement.SHARD:
        indices = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        beside_whole(run, [(node.value, atom), *_held([(i, run.seen(i)) for i in indices])])
        return value(replace(atom, births=_births(atom), ndim=0))
    return value(_index(run, node, atom))


def _shape_item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return _shape_slice(run, first, atom)
    assert isinstance(first, cst.Index)
    index = run.seen(first.value).constant()
    if index is ... or index == atom.dim:
        return value(
            replace(atom, placement=Placement.COUNT, form="number", births=frozenset({node}))
        )
    return REPLICATED


def _shape_slice(run: Interpreter, bounds: cst.Slice, atom: Data) -> Value:
    """Some of the sizes: those behind the number of rows are the same on all ranks."""
    lower = run.seen(bounds.lower).constant() if bounds.lower is not None else 0
    upper = run.seen(bounds.upper).constant() if bounds.upper is not None else None
    if isinstance(lower, int) and 0 <= lower <= atom.dim:
        before = isinstance(upper, int) and 0 <= upper <= atom.dim
        return REPLICATED if before else value(replace(atom, dim=atom.dim - lower))
    behind = isinstance(lower, int) and (lower > atom.dim or lower in (-1, -2))
    return REPLICATED if behind else value(atom)


def _string_key(run: Interpreter, node: cst.Subscript) -> bool:
    """Whether the index is a name: then the whole is a dictionary of tensors."""
    first = node.slice[0].slice
    return isinstance(first, cst.Index) and isinstance(run.seen(first.value).constant(), str)


def _batch_item(run: Interpreter, node: cst.Subscript, atom: Data) -> Value:
    """An element of a batch by literal index; anything else indexes a tensor."""
    first = node.slice[0].slice
    if len(node.slice) == 1 and isinstance(first, cst.Index):
        if isinstance(run.seen(first.value).constant(), (int, str)):
            return value(replace(atom, form="tensor"))
        return value(_index(run, node, atom))
    return value(_index(run, node, atom))


def _index(run: Interpreter, node: cst.Subscript, atom: Data) -> Data:
    """Rows that are picked by position are no longer a shard; whole rows stay one."""
    dim = 0
    atom = replace(atom, ndim=0)
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
        if kind == "index" and isinstance(index.constant(), int):
            atom = replace(atom, dim=atom.dim - 1)  # that dimension is gone
        else:
            dim += 1
    return replace(atom, births=frozenset(), form="tensor")


def _index_kind(run: Interpreter, part_: cst.BaseSlice) -> tuple[str, Value]:
    if isinstance(part_, cst.Slice):
        whole = part_.lower is None and part_.upper is None
        return ("whole" if whole and part_.step is None else "slice"), UNKNOWN
    assert isinstance(part_, cst.Index)
    if isinstance(part_.value, cst.Ellipsis):
        return "ellipsis", UNKNOWN
    index = run.seen(part_.value)
    if index.constant() is None:
        return "new", index
    return "index", index


def _index_rows(
    run: Interpreter, node: cst.Subscript, atom: Data, part_: cst.BaseSlice, kind: str, index: Value
) -> Data:
    if kind == "whole" or _counted_bounds(run, node):
        return replace(atom, births=frozenset(), form="tensor")
    if any(isinstance(a, Data) and a.form == "permutation" for a in index.atoms):
        return _regrouped(run, node, node.value, atom)
    for mixed in (d for d in index.data if d.placement is Placement.COUPLED):
        assert isinstance(part_, cst.Index)
        run.demand(part_.value, value(mixed), "an index")
    if any(d.placement is Placement.SHARD for d in index.data):
        each = any(d.form == "range" for d in index.data)
        return replace(atom, births=frozenset(), form="tensor" if each else "masked")
    if atom.opaque or run.frames_forward():
        # An element of an unseen container; in a forward, which treats each sample alone, the
        # dimension that is indexed is not the batch.
        return replace(atom, births=frozenset())
    picked_from = frozenset({node.value})  # where the whole batch could be gathered
    for one in index.atoms:
        if isinstance(one, Data) and one.form == "position":
            run.facts.positions.setdefault(node.value, set()).update(one.births)
    return replace(atom.placed(Placement.ROWS), births=picked_from)


def _regrouped(
    run: Interpreter, node: cst.BaseExpression, rows: cst.BaseExpression, atom: Data
) -> Data:
    """Rows of the batch in another order: this rank's, once the whole batch is put in order."""
    if run.frames_forward() or not run.module.editable or atom.form == "permutation":
        return atom.placed(Placement.COUPLED)
    run.facts.regrouped.setdefault(node, Regrouped(run.site(node), rows))
    return atom.placed(Placement.SHARD)


def replicated_item(run: Interpreter, node: cst.Subscript) -> Value:
    """An item of something replicated: sharded where the index is, as in ``weights[labels]``."""
    indices = [run.seen(e.slice.value) for e in node.slice if isinstance(e.slice, cst.Index)]
    shards = [d for i in indices for d in i.data if d.placement is Placement.SHARD]
    shards += _counted_bounds(run, node)
    if shards:
        return value(shards[0].placed(Placement.SHARD))
    return batches.sliced(run, node) or REPLICATED


def _counted_bounds(run: Interpreter, node: cst.Subscript) -> list[Data]:
    """Bounds of slices that are the number of this rank's rows: ``x[:len(batch)]``."""
    bounds = [
        bound
        for element in node.slice
        if isinstance(element.slice, cst.Slice)
        for bound in (element.slice.lower, element.slice.upper)
        if bound is not None
    ]
    held = [d for bound in bounds for d in run.seen(bound).data]
    return [d for d in held if d.placement is Placement.COUNT]


# ---------------------------------------------------------------------- operators
def binary(
    run: Interpreter, node: cst.CSTNode, operator: str, left: Operand, right: Operand
) -> Value:
    """``left operator right``; an operand that cannot stay partial is demanded."""
    batches.meet(run, [left, right])
    if not left[1].data and not right[1].data:
        if operator == "@" and (batches.wholes(left[1]) or batches.wholes(right[1])):
            return batch_rows.product(run, [left, right])
        return batch_rows.joined([left, right]) or _plain(operator, left[1], right[1])
    results: list[Value] = []
    for one in _parts(left[1]):
        for other in _parts(right[1]):
            pair = _pair(run, operator, (left[0], one), (right[0], other))
            plain = [v for v, d in ((left[1], one), (right[1], other)) if d is None]
            ndim = 0 if operator == "@" else dimensions.of_pair(one, other, plain)
            results.append(_with_ndim(pair, ndim))
    return join(*results)


def _with_ndim(result: Value, ndim: int) -> Value:
    """Its rows and values that mix them, known to have this many dimensions."""
    atoms = [
        replace(a, ndim=ndim) if isinstance(a, Data) and not a.placement.partial else a
        for a in result.atoms
    ]
    return value(*atoms)


def _parts(whole: Value) -> list[Data | None]:
    """What ranks hold in part; else what has been reduced over them, if the value is such."""
    parts: list[Data | None] = [*whole.data]
    return parts or [next((a for a in whole.atoms if isinstance(a, Data)), None)]


def _plain(operator: str, left: Value, right: Value) -> Value:
    """Arithmetic of replicated values; containers add up to one that holds both."""
    tuples = [list(one.of(Tup)) for one in (left, right)]
    if operator == "+" and all(tuples):
        pairs = [(a, b) for a in tuples[0] for b in tuples[1]]
        return value(*(Tup(a.items + b.items) for a, b in pairs))  # type: ignore[union-attr]
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
    if any(d is not None and d.form == "permutation" for d in (left[1], right[1])):
        placement = Placement.COUPLED
    if placement is Placement.SHARD and not run.frames_forward() and _crossed(left[1], right[1]):
        placement = Placement.COUPLED
    loaders = (left[1].loaders if left[1] else frozenset()) | (
        right[1].loaders if right[1] else frozenset()
    )
    if beside_whole(run, [left, right]):
        return value(replace(base.placed(Placement.REPLICATE), loaders=loaders, form="gathered"))
    if placement is Placement.PER_COUNT and b is Placement.COUNT and right[1] is not None:
        run.facts.divisors.setdefault(right[0], set()).update(right[1].loaders)
    if placement is not None:
        names = frozenset(n for e, d in (left, right) if d is not None for n in (d.names or {e}))
        result = replace(_result(base, placement, left[1], right[1]), names=names)
        if placement is Placement.ROWS:
            result = replace(result, births=_births(left[1]) | _births(right[1]))
        return value(replace(result, loaders=loaders))
    for expression, data in (left, right):
        if data is not None and data.placement.partial:
            run.demand(expression, value(data), "arithmetic that does not commute with a sum")
    kept = Placement.SHARD if Placement.SHARD in (a, b) else Placement.REPLICATE
    return value(replace(base.placed(kept), loaders=loaders))


def _births(data: Data | None) -> frozenset[cst.BaseExpression]:
    picked_ = data is not None and data.placement is Placement.ROWS
    return data.births if data is not None and picked_ else frozenset()


def beside_whole(
    run: Interpreter, operands: Sequence[tuple[cst.BaseExpression, Data | None]]
) -> bool:
    """Whether this rank's rows meet the whole batch's: then they must be gathered as well."""
    if not any(d is not None and d.form == "gathered" for _, d in operands):
        return False
    rows = [(n, d) for n, d in operands if d is not None and d.placement is Placement.SHARD]
    for expression, data in rows:
        run.demand(expression, value(data), "a computation on the whole batch")
    return bool(rows)


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
    form = next((f for f in ("masked", "stacked", "interleaved") if f in forms), "tensor")
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
    with_zero = any(one.constant() == 0 for one in values)
    for node, one in zip(nodes, values, strict=True):
        for data in one.data:
            if with_zero and data.placement is Placement.COUNT:
                run.facts.shape_uses.update(data.births)  # no rank is without a row
            elif data.placement.partial:
                run.demand(node, value(data), "a comparison")
            else:
                shards.append(data)
    batches.meet(run, list(zip(nodes, values, strict=True)))
    if not shards:
        return batch_rows.joined(zip(nodes, values, strict=True)) or REPLICATED
    if beside_whole(run, _held(list(zip(nodes, values, strict=True)))):
        return value(replace(shards[0].placed(Placement.REPLICATE), form="gathered"))
    if len(shards) == 2 and not run.frames_forward() and _crossed(*shards):
        named = zip(nodes, values, strict=True)
        names = frozenset(n for e, v in named for d in v.data for n in (d.names or {e}))
        return value(replace(shards[0].placed(Placement.COUPLED), names=names))
    rows = [d for d in shards if d.placement is Placement.ROWS]
    first = (rows or shards)[0]
    kept = first.births if rows else frozenset()
    plain = [one for one in values if not one.data]
    other = shards[1] if len(shards) > 1 else None
    ndim = dimensions.of_pair(shards[0], other, plain)
    return value(replace(first, births=kept, ndim=ndim))


# ---------------------------------------------------------------------- functions
# Questions about what a tensor is, not about its values.
_OF_THE_KIND = frozenset({"is_tensor", "is_floating_point", "is_complex", "is_storage"})


def function(
    run: Interpreter,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    kwargs: Mapping[str, Value],
    rest: Sequence[Value] = (),
) -> Value:
    """A tensor function or method by its last name; ``rest`` are the arguments after the tensor."""
    if name in _OF_THE_KIND:
        return REPLICATED
    if name in ("to", "type_as"):  # of another tensor they take its kind alone
        operands = operands[:1]
    batches.meet(run, operands)
    if name in BINARY and len(operands) > 1:
        return binary(run, node, BINARY[name], operands[0], operands[1])
    if name in ("eq", "ne", "gt", "lt", "ge", "le", "equal"):
        return compare(run, [n for n, _ in operands], [v for _, v in operands])
    data = [(n, d) for n, v in operands for d in v.data]
    if not data:
        return _on_whole(name, operands, rest, kwargs)
    if beside_whole(run, _held(operands)):
        return value(replace(data[0][1].placed(Placement.REPLICATE), form="gathered"))
    results = []
    for operand, one in data:
        made = _named_by(operand, _one(run, node, name, operand, one, rest, kwargs))
        if one.placement is Placement.SHARD:
            made = _counted_by(node, operand, made)
        results.append(_with_ndim(made, dimensions.after(name, one.ndim, rest)))
    followed = [r for r in results if any(isinstance(a, (Data, Tup)) for a in r.atoms)]
    return join(*followed) if followed else REPLICATED


def _named_by(operand: cst.BaseExpression, result: Value) -> Value:
    """What couples rows without a name can be mended by gathering the operand."""
    atoms = [
        replace(a, names=frozenset({operand}))
        if isinstance(a, Data) and a.placement is Placement.COUPLED and not a.names
        else a
        for a in result.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def _counted_by(node: cst.BaseExpression, operand: cst.BaseExpression, result: Value) -> Value:
    """A mean over the rows that a mask leaves is weighted by their number, where it is taken."""
    code = (f"len({code_of(operand)})",)
    atoms = [
        replace(a, counted=code, births=frozenset({node}))
        if isinstance(a, Data) and a.placement is Placement.WEIGHTED and not a.counted
        else a
        for a in result.atoms
    ]
    return value(*atoms) if atoms else result


def _held(operands: Sequence[Operand]) -> list[tuple[cst.BaseExpression, Data | None]]:
    return [(node, atom) for node, held in operands for atom in held.of(Data)]  # type: ignore[misc]


def _on_whole(
    name: str, operands: list[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """The same for what is whole already: rows stay rows, unless the function adds them up."""
    reduced = [a for _, v in operands for a in v.atoms if isinstance(a, Data)]
    if not reduced or name == "detach":
        return REPLICATED
    over_rows = name in OVER_A_DIMENSION and _over_rows(reduced[0].dim, rest, kwargs)
    if name == "argsort" and over_rows:
        return value(replace(reduced[0].placed(Placement.REPLICATE), form="permutation"))
    return value(reduced[0].placed(Placement.REPLICATE) if over_rows else reduced[0])


def _over_rows(dim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function goes along the dimension of the rows, or along all."""
    given = kwargs.get("dim") or kwargs.get("axis") or (rest[0] if rest else None)
    return given is None or given.constant() == dim


def on_batches(
    run: Interpreter,
    name: str,
    operands: list[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    """The same where nothing is split yet, and some of it may be a batch made by hand."""
    results = [
        batch_rows.function(run, name, atom, rest, kwargs)
        for atom in next(batches.wholes(held) for _, held in operands if batches.wholes(held))
    ]
    return join(REPLICATED, *results)


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
        scalar = name in ("mean", "sum") and not rest and not kwargs
        mixed = replace(data.placed(Placement.COUPLED), births=data.births)
        return value(mixed if scalar else data)
    if name in TRANSPOSING:
        return value(replace(data, dim=transposed(name, data.dim, rest), births=frozenset()))
    if name == "unsqueeze" and rest:
        place = rest[0].constant()
        shifted = isinstance(place, int) and 0 <= place <= data.dim
        return value(replace(data, dim=data.dim + shifted, births=frozenset()))
    if name == "squeeze" and (rest or "dim" in kwargs):
        place = (rest[0] if rest else kwargs["dim"]).constant()
        gone = isinstance(place, int) and 0 <= place < data.dim
        return value(replace(data, dim=data.dim - gone, births=frozenset()))
    if name in RESHAPING:
        return _reshaped(run, data, rest)
    if name in OVER_A_DIMENSION:
        return _over(run, name, data, rest, kwargs)
    if name == "grad":  # torch.autograd.grad: one gradient for each input
        return value(replace(data, births=frozenset(), form="batch"))
    if name in REORDERING and _moves_rows(name, data, rest, kwargs):
        return value(_regrouped(run, node, operand, data))
    if name in SELF_COUPLING or (data.form == "permutation" and name not in LINEAR):
        return value(data.placed(_coupled(run)))
    return value(replace(data, births=frozenset(), form=_kept_form(data)))


def _moves_rows(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``flip`` or ``roll`` moves rows of the batch among themselves."""
    given = [kwargs["dims"]] if "dims" in kwargs else rest[name == "roll" :]
    dims = [dim for one in given for dims in _dimensions((one,), {}) for dim in dims]
    return not dims or data.dim in [dimensions.place(dim, data.ndim) for dim in dims]


def _kept_form(data: Data) -> str:
    kept = ("batch", "masked", "permutation", "stacked", "range", "interleaved")
    return data.form if data.form in kept else "tensor"


def _on_partial(run: Interpreter, name: str, operand: cst.BaseExpression, data: Data) -> Value:
    if data.placement is Placement.COUNT:
        run.demand(operand, value(data), f"{name}()")
        return REPLICATED
    if name in LINEAR:
        return fresh(value(data))
    run.demand(operand, value(data), f"{name}(), which does not commute with a sum")
    return value(data.placed(Placement.REPLICATE))


def _dimensions(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> list[tuple[object, ...]]:
    """The dimensions that ``dim`` may name; an empty tuple stands for all of them."""
    given = kwargs.get("dim") or kwargs.get("axis")
    if given is None and rest:
        given = rest[0]
    if given is None:
        return [()]
    found: list[tuple[object, ...]] = []
    for atom in given.atoms:
        items: Sequence[Value] = (value(atom),)
        if isinstance(atom, Tup):
            items = atom.items
        elif isinstance(atom, Instance) and atom.type == "list":
            items = list(atom.attributes.values())
        elif isinstance(atom, Const) and atom.value is None:
            items = ()
        found.append(tuple(item.constant() for item in items))
    return found or [(...,)]


def _over(
    run: Interpreter, name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A function along one dimension, or over all elements where none is named."""
    if name in ("topk", "split", "chunk", "norm", "kthvalue"):  # their first argument is a size
        rest = rest[1:]
    if rest and rest[0].data:  # torch.max(a, b): elementwise
        return _within_rows(name, data, pair=False)
    results = []
    for dims in _dimensions(rest, kwargs):
        if not dims and (name in ROW_WISE_WITHOUT_DIMENSION or name in _OVER_THE_LAST):
            dims = (-1,)
        places = [dimensions.place(dim, data.ndim) for dim in dims]
        if dimensions.undecided(places) and not run.frames_forward():
            results.append(value(data.placed(Placement.COUPLED)))
        elif dims and data.dim not in places:
            kept = name in _KEEPING_DIMENSIONS or _keeps_dimensions(kwargs)
            gone = 0 if kept else sum(isinstance(p, int) and 0 <= p < data.dim for p in places)
            within = replace(data, dim=data.dim - gone)
            results.append(_within_rows(name, within, pair=name in _PAIRS))
        else:
            results.append(_along_rows(run, name, data))
    return join(*results)


def _keeps_dimensions(kwargs: Mapping[str, Value]) -> bool:
    given = kwargs.get("keepdim") or kwargs.get("keepdims")
    return given is not None and given.constant() is not False


def _within_rows(name: str, data: Data, *, pair: bool) -> Value:
    """What a function of each row's own elements gives; with ``pair``, values and indices."""
    kept = replace(data, births=frozenset(), form=_kept_form(data))
    if name in ("split", "chunk", "unbind"):
        kept = replace(kept, form="batch")
    return value(Tup((value(kept), value(kept)))) if pair else value(kept)


def _along_rows(run: Interpreter, name: str, data: Data) -> Value:
    """What a function over the batch dimension gives."""
    if name in ("mean", "average", "nanmean"):
        masked = data.form == "masked"
        return value(data.placed(Placement.WEIGHTED if masked else Placement.MEAN))
    if name in ("sum", "nansum", "count_nonzero"):
        return value(data.placed(Placement.SUM))
    return value(data.placed(_coupled(run)))


def _coupled(run: Interpreter) -> Placement:
    """What mixes rows; a model's forward treats each sample alone, as far as is known."""
    return Placement.SHARD if run.frames_forward() else Placement.COUPLED


def transposed(name: str, dim: int, rest: Sequence[Value]) -> int:
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
    crossed = data.dim > 0 and constant == -1 and not run.frames_forward()
    form = "interleaved" if crossed else _kept_form(data)
    return value(replace(data, dim=dim, births=frozenset(), form=form))


def size(data: Data, node: cst.BaseExpression, rest: Sequence[Value]) -> Value:
    """``tensor.size(...)`` and ``len(tensor)``."""
    known = _whole_size(data)
    if known is not None:
        return known
    if data.form == "masked":
        return value(data.placed(Placement.SUM))
    dim = rest[0].constant() if rest else ...
    if not rest:
        return value(replace(data, form="shape", births=frozenset()))
    if dim is ... or dim == data.dim:
        return count(data, node)
    return REPLICATED


def _whole_size(data: Data) -> Value | None:
    """The size of what is no shard: the same on all ranks, unless rows were picked by position."""
    if data.placement is Placement.ROWS and data.births:
        return value(replace(data, form="number"))
    return None if data.placement is Placement.SHARD else REPLICATED


def count(data: Data, node: cst.BaseExpression) -> Value:
    """The number of this rank's rows, born at the expression that asks for it."""
    known = _whole_size(data)
    if known is not None:
        return known
    if data.form == "masked":
        return value(data.placed(Placement.SUM))
    return value(
        replace(data, placement=Placement.COUNT, form="number", births=frozenset({node}), dim=0)
    )
