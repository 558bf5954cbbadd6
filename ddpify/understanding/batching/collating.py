"""What a loader's collate function makes of samples: along which dimension the rows lie.

``pad_sequence`` and ``torch.stack(..., dim=1)`` put them along the second dimension. The function
is run on a list of samples; where it puts all rows first, or does what is not understood, a batch
is taken for what loaders mostly yield.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.forms import Form
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

NO_ROWS = -99  # the dimension of the rows of a single sample, which has none
_CONTAINERS = ("list", "dict")


def samples(loader: Instance) -> Data:
    """The list of samples that a collate function gets."""
    return Data(Placement.SHARD, frozenset({loader}), form=Form.SAMPLES)


def sample(atom: Data) -> Data:
    """One of those samples, or a part of it."""
    form = Form.SEVERAL if atom.form is Form.SEVERAL else Form.TENSOR
    return replace(atom, form=form, dim=NO_ROWS, births=frozenset(), names=frozenset())


def yielded(run: Interpreter, node: cst.BaseExpression, loader: Instance) -> Value | None:
    """The batches of a loader whose rows do not all come first; None for others."""
    functions = list(collate_functions(loader))
    if not functions or run.collating:
        return None
    with run.in_collate():
        given = [value(samples(loader))]
        made = run.call(node, value(*functions), given, {})
    leaves = list(_leaves(made))
    layout = _layout(made)
    if layout is not None:
        run.facts.layouts[loader] = layout
    if not any(is_rows(leaf) and (leaf.dim > 0 or leaf.ragged) for leaf in leaves):  # type: ignore[union-attr]
        return None
    return _batch(made, Data(Placement.SHARD, frozenset({loader}), form=Form.YIELDED))


def length(one: Value) -> Data | None:
    """The number of samples that a list which has something of each of them is long."""
    for atom in one.atoms:
        if isinstance(atom, Data) and atom.form is Form.SAMPLES:
            return atom
        if isinstance(atom, Instance) and atom.type == "list":
            each = [a for a in atom.elements.atoms if isinstance(a, Data) and a.dim == NO_ROWS]
            if each and each[0].form is not Form.SEVERAL and set(atom.attributes) == {"*"}:
                return samples_of(each[0])
    return None


def samples_of(part: Data) -> Data:
    """The list of which something is one sample's part."""
    return replace(part, form=Form.SAMPLES, dim=0)


def collate_functions(loader: Instance) -> Iterator[Function | Bound]:
    """The project's functions that put the batches of a loader together."""
    for atom in loader.arguments.get("collate_fn", UNKNOWN).atoms:
        if isinstance(atom, (Function, Bound)):
            yield atom
        elif isinstance(atom, Instance) and isinstance(atom.type, Class):
            called = atom.type.find("__call__") or UNKNOWN
            yield from (Bound(atom, one) for one in called.atoms if isinstance(one, Function))


def puts_batch_first(loader: Instance) -> bool:
    """Whether PyTorch's own collate function puts a loader's samples side by side."""
    given = loader.arguments
    if loader.kind != "torch.utils.data.DataLoader" or "collate_fn" in given or "**" in given:
        return False
    sized = "batch_size" in given and given["batch_size"].constant() is not None
    return sized or "batch_sampler" in given


def stacked(atom: Data, dim: object) -> Data:
    """Samples put side by side along a new dimension."""
    if atom.form is Form.SEVERAL:
        return replace(atom.placed(atom.placement), dim=0, form=Form.RAGGED)
    return replace(atom.placed(atom.placement), dim=max(dim, 0) if isinstance(dim, int) else 0)


def joined(atom: Data, short: str, dim: object) -> Data:
    """The samples' own tensors, put together: side by side, or one behind the other.

    Behind each other, a sample has as many rows as it likes, and so has a rank.
    """
    if short == "stack":
        return stacked(atom, dim)
    if dim not in (0, ...) or short in ("hstack", "column_stack"):
        return stacked(atom, 0)
    return replace(atom.placed(atom.placement), dim=0, form=Form.RAGGED)


def note_numbers(run: Interpreter, counted: Iterable[Data]) -> None:
    """Note the loaders whose collate function counts samples: on each rank, the rank's own."""
    for data in counted if run.collating else ():
        run.facts.numbered |= data.loaders


def one_row(atom: Data, *, form: Form = Form.TENSOR) -> Data:
    """A sample's own tensor as a batch of that one sample."""
    return replace(atom.placed(atom.placement), dim=0, form=form)


def _layout(made: Value) -> tuple[int, ...] | None:
    """Along which dimension the rows of a batch lie: one for all of it, or one for each part."""
    whole = _dimension(made)
    if whole is not None:
        return (whole,)
    tuples = [atom for atom in made.atoms if isinstance(atom, Tup)]
    if len(tuples) != 1 or len(made.atoms) != 1:
        return None
    dims = [_dimension(item) for item in tuples[0].items]
    known = [dim for dim in dims if dim is not None]
    return tuple(known) if len(known) == len(dims) else None


def _dimension(made: Value) -> int | None:
    leaves = list(_leaves(made))
    dims = {leaf.dim for leaf in leaves if isinstance(leaf, Data) and is_rows(leaf)}
    slices = all(is_rows(leaf) and not leaf.ragged for leaf in leaves)  # type: ignore[union-attr]
    return dims.pop() if len(dims) == 1 and slices else None


def _leaves(made: Value) -> Iterator[Atom]:
    """What a batch is made of, without the containers around it."""
    for atom in made.atoms:
        parts = _parts(atom)
        for part in parts.values():
            yield from _leaves(part)
        if not parts:
            yield atom


def is_rows(atom: Atom) -> bool:
    """Whether something has a row for each of the samples, along a dimension that is known."""
    return isinstance(atom, Data) and atom.placement is Placement.SHARD and atom.dim != NO_ROWS


def _parts(atom: Atom) -> dict[str, Value]:
    """What a container, or an object of the project that stands for a batch, holds."""
    if isinstance(atom, Tup):
        return {f"[{position}]": item for position, item in enumerate(atom.items)}
    held = isinstance(atom, Instance) and (isinstance(atom.type, Class) or atom.type in _CONTAINERS)
    return dict(atom.attributes) if held else {}  # type: ignore[union-attr]


def _batch(made: Value, usual: Data) -> Value:
    """A batch with its rows, and what is not understood in it taken for rows that come first."""
    if not made:
        return value(replace(usual, form=Form.BATCH))
    return join(*(_batch_atom(atom, usual) for atom in made.atoms))


def _batch_atom(atom: Atom, usual: Data) -> Value:
    if isinstance(atom, Tup):
        return value(Tup(tuple(_batch(item, usual) for item in atom.items)))
    if isinstance(atom, Data) and is_rows(atom):
        form = Form.LISTED if atom.form is Form.SAMPLES else usual.form
        form = Form.RAGGED if atom.ragged else form
        return value(replace(usual, dim=atom.dim, ndim=atom.ndim, form=form))
    if isinstance(atom, Instance) and _parts(atom) and isinstance(atom.type, Class):
        return value(atom)
    if isinstance(atom, Instance) and atom.type == "dict":
        for key, held in list(atom.attributes.items()):
            atom.hold(key, _batch(held, usual))
        return value(atom)
    return value(replace(usual, form=Form.BATCH))
