"""What a loader's collate function makes of samples: along which dimension the rows lie.

``pad_sequence`` and ``torch.stack(..., dim=1)`` put them along the second dimension. The function
is run on a list of samples; where it puts all rows first, or does what is not understood, a batch
is taken for what loaders mostly yield.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

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
    return Data(Placement.SHARD, frozenset({loader}), form="samples")


def sample(atom: Data) -> Data:
    """One of those samples, or a part of it."""
    return replace(atom, form="tensor", dim=NO_ROWS, births=frozenset(), names=frozenset())


def yielded(run: Interpreter, node: cst.BaseExpression, loader: Instance) -> Value | None:
    """The batches of a loader whose rows do not all come first; None for others."""
    functions = list(collate_functions(loader))
    if not functions or run.collating:
        return None
    with run.in_collate():
        given = [value(samples(loader))]
        made = run.call(node, value(*functions), given, {})
    if not any(data.dim > 0 for data in _rows(made)):
        return None
    return _batch(made, Data(Placement.SHARD, frozenset({loader}), form="yielded"))


def collate_functions(loader: Instance) -> Iterator[Function | Bound]:
    """The project's functions that put the batches of a loader together."""
    for atom in loader.arguments.get("collate_fn", UNKNOWN).atoms:
        if isinstance(atom, (Function, Bound)):
            yield atom
        elif isinstance(atom, Instance) and isinstance(atom.type, Class):
            called = atom.type.find("__call__") or UNKNOWN
            yield from (Bound(atom, one) for one in called.atoms if isinstance(one, Function))


def stacked(atom: Data, dim: object) -> Data:
    """Samples put side by side along a new dimension."""
    return replace(atom.placed(atom.placement), dim=max(dim, 0) if isinstance(dim, int) else 0)


def _rows(made: Value) -> Iterator[Data]:
    for atom in made.atoms:
        if isinstance(atom, Data) and atom.placement is Placement.SHARD:
            yield atom
        for part in _parts(atom).values():
            yield from _rows(part)


def _parts(atom: Atom) -> dict[str, Value]:
    """What a container, or an object of the project that stands for a batch, holds."""
    if isinstance(atom, Tup):
        return {f"[{position}]": item for position, item in enumerate(atom.items)}
    held = isinstance(atom, Instance) and (isinstance(atom.type, Class) or atom.type in _CONTAINERS)
    return dict(atom.attributes) if held else {}  # type: ignore[union-attr]


def _batch(made: Value, usual: Data) -> Value:
    """A batch with its rows, and what is not understood in it taken for rows that come first."""
    if not made:
        return value(replace(usual, form="batch"))
    return join(*(_batch_atom(atom, usual) for atom in made.atoms))


def _batch_atom(atom: Atom, usual: Data) -> Value:
    if isinstance(atom, Tup):
        return value(Tup(tuple(_batch(item, usual) for item in atom.items)))
    if isinstance(atom, Data) and atom.placement is Placement.SHARD and atom.dim != NO_ROWS:
        return value(replace(usual, dim=atom.dim, ndim=atom.ndim))
    if isinstance(atom, Instance) and _parts(atom) and isinstance(atom.type, Class):
        return value(atom)
    if isinstance(atom, Instance) and atom.type == "dict":
        for key, held in list(atom.attributes.items()):
            atom.attributes[key] = _batch(held, usual)
        return value(atom)
    return value(replace(usual, form="batch"))
