"""Tensors that are made as large as a batch, or of numbers of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import across_samples
from ddpify.understanding.batching import batch_sizes, current_batch
from ddpify.understanding.facts import Draw
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries import local_sizes, made_dimensions, random_numbers
from ddpify.understanding.libraries.local_sizes import TYPED
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, tensor_sizes
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    Data,
    Instance,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Operands = list[tuple[cst.BaseExpression, Value]]

_OF_A_SIZE = frozenset("zeros ones empty full arange eye identity linspace logspace".split())
_BETWEEN = ("linspace", "logspace", "geomspace")
_OF_PAIRS = frozenset("triu_indices tril_indices".split())
_NUMPYS_OF_A_SIZE = _OF_A_SIZE | frozenset("repeat_interleave tile reshape broadcast_to".split())
_WINDOWS = frozenset(
    "bartlett_window blackman_window hamming_window hann_window kaiser_window bartlett blackman"
    " cosine exponential gaussian general_cosine general_hamming hamming hann kaiser"
    " nuttall".split()
)
_COUNTING = _WINDOWS | frozenset(
    "arange eye fftfreq identity linspace logspace range rfftfreq".split()
)
TORCHS_OF_A_SIZE = (
    _NUMPYS_OF_A_SIZE
    | _COUNTING
    | TYPED
    | frozenset("rand randn randint randperm normal multinomial".split())
)
_GATHERED = Data(Placement.REPLICATE, form=Layout.GATHERED)
# Each sample beside all: a sum along one dimension leaves rows along the other.
_PAIRS = Data(Placement.REPLICATE, form=Layout.GATHERED, opaque=True)


@record
class _Making:
    """A call that may make a tensor.

    Attributes:
        numbers: What its arguments hold that follows from batches.
        sizes: Of these, what the tensor is made as large as.
        counts: Numbers of a rank's rows among them.
    """

    run: RunState
    node: cst.BaseExpression
    name: str
    short: str
    operands: Operands
    numbers: list[Data]
    sizes: list[Data]
    counts: list[Data]

    @property
    def of_a_list(self) -> bool:
        """Whether the numbers stand in a list, and are what the tensor holds."""
        single = self.short in TYPED and len(self.operands) == 1
        holds = single or self.short in made_dimensions.FROM_VALUES
        return holds and not self.operands[0][1].data


def made(
    run: RunState, node: cst.BaseExpression, name: str, short: str, operands: Operands
) -> Value | None:
    """What is made as large as a batch, or of numbers of rows; None where no such is given."""
    if short in _BETWEEN and not _goes_by_rows(node):
        return _between(run, operands)
    if short == "full" and operands:
        _filled_with(run, operands[1:])
        operands = operands[:1]
    numbers = [a for _, v in operands for a in deep_atoms(v) if isinstance(a, Data)]
    own = [a for a in _sizes(short, operands) if tensor_sizes.is_own_number(a)]
    if own and name.startswith("torch."):
        return _of_own_numbers(run, short, operands, own)
    sizes = numbers if short in _COUNTING else _sizes(short, operands)
    counts = [a for a in numbers if a.placement is Placement.COUNT]
    making = _Making(run, node, name, short, operands, numbers, sizes, counts)
    return first_answer(_RULES, making)


def _goes_by_rows(node: cst.BaseExpression) -> bool:
    """Whether ``linspace(start, end, steps)`` may have a number for each row, by its steps."""
    given = node.args if isinstance(node, cst.Call) else ()
    told = {"steps", "num"}
    steps = [a for i, a in enumerate(given) if i == 2 or (a.keyword and a.keyword.value in told)]
    return not steps or not isinstance(steps[0].value, cst.Integer)


def _between(run: RunState, operands: Operands) -> Value | None:
    """As many numbers as a literal says, up to the number of all rows; None where none is given."""
    counted = [(shown, d) for shown, held in operands for d in held.data]
    for shown, data in counted:
        run.demand(shown, value(data), uses.A_COUNT if run.frames_forward() else uses.ARITHMETIC)
    return REPLICATED if counted else None


def _of_rows(making: _Making) -> Value | None:
    """By numbers that are rows themselves: those of all ranks."""
    rows = [a for a in making.sizes if a.placement is Placement.SHARD and a.form is Layout.TENSOR]
    if making.run.collating:  # a size of one sample, as of the longest, is none of rows
        rows = [a for a in rows if a.dim != NO_ROWS]
    if not rows:
        return None
    held = [
        (shown, value(*(a for a in rows if a in set(deep_atoms(v)))))
        for shown, v in making.operands
    ]
    return across_samples.coupled_operands(making.run, making.node, held, rows=False)


def _of_a_total(making: _Making) -> Value | None:
    """By the number of all ranks' rows."""
    if not any(a.form is NumberKind.TOTAL for a in making.sizes):
        return None
    if making.short in (*made_dimensions.DRAWN, "randint"):
        random_numbers.shared_in_forward(making.run, making.node)
    return value(_GATHERED)


def _of_a_part(making: _Making) -> Value | None:
    """By a part of the number of rows: it says which come first among those of all ranks."""
    rounded = any(a.form is NumberKind.ROUNDED for a in making.counts)
    if not rounded or making.run.collating or not _makes_rows(making.name, making.short):
        return None
    bounds.count_sizes(making.run, [shown for shown, _ in making.operands])
    return value(_GATHERED)


def _of_pairs(making: _Making) -> Value | None:
    """Positions of pairs of rows are among those of all ranks."""
    total = any(a.form is NumberKind.TOTAL for a in making.numbers)
    if making.short not in _OF_PAIRS or not (total or making.counts):
        return None
    bounds.count_sizes(making.run, [shown for shown, _ in making.operands])
    return value(_GATHERED)


def _of_counts(making: _Making) -> Value | None:
    """A row for each of a rank's."""
    counts = making.counts
    first = (a for _, v in making.operands[:1] for a in v.atoms)
    cuts = any(isinstance(a, Data) and a not in counts for a in first)
    if not counts or cuts or making.of_a_list or not _makes_rows(making.name, making.short):
        return None
    return _sized(making, counts)


def _of_a_list_of_counts(making: _Making) -> Value | None:
    """A list of numbers, one a count."""
    if not making.counts or not making.of_a_list:
        return None
    making.run.demand_all(*making.operands[0], f"{making.short}()")
    making.run.demand_held(*making.operands[0], f"{making.short}()")
    return REPLICATED


def _of_a_batchs_size(making: _Making) -> Value | None:
    """Drawn, or kept, for batches of one size."""
    if making.short not in batch_sizes.MAKING and not making.name.startswith("numpy.random."):
        return None
    drawn = random_numbers.of_a_batchs_size(making.run, making.node)
    if drawn is not None:
        return drawn
    kept = batch_sizes.kept_for(making.run, making.node)
    return value(Data(Placement.REPLICATE, kept, form=Layout.SIZED)) if kept else None


_RULES = (
    _of_rows,
    _of_a_total,
    _of_a_part,
    _of_pairs,
    _of_counts,
    _of_a_list_of_counts,
    _of_a_batchs_size,
)
"""The first that says something of a call is right."""


def _of_own_numbers(run: RunState, short: str, operands: Operands, own: list[Data]) -> Value:
    """What is made as large as what a mask leaves of a rank's rows; places are among all ranks'."""
    if short not in _COUNTING or run.collating:
        return value(tensor_sizes.rows_as_many(own[0]))
    for shown, held in operands:
        run.demand(shown, value(*(a for a in own if a in held.atoms)), uses.ROWS_OF_ALL)
    return value(Data(Placement.REPLICATE, form=Layout.GATHERED, flat=True, opaque=True))


def _filled_with(run: RunState, numbers: Operands) -> None:
    """What ``torch.full(sizes, 1 / len(x))`` holds goes by the number of all rows."""
    for shown, held in numbers:
        counts = [data for data in held.data if data.placement is not Placement.SHARD]
        run.demand(shown, value(*counts), uses.A_COUNT if run.frames_forward() else uses.ARITHMETIC)


def _sizes(short: str, operands: Operands) -> list[Data]:
    """The numbers of rows by which a tensor is made, and not those that it is filled with."""
    given = [held for _, held in operands]
    if short in TYPED:  # LongTensor(n, 3), but not LongTensor([n, 3]) nor LongTensor(x.size())
        alone = given if len(given) > 1 else []
        return [a for held in alone for a in held.atoms if isinstance(a, Data)]
    # Perhaps the elements of all rows.
    in_a_line = short in made_dimensions.DRAWN and len(given) == 1
    made = given if short in _OF_A_SIZE or in_a_line else []
    if short == "randint":  # whose bounds are no sizes
        made = [held for held in given if any(True for _ in held.of(Tup, Instance))]
    return [a for held in made for a in deep_atoms(held) if isinstance(a, Data)]


def _makes_rows(name: str, short: str) -> bool:
    """Whether a function that is given a number of rows makes as many; others calculate with it."""
    if name.startswith("numpy.random."):
        return True
    if name.startswith("numpy."):
        return short in _NUMPYS_OF_A_SIZE
    return name.startswith("torch.") and short in TORCHS_OF_A_SIZE


def _sized(making: _Making, counts: list[Data]) -> Value:
    """A tensor made as long as this rank's rows is one of its shards."""
    run, node, short = making.run, making.node, making.short
    if short in ("arange", "range") and not run.collating and not _counts_from_zero(run, node):
        given = [one.value for one in node.args] if isinstance(node, cst.Call) else []
        bounds.count_sizes(run, given)
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    if [one for _, one in making.operands if bounds.count_unsure(run, one)]:
        return value(_GATHERED)
    for data in counts:
        run.facts.sizes.shape_uses.update(data.definition_sites)
    shown = list(local_sizes.parts_of(run, node, short)) if isinstance(node, cst.Call) else []
    sizes = [part for part in shown if part.data.placement is Placement.COUNT]
    if len(sizes) > 1 and run.module.editable and not run.collating:  # each sample beside all
        bounds.count_sizes(run, [part.node for part in sizes])
        return value(_PAIRS)
    several = any(count.form is NumberKind.MULTIPLE for count in counts)
    rows = replace(
        counts[0].placed(Placement.SHARD), dim=sizes[0].dim if sizes else 0, several=several
    )
    ndim = 0
    if short in made_dimensions.FILLED and isinstance(node, cst.Call):
        ndim = made_dimensions.of_call(run, node, making.name, short)
    rows = replace(rows, ndim=ndim)
    counted = [part.node for part in sizes]
    if short in ("randperm", "permutation"):
        rows = _in_random_order(run, node, short, rows, counts, counted)
    if short in _COUNTING:
        rows = replace(rows, form=NumberKind.RANGE, definition_sites=frozenset(counted))
    return value(rows)


def _in_random_order(
    run: RunState,
    node: cst.BaseExpression,
    short: str,
    rows: Data,
    counts: list[Data],
    shown: list[cst.BaseExpression],
) -> Data:
    """Positions of rows, drawn by a call that shows their numbers."""
    if not run.collating:
        current_batch.used(run, node, counts)
        run.facts.random.orders.setdefault(node, Draw(run.site(node), counts=shown))
    if short == "randperm":
        random_numbers.shared_in_forward(run, node)
    return replace(rows, form=Layout.PERMUTATION)


def _counts_from_zero(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is ``arange(n)``: any other has no number for each row."""
    given = [a.value for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    start, *step = [run.seen(given[i]).constant() for i in (0, 2) if i < len(given)] or [0]
    return len(given) == 1 or (len(given) > 1 and start == 0 and step in ([], [1]))
