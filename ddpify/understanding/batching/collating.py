"""What a loader's collate function makes of samples: along which dimension the rows lie.

``pad_sequence`` and ``torch.stack(..., dim=1)`` put them along the second dimension. The function
is run on a list of samples; where it puts all rows first, or does what is not understood, a batch
is taken for what loaders mostly yield.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.batching import batch_parts, item_dimensions
from ddpify.understanding.facts import OWN, BatchDimensions, Dimensions
from ddpify.understanding.forms import Form, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Number,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_CONTAINERS = ("list", "dict")


def samples(loader: Instance) -> Data:
    """The list of samples that a collate function gets."""
    return Data(Placement.SHARD, frozenset({loader}), form=Layout.SAMPLES)


def part_of_sample(atom: Data, position: int) -> Data:
    """A sample's part by its place, with the dimensions that the data set shows."""
    ndim = item_dimensions.of_sample(atom, position)
    return replace(sample(atom), ndim=ndim)


def sample(atom: Data) -> Data:
    """One of those samples, or a part of it."""
    form = Layout.SEVERAL if atom.form is Layout.SEVERAL else Layout.TENSOR
    return replace(
        atom, form=form, dim=NO_ROWS, definition_sites=frozenset(), names=frozenset(), ndim=0
    )


def yielded(run: RunState, node: cst.BaseExpression, loader: Instance) -> Value | None:
    """The batches of a loader whose rows do not all come first; None for others."""
    functions = list(collate_functions(loader))
    if not functions or run.collating:
        return None
    with run.in_collate(loader):
        given = [value(samples(loader))]
        made = run.call(node, value(*functions), given, {})
    if batch_parts.in_containers(made):
        run.facts.loading.parted.add(loader)
    run.mixes(node, *(leaf for leaf in _leaves(made) if _counts_samples(leaf)))
    picked = (
        []
        if _takes_single_samples(loader)
        else list(filter(_is_picked, _leaves(made, listed=False)))
    )
    run.mixes(node, *(replace(leaf, dim=0) for leaf in picked))
    layout = None if picked else _layout(made) or _layout_beside_own(run, loader, made)
    behind = any(is_rows(one) and (one.dim > 0 or one.ragged) for one in _leaves(made))
    if behind or layout is not None:
        run.facts.loading.unread.discard(loader)
    if layout is not None:
        run.facts.loading.layouts[loader] = layout
    usual = Data(Placement.SHARD, frozenset({loader}), form=Layout.YIELDED)
    lists = not any(is_rows(one) and one.ragged for one in _leaves(made))
    if layout is not None and _is_put_together_whole(run, loader, layout):
        return _batch(made, _Yielded(run, usual, whole=True, lists=lists))
    usually = _Yielded(run, usual, whole=False, lists=lists)
    return _batch(made, usually) if behind or layout is not None else None


def _is_put_together_whole(run: RunState, loader: Instance, layout: BatchDimensions) -> bool:
    """Whether every rank surely puts whole batches together, of which parts are the same on all."""
    joint = loader in run.facts.loading.joint and None in _flat(layout)
    return joint or loader in run.facts.loading.mixed


def _counts_samples(leaf: Atom) -> TypeGuard[Data]:
    """Whether a part of a batch is the number of its samples, which is another on each rank."""
    return isinstance(leaf, Data) and leaf.placement is Placement.COUNT


def _is_picked(leaf: Atom) -> TypeGuard[Data]:
    """Whether a part of a batch is of the sample at one place: a rank's first is another."""
    if not isinstance(leaf, Data) or not isinstance(leaf.form, Layout):
        return False
    single = leaf.placement is Placement.ROWS or leaf.dim == NO_ROWS
    return single and bool(leaf.taken_by)


def read_together(run: RunState, node: cst.CSTNode, given: Iterable[Value]) -> None:
    """Note that unread code gets something of each sample: one may depend on the others there."""
    if not run.collating:
        return
    met = [row for one in (*given, *spread(run, node)) for row in _of_all_samples(one)]
    run.mixes(node, *met)
    run.facts.loading.unread.update(loader for row in met for loader in row.loaders)


def spread(run: RunState, node: cst.CSTNode) -> list[Value]:
    """What a call takes apart into its arguments, as ``f(*samples)`` does."""
    given = node.args if isinstance(node, cst.Call) else ()
    return [run.seen(one.value) for one in given if one.star == "*"]


def _of_all_samples(one: Value) -> Iterator[Data]:
    """What a value holds of the samples of a batch, as rows: their tensors, and lists of theirs."""
    for atom in deep_atoms(one):
        if is_rows(atom):
            yield one_row(atom)
        elif isinstance(atom, Instance) and atom.type == "list" and set(atom.attributes) == {"*"}:
            yield from (one_row(each) for each in atom.elements.of(Data) if each.dim == NO_ROWS)


def _takes_single_samples(loader: Instance) -> bool:
    """Whether a batch surely is one sample, which is PyTorch's default."""
    given = loader.arguments
    if "batch_sampler" in given or "**" in given:
        return False
    return "batch_size" not in given or given["batch_size"].constant() == 1


def mixed(run: RunState, node: cst.CSTNode, data: Data, *, known: bool, rows: bool) -> Value:
    """What an operator gives that couples samples: perhaps rows, where it is not ``known``.

    Those are of all samples then, as in a loop where the rows of all ranks are gathered before.
    """
    run.mixes(node, data)
    if not known:
        return _perhaps_rows(data)
    return value(data.placed(Placement.SHARD)) if rows else REPLICATED


def whole(run: RunState, node: cst.CSTNode, made: Value) -> Value:
    """A value in a collate function: what is made of all rows together is that of the batch."""
    partial = [d for d in made.data if d.placement.partial and d.placement is not Placement.COUNT]
    if not partial:
        return made
    if any(d.dim == NO_ROWS for d in partial):  # what one sample's own elements add up to
        return value(*(_of_one_sample(atom) for atom in made.atoms))
    run.mixes(node, *partial)
    return value(*(atom for one in made.atoms for atom in _of_the_batch(one).atoms))


def _of_the_batch(atom: Atom) -> Value:
    """What a part of a batch is once all of its samples are there; it may have rows of them."""
    if not isinstance(atom, Data) or not atom.placement.partial or _counts_samples(atom):
        return value(atom)
    return _perhaps_rows(atom) if atom.placement is Placement.COUPLED else REPLICATED


def _perhaps_rows(data: Data) -> Value:
    replicated = data.placed(Placement.REPLICATE)
    return value(replace(replicated, form=Layout.GATHERED, flat=True, opaque=True))


def _of_one_sample(atom: Atom) -> Atom:
    if not isinstance(atom, Data) or atom.dim != NO_ROWS:
        return atom
    return replace(atom.placed(Placement.SHARD), dim=NO_ROWS)


def length(one: Value) -> Data | None:
    """The number of samples that a list which has something of each of them is long."""
    for atom in one.atoms:
        if isinstance(atom, Data) and atom.form is Layout.SAMPLES:
            return atom
        if isinstance(atom, Instance) and atom.type == "list":
            each = [a for a in atom.elements.atoms if isinstance(a, Data) and a.dim == NO_ROWS]
            if each and each[0].form is not Layout.SEVERAL and set(atom.attributes) == {"*"}:
                return samples_of(each[0])
    return None


def parts_of(samples: Data) -> Iterator[Data]:
    """The lists of which each has a part of all samples, as ``zip(*samples)`` gives them."""
    for part in _replicated_parts(samples):
        yield replace(samples_of(part), ndim=part.ndim)


def samples_of(part: Data) -> Data:
    """The list of which something is one sample's part."""
    return replace(part, form=Layout.SAMPLES, dim=0)


def collate_functions(loader: Instance) -> Iterator[Function | Bound | Class]:
    """The project's functions that put the batches of a loader together."""
    for atom in loader.arguments.get("collate_fn", UNKNOWN).atoms:
        if isinstance(atom, (Function, Bound)):
            yield atom
        elif isinstance(atom, Instance) and isinstance(atom.type, Class):
            called = atom.type.find("__call__") or UNKNOWN
            yield from (Bound(atom, one) for one in called.atoms if isinstance(one, Function))
        elif isinstance(atom, Class):  # of an object that holds a batch
            yield atom


def puts_batch_first(loader: Instance) -> bool:
    """Whether PyTorch's own collate function puts a loader's samples side by side."""
    given = loader.arguments
    if loader.kind != "torch.utils.data.DataLoader" or "collate_fn" in given or "**" in given:
        return False
    sized = "batch_size" in given and given["batch_size"].constant() is not None
    return sized or "batch_sampler" in given


def stacked(atom: Data, dim: object) -> Data:
    """Samples put side by side along a new dimension."""
    if atom.form is Layout.SEVERAL:
        return replace(atom.placed(atom.placement), dim=0, form=Layout.RAGGED)
    ndim = atom.ndim if atom.form is Layout.SAMPLES else 0
    place = max(dim, 0) if isinstance(dim, int) else 0
    return replace(atom.placed(atom.placement), dim=place, ndim=ndim)


def joined(atom: Data, short: str, dim: object) -> Data:
    """The samples' own tensors, put together: side by side, or one behind the other.

    Behind each other, a sample has as many rows as it likes, and so has a rank.
    """
    if short == "stack":
        listed = atom.form is Layout.SAMPLES  # whose dimensions are those of the rows already
        ndim = atom.ndim + (not listed) if atom.ndim else 0
        return replace(stacked(atom, dim), ndim=ndim, one_each=not ndim)
    if dim not in (0, ...) or short in ("hstack", "column_stack"):
        return stacked(atom, 0)
    return replace(atom.placed(atom.placement), dim=0, form=Layout.RAGGED)


def note_numbers(run: RunState, counted: Iterable[Data]) -> None:
    """Note the loaders whose collate function counts samples: on each rank, the rank's own."""
    for data in counted if run.collating else ():
        run.facts.loading.numbered |= data.loaders


def put_together(given: Value) -> Value | None:
    """What ``default_collate`` makes of samples: a tensor of each of their parts."""
    made = []
    for atom in (one for held in given.atoms for one in _listed(held)):
        if not isinstance(atom, Data) or atom.form not in (Layout.SAMPLES, Layout.SAMPLE):
            return None
        parts = tuple(value(one) for one in _replicated_parts(atom))
        if not parts:
            return None
        made.append(value(Tup(parts)))
    return join(*made)


def _listed(atom: Atom) -> Sequence[Atom]:
    """The samples that a list has been filled with; else the object itself."""
    if isinstance(atom, Instance) and atom.type == "list" and atom.elements:
        return atom.elements.atoms
    return (atom,)


def _replicated_parts(atom: Data) -> Iterator[Data]:
    """Each part of the samples, for all of them."""
    counts = {item_dimensions.parts_of_samples(loader) for loader in atom.loaders}
    for position in range(counts.pop() if len(counts) == 1 else 0):
        ndim = item_dimensions.of_samples(atom, position)
        yield replace(atom.placed(atom.placement), dim=0, ndim=ndim)


def one_row(atom: Data, *, form: Form = Layout.TENSOR) -> Data:
    """A sample's own tensor as a batch of that one sample."""
    return replace(atom.placed(atom.placement), dim=0, form=form)


def _layout_beside_own(run: RunState, loader: Instance, made: Value) -> BatchDimensions | None:
    """Those of a batch with parts that have any number of rows for a sample: each rank makes them.

    So it may where all samples together only say how much padding there is.
    """
    joint = loader in run.facts.loading.joint and loader not in run.facts.loading.mixed
    return _layout(made, own=True) if joint else None


def _layout(made: Value, *, own: bool = False) -> BatchDimensions | None:
    """The dimensions along which the rows of a batch lie; None where they are not known.

    own: say so of parts that have any number of rows for a sample.
    """
    same = _dimension(made)
    if isinstance(same, int):
        return (same,)
    if len(made.atoms) != 1:
        return None
    parts = {_name(key): item for key, item in _parts(made.atoms[0]).items()}
    dims = {
        name: OWN if own and _is_ragged(item) else _dimensions(item) for name, item in parts.items()
    }
    unknown = "*" in dims or _UNKNOWN in dims.values()  # of any key, or along any dimension
    if unknown or not any(isinstance(d, (int, *_NESTED)) for d in dims.values()):
        return None
    return tuple(dims.values()) if isinstance(made.atoms[0], Tup) else dims


_NESTED = (tuple, dict)


def _dimensions(part: Value) -> Dimensions:
    """The dimension of the rows in a part of a batch, or those of the parts that it has itself."""
    same = _dimension(part)
    return (_layout(part) or same) if same == _UNKNOWN else same


def _flat(layout: BatchDimensions) -> Iterator[Dimensions]:
    """The dimension of each tensor in a batch."""
    for dim in layout.values() if isinstance(layout, dict) else layout:
        yield from _flat(dim) if isinstance(dim, _NESTED) else (dim,)


def _is_ragged(made: Value) -> bool:
    """Whether a part of a batch surely has any number of rows for a sample."""
    leaves = list(_leaves(made))
    return bool(leaves) and all(
        isinstance(leaf, Data) and not leaf.opaque and (leaf.ragged or leaf.form is Layout.SEVERAL)
        for leaf in leaves
    )


def _name(key: str) -> str:
    """The name of an attribute, or of what stands under a literal key: ``x`` of ``['x']``."""
    return key[2:-2] if key.startswith("['") else key


_UNKNOWN = "unknown"


def _dimension(made: Value) -> int | str | None:
    """The dimension of the rows in a part of a batch; None where it has no rows."""
    leaves = list(_leaves(made))
    if leaves and all(_is_replicated(leaf) for leaf in leaves):
        return None
    if all(_is_of_each_sample(leaf) for leaf in leaves):
        return 0 if leaves else _UNKNOWN
    dims = {_dimension_of(leaf) for leaf in leaves}
    return dims.pop() if len(dims) == 1 else _UNKNOWN


def _dimension_of(leaf: Atom) -> int | str:
    """Along which dimension one of the things that a part of a batch may be has its rows."""
    if _is_of_each_sample(leaf):
        return 0
    return leaf.dim if is_rows(leaf) and not leaf.ragged and not leaf.opaque else _UNKNOWN


def _is_replicated(leaf: Atom) -> bool:
    """Whether all ranks have a part of a batch alike: a number, or what is made of all rows."""
    if isinstance(leaf, Data):
        return leaf.placement in (Placement.REPLICATE, Placement.COUNT)
    return isinstance(leaf, (Const, Number))


def _is_of_each_sample(leaf: Atom) -> bool:
    """Whether this is an item of a list that has something of each sample."""
    return isinstance(leaf, Data) and leaf.dim == NO_ROWS and leaf.form is not Layout.SEVERAL


def _leaves(made: Value, *, listed: bool = True) -> Iterator[Atom]:
    """What a batch is made of, without the containers around it; one may hold itself.

    Without ``listed``, not the items of which a list has any number.
    """
    todo, seen = list(reversed(made.atoms)), set[Atom]()
    while todo:
        atom = todo.pop()
        parts = _parts(atom)
        if not listed and parts.pop("*", None) is not None and not parts:
            continue
        if not parts:
            yield atom
        elif atom not in seen:
            seen.add(atom)
            inner = [one for part in parts.values() for one in part.atoms]
            todo += reversed(inner)


def is_rows(atom: Atom) -> TypeGuard[Data]:
    """Whether something has a row for each of the samples, along a dimension that is known."""
    return isinstance(atom, Data) and atom.placement is Placement.SHARD and atom.dim != NO_ROWS


def _parts(atom: Atom) -> dict[str, Value]:
    """What a container, or an object of the project that stands for a batch, holds."""
    if isinstance(atom, Tup):
        return {f"[{position}]": item for position, item in enumerate(atom.items)}
    if isinstance(atom, Instance) and (isinstance(atom.type, Class) or atom.type in _CONTAINERS):
        return dict(atom.attributes)
    return {}


def _may_have_rows_of_all(atom: Atom) -> TypeGuard[Data]:
    """Whether all ranks have a part of a batch alike that may have a row for each sample."""
    if not isinstance(atom, Data) or atom.placement is not Placement.REPLICATE:
        return False
    return atom.form is Layout.GATHERED or atom.flat


@record
class _Yielded:
    """What the parts of a batch are that a loader yields.

    Attributes:
        usual: Its rows.
        whole: Whether every rank collates it in full, before it keeps its own rows.
        lists: Whether lists with an item for each sample are told apart. Those beside samples that
            lie one behind the other, each with rows of its own, may say which rows are whose.
    """

    run: RunState
    usual: Data
    whole: bool
    lists: bool


def _batch(made: Value, batch: _Yielded) -> Value:
    """A batch with its rows, and what is not understood in it taken for rows that come first."""
    if not made:
        return value(replace(batch.usual, form=Layout.BATCH))
    return join(*(_batch_atom(atom, batch) for atom in made.atoms))


# What rows are in a batch, by what the collate function has made them.
_FORMS: dict[Form, Form] = {Layout.SAMPLES: Layout.LISTED, Layout.TENSOR: Layout.TENSOR}


def _batch_atom(atom: Atom, batch: _Yielded) -> Value:
    usual, whole = batch.usual, batch.whole
    if isinstance(atom, Tup):
        return value(Tup(tuple(_batch(item, batch) for item in atom.items)))
    if isinstance(atom, Data) and is_rows(atom):
        one_each = not atom.ndim and atom.dim == 0
        form = Layout.RAGGED if atom.ragged else _FORMS.get(atom.form, usual.form)
        return value(replace(usual, dim=atom.dim, ndim=atom.ndim, form=form, one_each=one_each))
    if whole and _counts_samples(atom):
        return value(Data(Placement.REPLICATE, usual.loaders, form=NumberKind.TOTAL))
    if _may_have_rows_of_all(atom):
        return value(replace(atom, form=Layout.GATHERED, loaders=usual.loaders))
    if whole and _is_replicated(atom):
        return REPLICATED if isinstance(atom, Data) else value(atom)
    if isinstance(atom, Instance) and batch.lists and _has_item_each(batch.run, atom):
        return value(replace(usual, form=Layout.LISTED))
    if isinstance(atom, Instance) and _parts(atom) and (not atom.kind or atom.kind == "dict"):
        return value(_held_batch(atom, batch) if whole or atom.kind else atom)
    return value(replace(usual, form=Layout.BATCH))


def _held_batch(made: Instance, batch: _Yielded) -> Instance:
    """What a loader yields of an object that its collate function makes.

    It is an object of its own: the function makes the same of its samples in every pass. What the
    script puts into the batch stays there, unless its parts come to be something else.
    """
    fresh = Instance(made.site, made.module, made.type, calls=made.calls)
    key = made, batch.usual.loaders
    yielded_as, known = batch.run.yielded_as.setdefault(key, (fresh, {}))
    parts = {name: _batch(item, batch) for name, item in list(made.attributes.items())}
    changed = {name: part for name, part in parts.items() if known.get(name) != part}
    known.update(changed)
    yielded_as.hold_all(changed)
    return yielded_as


def _has_item_each(run: RunState, made: Instance) -> bool:
    """Whether a list surely has one item for each sample, which is something of its own."""
    held, site = made.elements.atoms, made.site
    if not run.of_each_sample.get(made) or made in run.longer or set(made.attributes) != {"*"}:
        return False
    if isinstance(site, cst.ListComp) and (site.for_in.ifs or site.for_in.inner_for_in):
        return False
    return all(map(_is_of_each_sample, held))
