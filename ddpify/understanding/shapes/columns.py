"""Rows with one number each and a dimension of size one behind them: ``w.view(-1, 1)``.

Beside a tensor with a single dimension, each of them meets all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from ddpify.records import replace
from ddpify.understanding.forms import Column
from ddpify.understanding.layer_containers import LAYER_CONTAINERS, SEQUENTIAL
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import (
    CONTAINERS,
    UNKNOWN,
    Atom,
    Class,
    Const,
    Data,
    Instance,
    Tup,
    Value,
    deep_atoms,
    value,
)

_OF_WIDTH_ONE = ("narrow", "split", "topk")  # told by their first or their third argument
_DEEPEST = 6  # containers in each other
_POOLING = ("adaptive_avg_pool1d", "adaptive_max_pool1d")
_LIKE = ("view_as", "reshape_as", "expand_as")
_REDUCING = frozenset(
    "mean sum nansum nanmean prod max min amax amin median logsumexp select any all std var".split()
)
_BY_INDEX = ("gather", "take_along_dim")
# Which argument of a layer says how wide its result is; others, but for those below, keep none.
_WIDTHS = {
    "torch.nn.Linear": ("out_features", "1"),
    "torch.nn.LazyLinear": ("out_features", "0"),
    "torch.nn.Bilinear": ("out_features", "2"),
    "torch.nn.Embedding": ("embedding_dim", "1"),
    "torch.nn.EmbeddingBag": ("embedding_dim", "1"),
}
_KEEPING_LAYERS = frozenset(
    "ReLU LeakyReLU PReLU ELU GELU SiLU Sigmoid Tanh Dropout BatchNorm1d Identity ReLU6 Hardtanh"
    " Hardswish Hardsigmoid Mish CELU SELU Softplus Softsign LogSigmoid Threshold AlphaDropout"
    " Flatten LayerNorm RMSNorm".split()
)


def noted(
    made: Value,
    name: str,
    source: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
    *,
    kept: bool,
) -> Value:
    """What a function makes of rows, with whether it may be such a column.

    ``kept``: a size of one is left where it has gone along a dimension.
    """
    if source.placement is not Placement.SHARD:
        return marked(made, Column.NONE)
    one_wide = kept and source.ndim in (0, 2)
    return marked(made, Column.WRITTEN if one_wide else _of(name, source, rest, kwargs))


def marked(made: Value, column: Column) -> Value:
    """What is made of rows, known to be such a column or none."""
    return value(*(_with(atom, column) for atom in made.atoms))


def _with(atom: Atom, column: Column) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(marked(item, column) for item in atom.items))
    if not isinstance(atom, Data) or atom.column == column:
        return atom
    return replace(atom, column=column)


def _of(name: str, source: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> Column:
    """What a function makes of such rows."""
    given = [one.constant() for one in rest]
    like = [one for held in rest[:1] for one in held.of(Data)]
    if name in _LIKE or (name in ("view", "reshape") and len(given) == 1 and like):
        return max(source.column, *(one.column for one in like), Column.NONE)
    if name in ("view", "reshape"):
        wide = {-1, 1} if may_be_single(source) else {1}
        return _if(len(given) > 1 and given[0] not in (0, 1) and set(given[1:]) <= wide)
    if name in ("unsqueeze", "expand_dims"):
        return widened(source)
    if name in _POOLING:
        return _if(given[:1] == [1])
    if name in _OF_WIDTH_ONE:
        one_wide = given[:1] == [1] or given[2:] == [1]
        return _if(one_wide or kwargs.get("k", UNKNOWN).constant() == 1)
    if name in _REDUCING and _is_before(kwargs.get("dim", (*rest, UNKNOWN)[0]), source.dim):
        return source.column
    if name == "select" and source.ndim > 2 and given[:1] == [1]:  # of each row, one that is next
        return source.column
    alike = dimensions.keeps(name) or rule_of(name) is Rule.ELEMENTWISE or name in _BY_INDEX
    return source.column if alike else Column.NONE


def _is_before(dim: Value, rows: int) -> bool:
    """Whether this names a dimension before that of the rows."""
    place = dim.constant()
    return isinstance(place, int) and 0 <= place < rows


def widened(rows: Data) -> Column:
    """What such rows are with a dimension more behind them."""
    return Column.WRITTEN if may_be_single(rows) else rows.column


def of_product(left: Data | None, right: Data | None, width: int) -> Column:
    """What rows times a matrix are that is so wide; 0 where that is not known."""
    rows = left is not None and left.placement is Placement.SHARD and left.dim == 0
    return Column.OF_WIDTH_ONE if rows and right is None and width == 1 else Column.NONE


def _if(written: bool) -> Column:
    return Column.WRITTEN if written else Column.NONE


def of_layer(layer: Instance, given: Sequence[Value]) -> Column:
    """What one of PyTorch's layers makes of rows: of one output, such a column."""
    rows = [one.column for held in given[:1] for one in held.of(Data)]
    return _through(layer, max(rows, default=Column.NONE))


def _through(layer: Instance, column: Column, left: int = _DEEPEST) -> Column:
    """What a layer, which may lie in so many containers, makes of rows."""
    if not left or isinstance(layer.type, Class):
        return Column.OF_WIDTH_ONE  # as far as is known
    if layer.kind == SEQUENTIAL and not layer.attributes:
        for one in _in_order(layer):
            column = Column.OF_WIDTH_ONE if one is None else _through(one, column, left - 1)
        return column
    if layer.kind in LAYER_CONTAINERS:  # which stands for any of what it holds
        held = [*layer.arguments.values(), *layer.attributes.values()]
        layers = [one for part in held for one in deep_atoms(part) if _is_layer(one)]
        return max((_through(one, column, left - 1) for one in layers), default=column)
    widths = [layer.arguments[at] for at in _WIDTHS.get(layer.kind, ()) if at in layer.arguments]
    if widths:
        return Column.OF_WIDTH_ONE if _may_be_one(widths[0]) else Column.NONE
    return column if layer.kind.rsplit(".", 1)[-1] in _KEEPING_LAYERS else Column.NONE


def _is_layer(atom: Atom) -> TypeGuard[Instance]:
    return isinstance(atom, Instance) and atom.kind not in CONTAINERS


def _in_order(layers: Instance) -> Iterator[Instance | None]:
    """What a ``Sequential`` runs, None for what is not known."""
    given = layers.arguments
    for place in range(len(given)):
        held = list(given.get(str(place), UNKNOWN).of(Instance))
        yield held[0] if len(held) == 1 and _is_layer(held[0]) else None


def _may_be_one(width: Value) -> bool:
    """Whether an option is 1, as far as is known."""
    constants = [atom.value for atom in width.atoms if isinstance(atom, Const)]
    return 1 in constants or len(constants) < len(width.atoms) or not width.atoms


def joined(pieces: Sequence[Data], number: int, dim: object, *, stacked: bool) -> Column:
    """What so many tensors make that are put together; a ``number`` of 0 is not known."""
    if not pieces or any(one.dim != 0 for one in pieces):
        return Column.NONE
    if stacked and dim == 0:  # each tensor before the rows is one
        return min(one.column for one in pieces)
    if stacked:
        beside = dim in (1, -1) and number < 2 and all(map(may_be_single, pieces))
        return _if(beside)
    under = dim == 0 or number == 1
    return min(one.column for one in pieces) if under else Column.NONE


def may_be_single(rows: Data) -> bool:
    """Whether these may have no dimension but that of the samples."""
    return rows.dim == 0 and (rows.ndim == 1 or (rows.one_each and not rows.ndim))


def _is_shown_single(rows: Data) -> bool:
    """The same where the code shows it: what a loader gives may also be a column itself."""
    fewer = rows.relative is not None and rows.relative[1] < 0
    return may_be_single(rows) and (rows.ndim == 1 or fewer)


def may_meet_all(one: Data, other: Data) -> bool:
    """Whether each of these rows may be broadcast beside all of the others."""
    return any(_meets_all(*both) for both in ((one, other), (other, one)))


def _meets_all(column: Data, line: Data) -> bool:
    if column.dim != 0 or (line.column and line.ndim != 1):
        return False
    written = column.column is Column.WRITTEN
    return bool(column.column) and (may_be_single if written else _is_shown_single)(line)
