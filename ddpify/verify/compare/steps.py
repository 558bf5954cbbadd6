"""The second question: do several ranks compute, step for step, what one process computes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ddpify.verify.compare import differences, gradients, inputs, models, records, windows
from ddpify.verify.compare.differences import TOLERANCE
from ddpify.verify.compare.evidence import (
    Departure,
    Evidence,
    RowComparison,
    compare_rows,
    loss_ratio,
    loss_relation,
    sizes,
)
from ddpify.verify.compare.floor import Floor
from ddpify.verify.compare.records import Mark, Step
from ddpify.verify.verdict import Difference, What

LOSS_TOLERANCE = 1e-7


@dataclass
class StepFindings:
    """What the comparison of the steps found.

    Attributes:
        compared: Steps compared in full.
        largest: Largest relative difference by kind of tensor, original against ranks.
        limit: Largest limit that was applied.
        moved: Whether a parameter of the original changed.
        gradient: Whether a gradient of the original was anything but zero.
        differences: Those of the first step that differs, in causal order.
        rows_compared: Whether the rows that entered the model could be compared.
        rows_differ: First step at which they differ.
        rows: How they differ at that step.
        batch_norm: Whether the ranks normalise their batches each by itself.
        syncs: Backwards of a wrapped model at each step on rank 0, the most.
        correction: How far a variance may be off that is corrected for the number of rows, as some
            rows enter the model whole on every rank.
        others_apart: A tensor of a model outside of the optimizer that differs between the ranks.
        settings: A layer's setting that is not the original's, in words.
    """

    compared: int = 0
    largest: dict[What, float] = field(default_factory=dict)
    limit: float = TOLERANCE
    moved: bool = False
    gradient: bool = False
    differences: list[Difference] = field(default_factory=list)
    rows_compared: bool = False
    rows_differ: int | None = None
    rows: RowComparison | None = None
    batch_norm: bool = False
    syncs: int = 0
    correction: float = 0.0
    others_apart: str = ""
    settings: str = ""

    def note(self, what: What, reference: list[Mark], others: list[list[Mark]]) -> None:
        """Remember the largest difference of its kind."""
        found = max((size for marks in others for size in sizes(reference, marks)), default=0.0)
        self.largest[what] = max(self.largest.get(what, 0.0), found)


def compare(original: Path, ranks: Sequence[Path], noisy: Path | None = None) -> StepFindings:
    """Compare the recorded steps; stops at the first step that differs.

    Args:
        original: Record of the one process.
        ranks: Records of the ranks, in order.
        noisy: Record of the original with rounding-sized noise, which sets the limits.
    """
    return _Comparer(original, ranks, noisy).run()


def moves(original: Path) -> StepFindings:
    """The original alone: whether its parameters move and how many steps it makes."""
    return _Comparer(original, [], None).run()


class _Comparer:
    def __init__(self, original: Path, ranks: Sequence[Path], noisy: Path | None) -> None:
        self.paths = [original, *ranks]
        self.noisy = noisy
        self.starts = [records.optimizers(path) for path in self.paths]
        self.orders = self._align()
        self.floor = Floor()
        self.calls: list[dict[str, int]] = []
        self.seen: set[int] = set()
        self.harmless: set[str] = set()
        self.last = [
            {number: start.params for number, start in starts.items()} for starts in self.starts
        ]
        starts = [start for rank in self.starts[1:] for start in rank.values()]
        self.found = StepFindings(batch_norm=any(start.batch_norm for start in starts))

    def _align(self) -> list[dict[int, list[int]]]:
        """Put each rank's parameters into the original's order: by name, not by group."""
        orders: list[dict[int, list[int]]] = []
        for starts in self.starts:
            found = {}
            for number, start in starts.items():
                own = self.starts[0].get(number)
                order = records.order_of(own, start) if own else None
                if order and order != sorted(order):
                    found[number] = order
                    starts[number] = records.in_order(start, order)
            orders.append(found)
        return orders

    def _read(self, path: Path, orders: dict[int, list[int]]) -> Iterator[Step]:
        for step in records.steps(path):
            order = orders.get(step.optimizer)
            yield records.in_order(step, order) if order else step

    def run(self) -> StepFindings:
        found = self.found
        found.differences = self._compare_starts()
        for number, (own, noisy, ranks) in enumerate(self._steps(), 1):
            if found.differences:
                break
            present = [step for step in ranks if step is not None]
            if own is None or len(present) < len(ranks):
                found.differences = [differences.unpaired(number, own, ranks)]
                break
            self.floor.raise_by(own, noisy)
            found.differences = self._compare_step(number, own, present)
            found.compared = number
        found.limit = self.floor.largest
        return found

    def _steps(self) -> Iterator[tuple[Step | None, Step | None, list[Step | None]]]:
        own, *ranks = map(self._read, self.paths, self.orders)
        noisy = records.steps(self.noisy) if self.noisy else iter(())
        while True:
            first = next(own, None)
            others = [next(rank, None) for rank in ranks]
            if first is None and not any(others):
                return
            yield first, next(noisy, None), others

    def _compare_starts(self) -> list[Difference]:
        own, *ranks = self.starts
        for number, start in own.items():
            for rank, starts in enumerate(ranks):
                if number in starts and (found := differences.start(start, starts[number], rank)):
                    return [found]
        return []

    def _compare_step(self, number: int, own: Step, ranks: list[Step]) -> list[Difference]:
        if window := windows.other(number, own, ranks, self.paths):
            return [window]
        rows = compare_rows(own, ranks)
        if self.found.rows is None and (
            window := windows.shorter(number, own, ranks, rows, self.paths)
        ):
            return [window]
        if unpaired := differences.pairing(number, own, ranks):
            return [unpaired]
        before = self._befores([own, *ranks])
        self.found.moved |= any(size > 0 for size in sizes(before[0], own.params))
        self.found.gradient |= any(mark and mark[0] for mark in own.grads)
        evidence = self._situation(own, ranks, self._noted(number, rows))
        self.found.settings = evidence.settings
        if between := self._between(number, own, before, evidence):
            return [between]
        limit = self.floor.largest
        if outside := models.outside(number, own, ranks, limit):
            return [outside]
        if mode := models.dropout(number, own, ranks):
            return [mode]
        self.found.others_apart = self.found.others_apart or models.apart(ranks, limit)
        self._measure(own, ranks, evidence)
        self.seen.add(own.optimizer)
        return differences.all_of(number, own, ranks, evidence)

    def _befores(self, steps: list[Step]) -> list[list[Mark]]:
        """The parameters before a step, of the original and of the ranks."""
        before = []
        for last, step in zip(self.last, steps, strict=True):
            before.append(step.before or last.get(step.optimizer, step.params))
            last[step.optimizer] = step.params
        return before

    def _between(
        self, number: int, own: Step, before: list[list[Mark]], evidence: Evidence
    ) -> Difference | None:
        apart = self.floor.beyond(What.PARAMETER, own.optimizer, before[1:], 1)
        off = apart or self.floor.beyond(What.PARAMETER, own.optimizer, before, 0)
        return differences.between(number, evidence, off, apart=bool(apart)) if off else None

    def _situation(self, own: Step, ranks: list[Step], rows: RowComparison | None) -> Evidence:
        """What surrounds the numbers of a step."""
        starts = [starts.get(own.optimizer) for starts in self.starts]
        mine, first = starts[0], starts[1] if len(starts) > 1 else None
        calls = [step.calls for step in ranks]
        return Evidence(
            world_size=len(ranks),
            names=mine.names if mine else [],
            buffers=mine.buffers if mine else [],
            batch_norm=self.found.batch_norm,
            rows=rows,
            loss=loss_relation(own, ranks, LOSS_TOLERANCE),
            rates=[own.lr, *(step.lr for step in ranks)],
            backwards=ranks[0].forwards if ranks else [],
            synchronised=ranks[0].synchronised if ranks else [],
            clips=[own.clips, *(step.clips for step in ranks)],
            options=[start.options if start else [] for start in starts],
            calls=self._counted([own, *ranks]),
            loss_ratio=loss_ratio(own, ranks),
            roots=[own.roots, *(step.roots for step in ranks)],
            places=first.places if first else [],
            wrapped=bool(first and first.wrapped),
            module_read=any(step.module_read for step in ranks),
            unequal_calls=any(found != calls[0] for found in calls),
            first=own.optimizer not in self.seen,
            at=ranks[0].at if ranks else "",
            settings=models.other_setting(mine, first),
            kept=self._kept(own, ranks),
            modes=models.modes(own, ranks),
            types=[start.type if start else "" for start in starts],
            cleared=not own.cleared and any(step.cleared for step in ranks),
            changed=[gradients.changed(step) for step in (own, *ranks)],
            changed_early=any(step.changed_early for step in ranks),
            targets=inputs.other_targets(own, ranks),
            same_pairs=inputs.same_pairs(own, ranks),
            even=len({sum(map(len, step.rows)) for step in ranks}) == 1,
        )

    def _kept(self, own: Step, ranks: list[Step]) -> str:
        """A tensor that outlives the steps and is not the original's; empty where none is.

        One that an earlier round made, and that was not the original's before, had no effect then.
        """
        limit = self.floor.largest
        carried = inputs.other_carried(own, ranks, limit)
        new = next((name for name in carried if name not in self.harmless), "")
        self.harmless.update(carried)
        return models.kept(own, ranks, limit) or new

    def _counted(self, steps: list[Step]) -> list[dict[str, int]]:
        """What each run called since the last step."""
        before = self.calls or [{} for _ in steps]
        self.calls = [step.calls for step in steps]
        return [
            {name: count - last.get(name, 0) for name, count in calls.items()}
            for last, calls in zip(before, self.calls, strict=True)
        ]

    def _noted(self, number: int, rows: RowComparison | None) -> RowComparison | None:
        """The same rows, of which the findings know by now."""
        if rows is not None:
            self.found.rows_compared = True
            if rows.repeated:
                self.found.correction = max(self.found.correction, 1 / rows.repeated)
            if self.found.rows is None and not rows.same:
                self.found.rows_differ, self.found.rows = number, rows
        return rows

    def _measure(self, own: Step, ranks: list[Step], evidence: Evidence) -> None:
        """Put the departures of gradients, parameters and buffers into ``evidence``."""
        number = own.optimizer
        beyond = partial(self.floor.beyond, What.GRADIENT, number)
        grads = gradients.comparable(own, ranks, beyond)
        evidence.gradients_apart = beyond(grads[1:], 1)
        evidence.gradients_off = beyond(grads, 0)
        params = [own.params, *(step.params for step in ranks)]
        starts = [starts.get(number) for starts in self.starts[:2]]
        buffers = [own.buffers, *models.buffers(starts, own, ranks[:1])]
        evidence.parameters_apart = self.floor.beyond(What.PARAMETER, number, params[1:], 1)
        evidence.parameters_off = self.floor.beyond(What.PARAMETER, number, params, 0)
        off = self.floor.beyond(What.BUFFER, number, buffers, 0)
        evidence.buffers_off = [item for item in off if not self._is_correction(item, evidence)]
        for what, marks in (
            (What.GRADIENT, grads),
            (What.PARAMETER, params),
            (What.BUFFER, buffers),
        ):
            self.found.note(what, marks[0], marks[1:])
        if ranks:
            pairs = list(zip(*grads[:2], strict=True))
            evidence.ratios = [b[0] / a[0] for a, b in pairs if a[0] and b[0]]
            evidence.absent = any(a[0] for a, _ in pairs) and not any(ranks[0].grads)
            sent = zip(ranks[0].forwards, ranks[0].synchronised, strict=True)
            self.found.syncs = max(self.found.syncs, sum(bool(n and sync) for n, sync in sent))

    def _is_correction(self, item: Departure, evidence: Evidence) -> bool:
        """Whether a buffer differs by no more than n / (n - 1) does for other numbers n of rows."""
        named = evidence.buffers[item.at].endswith("running_var")
        return named and item.size <= self.found.correction
