"""Batches that a script makes by hand: which tensors hold the rows of one, and where to split it.

Where no loader feeds the training, every process makes the global batch, and must keep its
own rows of it. A tensor that may be such a batch is a :class:`ReplicatedTensor` for each dimension
that its
rows may lie along. These follow the data to the models, whose layers tell which dimensions are
possible. A conversion splits what enters a trained model, and then what meets the result: targets,
states, masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.batching import batch_sizes, item_dimensions, single_numbers
from ddpify.understanding.facts import Entry
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Function,
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

DIMENSIONS = (0, 1)  # the batch comes first, or after the time steps
_BATCH = "a batch made by hand"
_MAKERS = frozenset(
    "tensor as_tensor from_numpy stack cat concat concatenate vstack hstack column_stack zeros"
    " ones full empty rand randn randint randperm normal arange linspace multinomial zeros_like"
    " ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones new_empty"
    " new_full new_tensor new Tensor FloatTensor LongTensor IntTensor DoubleTensor HalfTensor"
    " ByteTensor BoolTensor"
    " array asarray load memmap fromfile loadtxt genfromtxt uniform random choice standard_normal"
    " permutation eye one_hot pad_sequence".split()
)
_VIEWS = frozenset("view reshape unsqueeze squeeze permute transpose flatten".split())
_CONSTANTS = frozenset("zeros ones full empty eye arange linspace new_zeros new_ones".split())

Operand = tuple[cst.BaseExpression, Value]


# ---------------------------------------------------------------------- where they come from
def made(run: RunState, short: str) -> Value | None:
    """What a function of a tensor library makes out of nothing that is known: perhaps a batch."""
    if short not in _MAKERS or not _looks_for_batches(run):
        return None
    return possible_batch()


def yielded(run: RunState) -> Value:
    """What an iterator of another library yields: perhaps an object that holds a batch."""
    return possible_batch() if _looks_for_batches(run) else REPLICATED


def possible_batch(*, guessed: bool = False) -> Value:
    """A tensor that has no name yet; its rows may lie along any dimension."""
    return value(Number(), *(ReplicatedTensor(dim, dim, guessed=guessed) for dim in DIMENSIONS))


def without(made: Value, single: frozenset[int], ndim: int) -> Value:
    """A new tensor of which some dimensions have the size 1: the rows do not lie along those.

    What has one sample behind its time steps is no batch, though it enters a model. ``ndim`` is
    how many dimensions it has, 0 where that is not known.
    """
    kept = (
        a
        for a in made.atoms
        if not isinstance(a, ReplicatedTensor)
        or not ((a.dim == 0 and 0 in single) or 0 < ndim <= a.dim)
    )
    return value(
        *(_of_size(a, single, ndim) if isinstance(a, ReplicatedTensor) else a for a in kept)
    )


def _of_size(atom: ReplicatedTensor, single: frozenset[int], ndim: int) -> ReplicatedTensor:
    return replace(atom, mixed=atom.dim in single, last=atom.dim == ndim - 1)


def unpacked(run: RunState, part: Value) -> Value:
    """One of several things that come out of code that ddpify cannot read: perhaps a batch."""
    unknown = all(isinstance(atom, Number) for atom in part.atoms)
    return join(part, possible_batch(guessed=True)) if unknown and _looks_for_batches(run) else part


def sliced(run: RunState, node: cst.Subscript) -> Value | None:
    """Part of something replicated, between bounds that change: perhaps a batch."""
    if not _looks_for_batches(run):
        return None
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        bounds = [b for b in (first.lower, first.upper) if b is not None]
        moving = any(not isinstance(b, (cst.Integer, cst.UnaryOperation)) for b in bounds)
        return possible_batch() if moving else None
    index = run.seen(first.value) if isinstance(first, cst.Index) else UNKNOWN
    if are_of_one_sample(index):
        return single_sample()
    return possible_batch() if replicated_tensors(index) else None


def single_sample(dim: int = 0) -> Value:
    """What has the row of one sample, as ``x[i : i + 1]`` does: a batch of one, or no batch."""
    return value(Number(), ReplicatedTensor(dim, dim, mixed=True))


def are_of_one_sample(index: Value) -> bool:
    """Whether positions were taken as ``order[i : i + 1]``: they take a single row."""
    rows = [one for one in replicated_tensors(index) if one.dim == 0]
    return bool(rows) and all(one.mixed for one in rows)


def _looks_for_batches(run: RunState) -> bool:
    return run.choices.by_hand and not run.frames_forward()


def replicated_tensors(one: Value) -> list[ReplicatedTensor]:
    """What a value, or what its parts, may be of a batch."""
    return [a for a in deep_atoms(one) if isinstance(a, ReplicatedTensor)]


def defined(run: RunState, one: Value, node: cst.CSTNode) -> Value:
    """What gets its first name at a place can be split there."""
    if not run.choices.by_hand or not run.module.editable or run.frames_forward():
        return one
    return _mapped(one, lambda a: a if a.definition_sites else _named(a, node))


def named_arguments(run: RunState, call: cst.BaseExpression, args: list[Value]) -> list[Value]:
    """What a method of a model gets can be split where it is called, for that call alone."""
    pairs = argument_pairs(call, args, {})
    return [
        held if _is_of_a_list(run, shown) else defined(run, held, shown) for shown, held in pairs
    ]


def _is_of_a_list(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is a part of a list, of which each item may be a batch, or a sample."""
    whole = run.seen(node.value) if isinstance(node, cst.Subscript) else UNKNOWN
    return any(made.type == "list" for made in whole.of(Instance))


def _named(atom: ReplicatedTensor, node: cst.CSTNode) -> ReplicatedTensor:
    return replace(atom, definition_sites=frozenset({node}), flat_at_definition=atom.flat)


def returned(run: RunState, one: Value, function: Function) -> Value:
    """What a function makes and returns gets its name at the caller."""
    if not run.choices.by_hand:
        return one
    return _mapped(one, lambda a: _outside(a, function))


def _outside(atom: ReplicatedTensor, function: Function) -> ReplicatedTensor:
    inside = function.module.holds
    definition_sites = frozenset(b for b in atom.definition_sites if not inside(function.node, b))
    if definition_sites or atom.mixed:  # what is flattened can only be split where it was not yet
        return atom
    return replace(atom, definition_sites=definition_sites, dim_at_definition=atom.dim)


def _mapped(
    one: Value,
    change: Callable[[ReplicatedTensor], ReplicatedTensor],
    known: dict[int, Value] | None = None,
) -> Value:
    """A value with each batch in it, also in its tuples, changed; ``known`` are done already."""
    known = {} if known is None else known
    if id(one) not in known:
        atoms = [_mapped_atom(atom, change, known) for atom in one.atoms]
        same = all(new is old for new, old in zip(atoms, one.atoms, strict=True))
        known[id(one)] = one if same else join(value(*atoms))
    return known[id(one)]


def _mapped_atom(
    atom: Atom, change: Callable[[ReplicatedTensor], ReplicatedTensor], known: dict[int, Value]
) -> Atom:
    if isinstance(atom, ReplicatedTensor):
        return change(atom)
    if isinstance(atom, Tup):
        items = tuple(_mapped(item, change, known) for item in atom.items)
        same = all(new is old for new, old in zip(items, atom.items, strict=True))
        return atom if same else Tup(items)
    return atom


# ---------------------------------------------------------------------- splitting
def enter(
    run: RunState, node: cst.BaseExpression, model: Instance, operands: list[Operand]
) -> list[Value]:
    """Note the batches that enter a model; the arguments, each with a place."""
    if not _looks_for_batches(run):
        return [held for _, held in operands]
    _note_together(run, operands)
    named = [(shown, defined(run, held, shown)) for shown, held in operands]
    found = [replicated_tensors(held) for _, held in named]
    if not any(found) and not any(_has_data(v) for _, v in named):
        named = [(shown, _perhaps(run, held, shown)) for shown, held in named[:1]] + named[1:]
        found = [replicated_tensors(held) for _, held in named]
    for position, held in enumerate(found):
        if held and not _is_given_again(named, position):
            tested = run.modes.at(run.facts, run.site(node), model) is False
            entry = Entry(run.site(node), not run.no_grad, tested, tuple(held), model)
            run.facts.by_hand.entries.setdefault((node, position, entry.training), entry)
            if entry.training and any(loop.loaders for f in run.frames for loop in f.loops):
                run.facts.by_hand.beside_loaders.setdefault(node, entry.site)
    return [held for _, held in named]


def _is_given_again(operands: list[Operand], position: int) -> bool:
    """Whether an argument is a name that stands before it, too: ``attention(x, x, x)``."""
    shown = operands[position][0]
    before = (one for one, _ in operands[:position])
    return isinstance(shown, cst.Name) and any(shown.deep_equals(one) for one in before)


def _note_together(run: RunState, operands: list[Operand]) -> None:
    """Note the places of split batches that enter a model in one call."""
    rows = [d for _, held in operands for d in held.data if d.placement is Placement.SHARD]
    places = frozenset(source.site for data in rows for source in data.loaders)
    if len(places) > 1:
        run.facts.by_hand.entered_together.add(places)


def _perhaps(run: RunState, held: Value, shown: cst.BaseExpression) -> Value:
    """Something that is not known otherwise enters a model: it is a batch."""
    plain = all(isinstance(a, Number) for a in held.atoms)
    return defined(run, join(held, possible_batch()), shown) if plain else held


def _has_data(one: Value) -> bool:
    return any(isinstance(a, Data) for a in deep_atoms(one))


def meet(
    run: RunState, operands: list[Operand], *, surely: bool = False, unseen: bool = False
) -> None:
    """What meets a split batch must be split alike; ``surely`` if it has rows whatever it is.

    ``unseen``: it meets in code that ddpify cannot read, which may use another batch dimension.
    """
    if run.frames_forward():
        return
    batch_sizes.split_where_they_meet(run, operands)
    if not run.choices.by_hand:
        return
    shards = [d for _, v in operands for d in v.data if d.placement is Placement.SHARD]
    if not shards:
        return
    for shown, held in operands:
        if unseen and shards[0].dim > 0 and replicated_tensors(held):
            run.facts.by_hand.unmatched.setdefault(shown, run.site(shown))
        elif replicated_tensors(held) or not _has_data(held):
            _split_like(run, shards[0], shown, held, surely=surely)


def _split_like(
    run: RunState, shard: Data, shown: cst.BaseExpression, held: Value, *, surely: bool
) -> None:
    if surely and held and all(isinstance(a, Number) for a in held.atoms):
        held = value(*(replace(a, flat=True) for a in replicated_tensors(possible_batch())))
    held = defined(run, held, shown)
    if shard.form is Layout.STACKED and replicated_tensors(held):
        run.facts.by_hand.unmatched.setdefault(
            shown, run.site(shown)
        )  # its parts would have to be split
        return
    line = _in_a_line(run, shown) if shard.dim == 1 else None
    if line is not None:
        _split_like(run, replace(shard, dim=0), line, run.seen(line), surely=surely)
        return
    mixed = shard.form is Layout.INTERLEAVED
    alike = [
        a for a in replicated_tensors(held) if a.mixed == mixed and (mixed or a.dim == shard.dim)
    ]
    for atom in alike:
        places = [b for b in atom.definition_sites if _may_have_rows(run, atom, b, surely)]
        for place in places:
            run.facts.by_hand.wanted.setdefault((place, atom.dim_at_definition), set()).update(
                shard.loaders
            )
        if atom.flat_at_definition or (shard.flat and not atom.flat):
            run.facts.by_hand.flat.update(places)
    if replicated_tensors(held) and surely and not alike:
        run.facts.by_hand.unmatched.setdefault(shown, run.site(shown))


def _in_a_line(run: RunState, shown: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor of one dimension whose rows lie along the second one: ``labels.view(1, -1)``.

    A name of such a tensor is one itself. None where that is not known.
    """
    if not isinstance(shown, cst.Call) or not isinstance(shown.func, cst.Attribute):
        return shown if item_dimensions.of_expression(shown, run.module) == 1 else None
    name, rows = shown.func.attr.value, shown.func.value
    if name in ("expand_as", "expand"):
        return _in_a_line(run, rows)
    sizes = [run.seen(one.value).constant() for one in shown.args]
    return rows if name in ("view", "reshape") and sizes == [1, -1] else None


def _may_have_rows(run: RunState, atom: ReplicatedTensor, place: cst.CSTNode, surely: bool) -> bool:
    """Whether what was made at a place may be split where it meets a batch."""
    return not single_numbers.is_one(place) and (surely or _is_data(run, atom, place))


def _is_data(run: RunState, atom: ReplicatedTensor, place: cst.CSTNode) -> bool:
    """Whether what meets a batch in arithmetic has rows, and is no constant of the script."""
    if not atom.guessed:
        return not _constant(run, place) or _is_as_long_as_a_batch(run, place)
    module = run.project.owner(place)
    return module is not None and any(
        module.statement(place) is module.statement(other)
        for other in run.choices.batches
        if run.project.owner(other) is module
    )


def _constant(run: RunState, place: cst.CSTNode) -> bool:
    """Whether what is made at a place is the same for all rows: zeros, or numbers of the script."""
    called = place.func if isinstance(place, cst.Call) else None
    name = called.attr.value if isinstance(called, cst.Attribute) else ""
    if isinstance(called, cst.Attribute) and replicated_tensors(run.seen(called.value)):
        return False  # a method of a batch
    given = place.args if isinstance(place, cst.Call) and name not in _VIEWS else ()
    return name in _CONSTANTS or (len(given) > 0 and _literal(given[0].value))


def _is_as_long_as_a_batch(run: RunState, place: cst.CSTNode) -> bool:
    """Whether ``torch.randn(64, 2)`` has as many rows as a batch, by the numbers of the script."""
    size = _drawn_size(place)
    return size is not None and any(_drawn_size(batch) == size for batch in run.choices.batches)


def _drawn_size(place: cst.CSTNode) -> int | None:
    """The first of the sizes that random numbers are drawn by, where it is written out."""
    called = place.func if isinstance(place, cst.Call) else None
    name = called.attr.value if isinstance(called, cst.Attribute) else ""
    given = place.args[0].value if isinstance(place, cst.Call) and place.args else None
    if isinstance(given, cst.Tuple) and given.elements:
        given = given.elements[0].value
    size = int(given.value) if isinstance(given, cst.Integer) and given.value.isdigit() else 1
    return size if name in ("randn", "rand") and size > 1 else None


def _literal(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float, cst.List, cst.UnaryOperation))


def split(run: RunState, node: cst.CSTNode, one: Value) -> Value:
    """The value of an expression whose batch is split there: this rank's rows."""
    if node not in run.choices.batches or node in run.choices.replicated:
        return one
    if _is_split(run, one):
        run.facts.by_hand.split_before.setdefault(node, run.site(node))
        return one
    if _is_cut(run, node, one):
        run.facts.by_hand.cut.add(node)
        return one
    run.facts.by_hand.split_here.add(node)
    dim_at_definition = run.choices.batches[node]
    source = run.instance(node, run.module, _BATCH)
    run.takes_batch()
    ndim = item_dimensions.of_expression(node, run.module) if _is_expression(node) else 0
    return _split(one, dim_at_definition, frozenset({source}), ndim)


def _is_gathered(atom: Atom) -> bool:
    """Whether these are the rows of all ranks, of which each takes its own again."""
    return isinstance(atom, Data) and atom.form is Layout.GATHERED and not atom.opaque


def _is_split(run: RunState, one: Value) -> bool:
    """Whether this is a rank's rows already, of batches that are trained on."""
    rows = all(data.placement is Placement.SHARD for data in one.data)
    return rows and not replicated_tensors(one) and trained_on(run, one.data)


def _is_cut(run: RunState, node: cst.CSTNode, one: Value) -> bool:
    """Whether this is a fixed number of rows of a batch that is split already, as ``x[:1]`` is."""
    if not bounds.is_fixed(run, node):
        return False
    split = [d.placement is Placement.ROWS or d.form is Layout.GATHERED for d in one.data]
    return bool(split) and all(split) and not replicated_tensors(one)


def trained_on(run: RunState, rows: Iterable[Data]) -> bool:
    """Whether any of these rows are of a batch that a loss comes from."""
    trained = run.choices.trained | run.facts.trained
    return any(source.site in trained for data in rows for source in data.loaders)


def _is_expression(node: cst.CSTNode) -> TypeGuard[cst.BaseExpression]:
    return isinstance(node, cst.BaseExpression)


def _split(one: Value, dim: int, sources: frozenset[Instance], ndim: int) -> Value:
    atoms = list(_split_atoms(one, dim, sources, ndim))
    rows = Data(Placement.SHARD, sources, dim=dim, ndim=ndim)
    return join(value(*atoms)) if atoms else value(rows)


def _split_atoms(one: Value, dim: int, sources: frozenset[Instance], ndim: int) -> Iterator[Atom]:
    rows = Data(Placement.SHARD, sources, dim=dim, ndim=ndim)
    for atom in one.atoms:
        if isinstance(atom, Tup):
            yield Tup(tuple(_split(item_, dim, sources, 0) for item_ in atom.items))
        elif isinstance(atom, Instance) and replicated_tensors(value(atom)):
            yield replace(rows, form=Layout.BATCH)
        elif isinstance(atom, (ReplicatedTensor, Number)) or _is_gathered(atom):
            yield rows
        elif not isinstance(atom, Const):
            yield atom
