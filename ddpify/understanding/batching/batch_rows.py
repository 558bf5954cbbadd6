"""What becomes of a batch that a script makes by hand: where each operation leaves its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching.handmade_batches import (
    DIMENSIONS,
    Operand,
    are_of_one_sample,
    possible_batch,
    replicated_tensors,
    single_sample,
)
from ddpify.understanding.shapes import bounds, dimensions, transpositions
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Method,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ALONG = frozenset(
    "mean sum max min argmax argmin softmax log_softmax cumsum cumprod logcumsumexp std var norm"
    " prod cat stack sort topk logsumexp".split()
)
_KEEPING = frozenset("cumsum cumprod logcumsumexp sort".split())
_PAIRS = frozenset("max min sort topk".split())  # values and their positions
_RESHAPING = frozenset("view reshape flatten ravel".split())
_FACTS = frozenset("shape device dtype ndim requires_grad is_cuda layout size".split())
_NUMBERS = frozenset("size item tolist dim numel nelement ndimension backward __len__".split())
_OF_A_MATRIX = 2  # dimensions
PRODUCTS = frozenset("mm spmm addmm mv matmul".split())


def attribute(run: RunState, atom: ReplicatedTensor, name: str, *, called: bool) -> Value:
    """An attribute of a tensor that may be a batch."""
    if called:
        return value(Method(value(atom), name))
    if name in ("T", "mT"):
        return value(moved(atom, 1 - atom.dim if atom.dim < 2 else atom.dim))
    if name in ("data", "real", "grad"):
        return value(atom)
    if name in _FACTS:
        return REPLICATED
    refute(run, atom)  # an object that holds tensors cannot be split as one
    return possible_batch()


def item(run: RunState, node: cst.Subscript, atom: ReplicatedTensor) -> Value:
    """``tensor[...]``: part of the rows is another batch, part of the rest the same one."""
    taken = _item(run, node, atom)
    kept = [part for part in node.slice if _leaves_a_dimension(run, part.slice)]
    if len(kept) <= _OF_A_MATRIX:
        return taken
    return value(
        *(replace(a, stacked=True) if isinstance(a, ReplicatedTensor) else a for a in taken.atoms)
    )


def _leaves_a_dimension(run: RunState, part: cst.BaseSlice) -> bool:
    """``:`` and ``None``: what is taken with three of them has more dimensions than a matrix."""
    return isinstance(part, cst.Slice) or (
        isinstance(part, cst.Index) and run.seen(part.value).constant() is None
    )


def _item(run: RunState, node: cst.Subscript, atom: ReplicatedTensor) -> Value:
    dim, place = atom.dim, 0
    last = atom.last and len(node.slice) == 1
    note_indices(run, node)
    if isinstance(_first_index(run, node).constant(), str):
        refute(run, atom)  # a file or a table that holds arrays cannot be split as one
        return possible_batch()
    for element in node.slice:
        part = element.slice
        index = run.seen(part.value) if isinstance(part, cst.Index) else None
        if isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis):
            break
        if index is not None and index.constant() is None:
            dim, place = dim + (place <= dim), place + 1
            continue
        if place == dim:
            return _rows(run, replace(atom, last=last), dim, part, index)
        if index is not None and not replicated_tensors(index) and not _listed(part):
            dim -= 1
        else:
            place += 1
    return value(replace(moved(atom, dim), last=last))


def note_indices(run: RunState, node: cst.Subscript) -> None:
    """Note what picks along dimensions that are no batch's, as nodes of a graph: it has no rows."""
    for place, element in enumerate(node.slice if not run.frames_forward() else ()):
        part = element.slice
        if isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis):
            break
        index = run.seen(part.value) if isinstance(part, cst.Index) else UNKNOWN
        if place > max(DIMENSIONS):
            run.facts.by_hand.without_rows.update(
                definition_site
                for atom in replicated_tensors(index)
                for definition_site in atom.definition_sites
            )


def _first_index(run: RunState, node: cst.Subscript) -> Value:
    first = node.slice[0].slice
    return run.seen(first.value) if isinstance(first, cst.Index) else UNKNOWN


def _rows(
    run: RunState, atom: ReplicatedTensor, dim: int, part: cst.BaseSlice, index: Value | None
) -> Value:
    if isinstance(part, cst.Slice) and part.lower is part.upper is part.step is None:
        return value(moved(atom, dim))
    if _takes_one(part) or (index is not None and are_of_one_sample(index)):
        return single_sample(dim)
    kept = ReplicatedTensor(dim, dim, last=atom.last and isinstance(part, cst.Slice))
    if index is not None and replicated_tensors(index) and not _is_made_of(index, atom):
        refute(run, atom)  # a table that the batch picks from
    several = index is None or _listed(part) or bool(replicated_tensors(index))
    if several or any(isinstance(a, Data) for a in index.atoms):  # type: ignore[union-attr]
        return value(kept)
    refute(run, atom)
    return REPLICATED


def _is_made_of(index: Value, atom: ReplicatedTensor) -> bool:
    """Whether an index comes of the same rows, as a mask of ``rows[ids.view(-1) == 0]`` does."""
    return any(
        other.dim == atom.dim and other.definition_sites & atom.definition_sites
        for other in replicated_tensors(index)
    )


def _listed(part: cst.BaseSlice) -> bool:
    """Whether an index is written as a list, of one element for each that it takes."""
    return isinstance(part, cst.Index) and isinstance(part.value, cst.List)


def _takes_one(part: cst.BaseSlice) -> bool:
    """Whether ``[[i]]``, ``[i : i + 1]`` or ``[:1]`` takes a single row as a batch of one."""
    if isinstance(part, cst.Index):
        return isinstance(part.value, cst.List) and len(part.value.elements) == 1
    return isinstance(part, cst.Slice) and (bounds.is_one_long(part) or bounds.is_first(part))


def element(run: RunState, atom: ReplicatedTensor) -> Value:
    """What a loop over a tensor gets."""
    if atom.dim == 0:
        refute(run, atom)
        return REPLICATED
    return value(moved(atom, atom.dim - 1))


def function(
    run: RunState,
    name: str,
    atom: ReplicatedTensor,
    rest: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    """A tensor function or method by its last name; ``rest`` are the arguments after the tensor."""

    if name in _NUMBERS:
        return REPLICATED
    if name in transpositions.TRANSPOSING:
        found = transpositions.place(name, atom.dim, 0, rest, keywords)
        turned = moved(atom, atom.dim if found is None else found)
        return value(replace(turned, stacked=atom.stacked or _within(rest)))
    place = rest[0].constant() if rest else keywords.get("dim", UNKNOWN).constant()
    if name in ("unsqueeze", "squeeze") and isinstance(place, int) and 0 <= place <= atom.dim:
        shift = 1 if name == "unsqueeze" else -(place < atom.dim)
        return value(moved(atom, atom.dim + shift))
    if name in _RESHAPING:
        return _reshaped(run, atom, rest)
    if name in PRODUCTS:
        return value(atom) if atom.dim == 0 else REPLICATED
    if name in ("split", "chunk", "unbind"):
        return _pieces(run, name, atom, rest, keywords)
    if name in _ALONG:
        return _along(run, name, atom, rest, keywords)
    return value(replace(atom, last=atom.last and dimensions.keeps(name)))


def _within(rest: Sequence[Value]) -> bool:
    """Whether a transposition leaves the first dimension alone: then it is one of matrices."""
    order = [one.constant() for one in rest]
    named = [dim for dim in order if isinstance(dim, int)]
    return len(named) > 2 or (len(named) == 2 and 0 not in named)


def moved(atom: ReplicatedTensor, dim: int) -> ReplicatedTensor:
    """The same rows, along another dimension."""
    return replace(
        atom,
        dim=dim,
        dim_at_definition=atom.dim_at_definition if atom.definition_sites else dim,
        last=False,
    )


def _reshaped(run: RunState, atom: ReplicatedTensor, rest: Sequence[Value]) -> Value:
    """``view(-1, ...)`` joins the rows with what lies beside them; other sizes are new."""
    given = [a.items for one in rest[:1] for a in one.atoms if isinstance(a, Tup)]
    sizes = [one.constant() for one in (given[0] if len(given) == 1 else rest)]
    first = sizes[0] if sizes else -1
    if len(sizes) == 1 and first not in (-1, 1) and atom.dim == 0 and _is_a_number(rest[0]):
        return value(ReplicatedTensor(0, 0, flat=True))  # of all elements, to be split afterwards
    if first is ... and len(sizes) == 1 and rest and not rest[0].of(Tup):
        first = -1  # a number that is calculated: that of all elements
    if first == -1:
        elements = sizes == [-1, 1] and not (atom.flat or atom.mixed)
        if elements and atom.dim == 0:  # a row for each of them: these are others
            return value(ReplicatedTensor(0, 0))
        if atom.dim == 0:
            return value(replace(atom, flat=True))
        # Rows that lie along the second dimension end up interleaved.
        return value(replace(atom, dim=0, mixed=True)) if atom.definition_sites else UNKNOWN
    second = sizes[1] if len(sizes) > 1 else ...
    if (first == 1 or (first is ... and atom.dim == 1)) and second == 1:
        refute(run, atom)  # a single row
        return REPLICATED
    if sizes == [1, -1]:
        refute(run, atom)  # all of them become one row
    if first == 1 and second is not ...:
        return value(Number(), ReplicatedTensor(0, 0, mixed=True))  # a batch of one sample
    if first is ... and second == 1 and atom.dim == 0:
        return value(atom)
    return value(*(ReplicatedTensor(dim, dim) for dim in DIMENSIONS))


def _is_a_number(size: Value) -> bool:
    return any(True for _ in size.of(Number, Data)) or isinstance(size.constant(), int)


def _along(
    run: RunState,
    name: str,
    atom: ReplicatedTensor,
    rest: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    given = keywords.get("dim") or keywords.get("axis") or (rest[-1] if rest else None)
    dim = given.constant() if given is not None else None
    if dim == atom.dim:
        refute(run, atom)
    if name in _KEEPING and (dim == atom.dim or (dim is None and name in _PAIRS)):
        made = value(ReplicatedTensor(atom.dim, atom.dim))  # of all rows, to be split afterwards
        return value(Tup((made, made))) if name in _PAIRS else made
    if dim is None or dim == atom.dim:
        return value(atom) if "softmax" in name else REPLICATED
    return value(Tup((value(atom), value(atom)))) if name in _PAIRS else value(atom)


def _pieces(
    run: RunState,
    name: str,
    atom: ReplicatedTensor,
    rest: Sequence[Value],
    keywords: Mapping[str, Value],
) -> Value:
    """The parts of a tensor along one dimension."""
    place = 0 if name == "unbind" else 1
    given = keywords.get("dim") or (rest[place] if len(rest) > place else value(Const(0)))
    dim = given.constant()
    if dim == atom.dim:
        refute(run, atom)
        batches_of_it = name != "unbind" and not run.frames_forward()
        return (
            value(Tup((value(Number(), ReplicatedTensor(dim, dim)),)))
            if batches_of_it
            else REPLICATED
        )
    gone = name == "unbind" and isinstance(dim, int) and dim < atom.dim
    return value(Tup((value(moved(atom, atom.dim - gone)),)))


def product(run: RunState, operands: Sequence[Operand]) -> Value:
    """``a @ b`` sums over the columns of one and the rows of the other, if they are matrices."""
    if any(atom.stacked for _, held in operands for atom in replicated_tensors(held)):
        first = next(replicated_tensors(held) for _, held in operands if replicated_tensors(held))
        return value(Number(), *(replace(atom, stacked=True) for atom in first))
    for (_, held), contracted in zip(operands[:2], (1, 0), strict=False):
        for atom in replicated_tensors(held):
            if atom.dim == contracted:
                refute(run, atom)
    rows = [a for a in replicated_tensors(operands[0][1]) if a.dim == 0]
    columns = [a for a in replicated_tensors(operands[-1][1]) if a.dim > 0]
    return value(Number(), *(rows or columns))


def joined(operands: Iterable[Operand]) -> Value | None:
    """The result of arithmetic of replicated operands: the batch that the first of them is."""
    for _, held in operands:
        found = [a for a in held.atoms if isinstance(a, ReplicatedTensor)]
        if found:
            return value(Number(), *(replace(atom, last=False) for atom in found))
    return None


def refute(run: RunState, atom: ReplicatedTensor) -> None:
    """Note that rows cannot lie along this dimension: a model treats it as something else."""
    if run.frames_forward():
        run.facts.by_hand.refuted.update(
            (definition_site, atom.dim_at_definition) for definition_site in atom.definition_sites
        )
