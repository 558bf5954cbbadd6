"""What is known about the step at which two runs part: the material for naming a cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ddpify.verify.compare.records import Mark, Step

SMALL = 1e-4
"""A tensor is measured against its norm, or against this share of the largest norm beside it.

With the smallest tolerance, what counts is above 1e-13 of that norm. Gradients that cancel, as
those of a bias in front of a BatchNorm, are rounding: some 1e-15 of it for 100,000 pixels.
"""
ROW_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Departure:
    """One tensor beyond its limit.

    Attributes:
        at: Its index in the optimizer.
        size: Its relative difference.
        limit: The largest that would have passed.
        rank: The rank that shows the largest.
    """

    at: int
    size: float
    limit: float
    rank: int


@dataclass(frozen=True)
class RowComparison:
    """The rows that entered the model on all ranks, against those of the one process.

    Attributes:
        missing: Rows of the original that no rank had.
        extra: Rows of the ranks beyond the original's.
        total: Rows of the original.
        everywhere: Whether every rank had the same rows.
        repeated: Rows of calls besides that every rank makes with the whole of the original's rows:
            samples to look at, say. They are no part of the other numbers.
    """

    missing: int
    extra: int
    total: int
    everywhere: bool
    repeated: int

    @property
    def same(self) -> bool:
        """Whether the ranks together had the original's rows."""
        return not self.missing and not self.extra


@dataclass
class Evidence:
    """What one step shows.

    Attributes:
        world_size: Number of ranks.
        names: The parameters' names.
        batch_norm: Whether the converted model normalises each rank's batch by itself.
        rows: The rows that entered the model; None where they cannot be compared.
        loss: How the ranks' losses give the original's ("equal", "mean", "sum"), "other", or None.
        gradients_apart: Tensors whose gradients differ between ranks.
        gradients_off: Tensors whose gradients differ from the original's on some rank.
        ratios: Norm of rank 0's gradient by the original's, where neither is zero.
        parameters_apart: Tensors that differ between ranks after the step.
        parameters_off: Tensors that differ from the original's after the step.
        rates: Learning rates by rank, the original's first.
        backwards: Calls of the wrapped model before each backward on rank 0.
        synchronised: Whether each of those backwards averages gradients.
        clips: Clippings by rank, the original's first, as their steps have them.
        options: The optimizer's options of each parameter by rank, the original's first.
        calls: Calls of what changes training since the step before, by rank, the original's first.
        loss_ratio: Mean of the ranks' losses by the original's; None where it is none.
        roots: The operations that made the losses, the original's first.
        places: For each parameter, whether the wrapper averages its gradient: "averaged",
            "frozen" (when it was wrapped) or "outside".
        wrapped: Whether there is a wrapped model.
        module_read: Whether the script reaches through the wrapper while it trains.
        unequal_calls: Whether the ranks called schedulers, zero_grad or load_state_dict unequally
            often.
        first: Whether this is the optimizer's first step.
        buffers: The buffers' names.
        buffers_off: Buffers of rank 0 that differ from the original's after the step.
        absent: Whether the ranks' optimizers hold no gradient where the original's does.
        at: The converted script's line that makes the step.
        settings: A layer's setting that is not the original's, in words; empty where all are.
        kept: A tensor that outlives the steps and is not the original's; empty where all are.
        modes: Whether layers are in evaluation mode that are not in the other run: in the original,
            and on a rank.
        types: The optimizer's class by rank, the original's first.
        cleared: Whether the ranks alone clear gradients between backward and step.
        changed: How many gradients each run changed between backward and step, the original first.
        changed_early: Whether a rank changed a gradient before it entered a collective.
        targets: How the losses' targets are not the original's, in words; empty where they are.
        same_pairs: Whether the losses take the original's predictions with their targets.
        even: Whether the ranks have equally many rows.
    """

    world_size: int
    names: list[str]
    batch_norm: bool
    rows: RowComparison | None
    loss: str | None
    gradients_apart: list[Departure] = field(default_factory=list)
    gradients_off: list[Departure] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    parameters_apart: list[Departure] = field(default_factory=list)
    parameters_off: list[Departure] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    synchronised: list[bool] = field(default_factory=list)
    clips: list[list[list[str | float]]] = field(default_factory=list)
    options: list[list[dict[str, float]]] = field(default_factory=list)
    calls: list[dict[str, int]] = field(default_factory=list)
    loss_ratio: float | None = None
    roots: list[list[str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    wrapped: bool = False
    module_read: bool = False
    unequal_calls: bool = False
    first: bool = False
    buffers: list[str] = field(default_factory=list)
    buffers_off: list[Departure] = field(default_factory=list)
    absent: bool = False
    at: str = ""
    settings: str = ""
    kept: str = ""
    modes: tuple[bool, bool] = (False, False)
    types: list[str] = field(default_factory=list)
    cleared: bool = False
    changed: list[int] = field(default_factory=list)
    changed_early: bool = False
    targets: str = ""
    same_pairs: bool = False
    even: bool = False

    def name(self, at: int) -> str:
        """The name of parameter ``at``."""
        return self.names[at] if at < len(self.names) else f"#{at}"


def sizes(reference: Sequence[Mark], other: Sequence[Mark]) -> Iterator[float]:
    """Relative difference of each tensor of ``other`` from ``reference``; infinite where one is
    NaN."""
    least = SMALL * max((norm for norm, _ in reference if norm == norm), default=0.0)
    for (norm, along), (norm_, along_) in zip(reference, other, strict=True):
        difference = max(abs(norm - norm_), abs(along - along_))
        if difference != difference:
            yield 0.0 if norm != norm and norm_ != norm_ else float("inf")
        else:
            scale = max(norm, least) or max(norm_, abs(along_))
            yield difference / scale if difference else 0.0


def compare_rows(own: Step, ranks: Sequence[Step]) -> RowComparison | None:
    """Compare the samples that entered the model, whatever their order and their rank.

    Samples lie along dim 0, or along dim 1 where rows differ in size and columns do not, or are the
    items of a list. None where none fits.
    """
    if not own.rows or not any(step.rows for step in ranks):
        return None
    items = _compared_items(own, ranks)
    if items is not None:
        return items
    shapes = {(step.row_size, step.column_size) for step in (own, *ranks) if step.rows}
    if len({size for size, _ in shapes}) == 1:
        return _compared(own.rows, [step.rows for step in ranks])
    if own.columns and len({size for _, size in shapes}) == 1:
        return _compared(own.columns, [step.columns for step in ranks])
    return None


def _compared_items(own: Step, ranks: Sequence[Step]) -> RowComparison | None:
    """Compare the items of lists; None where they are no samples.

    A list of a model's several inputs has as many items on each rank as in the original, and each
    item has a part of the samples.
    """
    if not own.items or not all(step.items for step in ranks):
        return None
    found = _compared(own.items, [step.items for step in ranks])
    lengths = {tuple(map(len, step.items)) for step in (own, *ranks)}
    return found if found.same or len(lengths) > 1 else None


Calls = Sequence[Sequence[float]]
"""The rows of each call of a model."""


def _compared(own: Calls, ranks: Sequence[Calls]) -> RowComparison:
    """The samples of one process against those of the ranks.

    A rank without a sample of its own repeats one, in each of its calls: rows that the original has
    are none too many then.
    """
    whole = _whole(own, ranks)
    repeated = sum(len(own[at]) for at in whole)
    wanted, *found = (_joined(calls, whole) for calls in (own, *ranks))
    missing, extra = unmatched(wanted, [row for rows in found for row in rows])
    repeats = [row for row in extra if _has(wanted, row)]
    everywhere = len(ranks) > 1 and all(not any(unmatched(found[0], rows)) for rows in found[1:])
    if len(extra) == len(repeats) <= _spare(ranks, whole, several=not everywhere):
        extra = []
    return RowComparison(len(missing), len(extra), len(wanted), everywhere, repeated)


def _spare(ranks: Sequence[Calls], whole: set[int], *, several: bool) -> int:
    """How many rows may be repeated by ranks without a sample: one sample's in each of their calls.

    That is a single row or, where samples may have ``several``, as many as the first rank's begin
    with. One rank at least has a sample of its own.
    """
    lonely = [
        sum(
            len(rows)
            for at, rows in enumerate(calls)
            if at not in whole
            and (len(rows) == 1 or (several and rank and _begins(ranks[0], at, rows)))
        )
        for rank, calls in enumerate(ranks)
    ]
    return max(len(ranks) - 1, sum(sorted(lonely)[1:]))


def _begins(calls: Calls, at: int, rows: Sequence[float]) -> bool:
    """Whether a call of a rank starts with these rows."""
    start = calls[at][: len(rows)] if at < len(calls) else ()
    return len(start) == len(rows) and not any(unmatched(start, rows))


def _whole(own: Calls, ranks: Sequence[Calls]) -> set[int]:
    """The calls that every rank makes with all rows of the original's; none if those are all."""
    if len(ranks) == 1 or any(len(calls) != len(own) for calls in ranks):
        return set()
    pairs = [zip(own, calls, strict=True) for calls in ranks]
    same = [[not any(unmatched(a, b)) for a, b in pair] for pair in pairs]
    whole = {at for at, answers in enumerate(zip(*same, strict=True)) if all(answers)}
    return whole if len(whole) < len(own) else set()


def _joined(calls: Calls, without: set[int]) -> list[float]:
    return [row for at, rows in enumerate(calls) if at not in without for row in rows]


def unmatched(first: Sequence[float], second: Sequence[float]) -> tuple[list[float], list[float]]:
    """The numbers of each that the other lacks, up to rounding."""
    a, b = sorted(first), sorted(second)
    i = j = 0
    only_a: list[float] = []
    only_b: list[float] = []
    while i < len(a) and j < len(b):
        if _close(a[i], b[j], ROW_TOLERANCE):
            i, j = i + 1, j + 1
        elif a[i] < b[j]:
            only_a.append(a[i])
            i += 1
        else:
            only_b.append(b[j])
            j += 1
    return only_a + a[i:], only_b + b[j:]


def _has(rows: Sequence[float], row: float) -> bool:
    return any(_close(row, other, ROW_TOLERANCE) for other in rows)


def _close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def loss_relation(own: Step, ranks: Sequence[Step], tolerance: float) -> str | None:
    """How the values that backward was called on, on the ranks, give the original's.

    "equal" (each rank has the original's), "mean" (plain or weighted by rows), "sum", or "other";
    None without a loss or with another number of backward calls.
    """
    shapes = {tuple(map(len, step.losses)) for step in (own, *ranks)}
    if len(shapes) != 1 or not own.losses:
        return None
    wanted = [value for call in own.losses for value in call]
    values = [[value for call in step.losses for value in call] for step in ranks]
    weights = [sum(map(len, step.rows)) for step in ranks]
    columns = list(zip(*values, strict=True))

    def matches(candidates: list[float]) -> bool:
        pairs = zip(wanted, candidates, strict=True)
        return all(_close(a, b, tolerance) for a, b in pairs)

    if all(matches(list(mine)) for mine in values):
        return "equal"
    if matches([sum(column) / len(ranks) for column in columns]):
        return "mean"
    total = sum(weights)
    if total and matches([_weighted(column, weights) / total for column in columns]):
        return "mean"
    return "sum" if matches([sum(column) for column in columns]) else "other"


def loss_ratio(own: Step, ranks: Sequence[Step]) -> float | None:
    """The mean of the ranks' losses by the original's; None without as many losses."""
    losses = [[value for call in step.losses for value in call] for step in (own, *ranks)]
    if len(set(map(len, losses))) != 1 or len(losses) < 2 or not sum(losses[0]):
        return None
    return sum(map(sum, losses[1:])) / len(ranks) / sum(losses[0])


def _weighted(values: Sequence[float], weights: Sequence[int]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True))
