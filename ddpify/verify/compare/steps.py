"""Comparison of the optimizer steps of one process with those of several ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpify.verify.compare import causes, records
from ddpify.verify.compare.evidence import Departure, Evidence, compare_rows, loss_relation, sizes
from ddpify.verify.compare.records import Mark, OptimizerStart, Step
from ddpify.verify.verdict import Cause, Difference, What

TOLERANCE = 1e-9
"""Smallest relative difference that counts, in double precision."""
LOSS_TOLERANCE = 1e-7
RATE_TOLERANCE = 1e-9
ABOVE_FLOOR = 10.0
"""A difference counts when it is this many times what rounding alone does."""


@dataclass
class StepFindings:
    """What the comparison of the steps found.

    Attributes:
        compared: Steps compared in full.
        largest: Largest relative difference of parameters and of gradients, original against ranks.
        limit: Largest limit that was applied.
        moved: Whether a parameter of the original changed.
        gradient: Whether a gradient of the original was anything but zero.
        differences: Those of the first step that differs, in causal order.
        rows_compared: Whether the rows that entered the model could be compared.
        rows_differ: First step at which they differ.
        rows_everywhere: Whether at that step each rank had all of the original's rows.
    """

    compared: int = 0
    largest: dict[What, float] = field(default_factory=dict)
    limit: float = TOLERANCE
    moved: bool = False
    gradient: bool = False
    differences: list[Difference] = field(default_factory=list)
    rows_compared: bool = False
    rows_differ: int | None = None
    rows_everywhere: bool = False

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
        self.floor: dict[tuple[What, int, int], float] = {}
        self.last = [
            {number: start.params for number, start in starts.items()} for starts in self.starts
        ]
        self.found = StepFindings()

    def run(self) -> StepFindings:
        found = self.found
        found.differences = self._compare_starts()
        for number, (own, noisy, ranks) in enumerate(self._steps(), 1):
            if found.differences:
                break
            present = [step for step in ranks if step is not None]
            if own is None or len(present) < len(ranks):
                found.differences = [_unpaired(number, own, ranks)]
                break
            self._raise_floor(own, noisy)
            found.differences = self._compare_step(number, own, present)
            found.compared = number
        return found

    def _steps(self) -> Iterator[tuple[Step | None, Step | None, list[Step | None]]]:
        own, *ranks = (records.steps(path) for path in self.paths)
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
                if number in starts and (found := _start(start, starts[number], rank)):
                    return [found]
        return []

    def _raise_floor(self, own: Step, noisy: Step | None) -> None:
        """The cumulative effect of rounding on each tensor."""
        if noisy is None or (noisy.optimizer, len(noisy.params)) != (
            own.optimizer,
            len(own.params),
        ):
            return
        pairs = (
            (What.PARAMETER, own.params, noisy.params),
            (What.GRADIENT, _given(own.grads), _given(noisy.grads)),
        )
        for what, mine, other in pairs:
            for at, size in enumerate(sizes(mine, other)):
                key = (what, own.optimizer, at)
                self.floor[key] = max(self.floor.get(key, 0.0), size)

    def _compare_step(self, number: int, own: Step, ranks: list[Step]) -> list[Difference]:
        for rank, step in enumerate(ranks):
            if (step.optimizer, len(step.params)) != (own.optimizer, len(own.params)):
                text = f"step {number} is another optimizer's, or of other parameters"
                return [Difference(What.STEPS, text, number, rank=rank, cause=causes.STEPS)]
        before = self._befores([own, *ranks])
        self.found.moved |= any(size > 0 for size in sizes(before[0], own.params))
        self.found.gradient |= any(mark and mark[0] for mark in own.grads)
        if between := self._between(number, own, before):
            return [between]
        evidence = self._gather(number, own, ranks)
        hard = [
            *_gradient(number, evidence),
            *_rates(number, evidence),
            *_parameter(number, evidence),
        ]
        return [*_before(number, own, ranks, evidence), *hard] if hard else []

    def _befores(self, steps: list[Step]) -> list[list[Mark]]:
        """The parameters before a step, of the original and of the ranks."""
        before = []
        for last, step in zip(self.last, steps, strict=True):
            before.append(step.before or last.get(step.optimizer, step.params))
            last[step.optimizer] = step.params
        return before

    def _between(self, number: int, own: Step, before: list[list[Mark]]) -> Difference | None:
        """A parameter that has left the original's, or the other ranks', since the last step."""
        apart = self._beyond(What.PARAMETER, own, before[1:], 1)
        off = apart or self._beyond(What.PARAMETER, own, before, 0)
        if not off:
            return None
        most = max(off, key=lambda item: item.size)
        start = self.starts[0].get(own.optimizer)
        name = start.names[most.at] if start else f"#{most.at}"
        how = "differs between the ranks" if apart else "is not the original's"
        text = f"{name} {how} before the step, and did not after the one before"
        size = (most.size, most.limit, most.rank)
        return Difference(What.BETWEEN, text, number, name, *size, causes.BETWEEN)

    def _gather(self, number: int, own: Step, ranks: list[Step]) -> Evidence:
        starts = [starts.get(own.optimizer) for starts in self.starts]
        evidence = Evidence(
            world_size=len(ranks),
            names=starts[0].names if starts[0] else [],
            batch_norm=any(start.batch_norm for start in starts[1:] if start),
            rows=compare_rows(own, ranks),
            loss=loss_relation(own, ranks, LOSS_TOLERANCE),
            rates=[own.lr, *(step.lr for step in ranks)],
        )
        grads, params = [_given(own.grads)], [own.params]
        for step in ranks:
            grads.append(_given(step.grads))
            params.append(step.params)
        evidence.gradients_apart = self._beyond(What.GRADIENT, own, grads[1:], 1)
        evidence.gradients_off = self._beyond(What.GRADIENT, own, grads, 0)
        evidence.parameters_apart = self._beyond(What.PARAMETER, own, params[1:], 1)
        evidence.parameters_off = self._beyond(What.PARAMETER, own, params, 0)
        if ranks:
            evidence.ratios = [
                other[0] / mine[0]
                for mine, other in zip(*grads[:2], strict=True)
                if mine[0] and other[0]
            ]
        self._remember(number, evidence, grads, params)
        return evidence

    def _remember(
        self, number: int, evidence: Evidence, grads: list[list[Mark]], params: list[list[Mark]]
    ) -> None:
        self.found.note(What.GRADIENT, grads[0], grads[1:])
        self.found.note(What.PARAMETER, params[0], params[1:])
        if evidence.rows is not None:
            self.found.rows_compared = True
            if not evidence.rows.same and self.found.rows_differ is None:
                self.found.rows_differ = number
                self.found.rows_everywhere = evidence.rows.everywhere

    def _beyond(
        self, what: What, own: Step, marks: list[list[Mark]], first_rank: int
    ) -> list[Departure]:
        """Tensors that differ from the first list's in another one, by more than their limit.

        ``first_rank``: the rank that the second list belongs to.
        """
        found: dict[int, Departure] = {}
        for rank, others in enumerate(marks[1:], first_rank):
            for at, size in enumerate(sizes(marks[0], others)):
                limit = max(TOLERANCE, ABOVE_FLOOR * self.floor.get((what, own.optimizer, at), 0.0))
                self.found.limit = max(self.found.limit, limit)
                if size > limit and (at not in found or size > found[at].size):
                    found[at] = Departure(at, size, limit, rank)
        return sorted(found.values(), key=lambda item: item.at)


def _given(marks: list[Mark | None]) -> list[Mark]:
    """Absent gradients count as zero: an unused parameter has either."""
    return [mark or (0.0, 0.0) for mark in marks]


def _start(own: OptimizerStart, other: OptimizerStart, rank: int) -> Difference | None:
    if len(own.params) != len(other.params):
        text = (
            f"the optimizer has {len(other.params)} parameters, in the original {len(own.params)}"
        )
        return Difference(What.START, text, rank=rank)
    for at, size in enumerate(sizes(own.params, other.params)):
        if size > TOLERANCE:
            text = f"before the first step, {own.names[at]} is not the original's"
            return Difference(
                What.START, text, None, own.names[at], size, TOLERANCE, rank, causes.START
            )
    return None


def _unpaired(number: int, own: Step | None, ranks: Sequence[Step | None]) -> Difference:
    if own is None:
        rank = next(rank for rank, step in enumerate(ranks) if step is not None)
        text = f"rank {rank} makes a step {number} that the original does not make"
    else:
        rank = next(rank for rank, step in enumerate(ranks) if step is None)
        text = f"rank {rank} makes {number - 1} steps; the original goes on"
    return Difference(What.STEPS, text, number, rank=rank, cause=causes.STEPS)


def _before(number: int, own: Step, ranks: list[Step], evidence: Evidence) -> Iterator[Difference]:
    """Data and loss: they explain a difference, but are none by themselves."""
    rows = evidence.rows
    if rows is not None and not rows.same:
        text = f"of {rows.total} rows that enter the model, {rows.missing} reach no rank"
        if rows.everywhere:
            text = f"each rank trains on all {rows.total} rows that enter the model"
        elif rows.extra:
            text += f" and {rows.extra} are not the original's or come twice"
        yield Difference(What.DATA, text, number, cause=causes.data(evidence))
    if evidence.loss == "other":
        values = ", ".join(f"{step.losses[-1][-1]:.8g}" for step in ranks)
        text = f"loss {values} on the ranks; original {own.losses[-1][-1]:.8g}"
        yield Difference(What.LOSS, text, number, cause=causes.gradient(evidence))


def _gradient(number: int, evidence: Evidence) -> Iterator[Difference]:
    cause = causes.gradient(evidence)
    if evidence.gradients_apart:
        found, text = evidence.gradients_apart, "differs between the ranks"
        yield _tensor(What.GRADIENT, number, evidence, found, text, cause)
    elif evidence.gradients_off:
        found, text = evidence.gradients_off, "is not the original's"
        yield _tensor(What.GRADIENT, number, evidence, found, text, cause)


def _rates(number: int, evidence: Evidence) -> Iterator[Difference]:
    own, *ranks = evidence.rates
    for rank, rates in enumerate(ranks):
        pairs = zip(own, rates, strict=False)
        if len(own) != len(rates) or any(abs(a - b) > RATE_TOLERANCE * abs(a) for a, b in pairs):
            text = f"learning rate {_listed(rates)} on rank {rank}; original {_listed(own)}"
            cause = causes.learning_rate(evidence)
            yield Difference(What.LEARNING_RATE, text, number, rank=rank, cause=cause)
            return


def _parameter(number: int, evidence: Evidence) -> Iterator[Difference]:
    cause = causes.parameter(evidence)
    if evidence.parameters_apart:
        found, text = evidence.parameters_apart, "differs between the ranks"
        yield _tensor(What.PARAMETER, number, evidence, found, text, cause)
    elif evidence.parameters_off:
        found, text = evidence.parameters_off, "is not the original's"
        yield _tensor(What.PARAMETER, number, evidence, found, text, cause)


def _tensor(
    what: What,
    number: int,
    evidence: Evidence,
    found: list[Departure],
    text: str,
    cause: Cause | None,
) -> Difference:
    """The difference of the tensor that departs most, and how many do."""
    most = max(found, key=lambda item: item.size)
    name = evidence.name(most.at)
    subject = f"{what.value} of {name}" if what is What.GRADIENT else name
    others = f" ({len(found)} of {len(evidence.names)} tensors)" if evidence.names else ""
    full = f"{subject} {text}{others}"
    return Difference(what, full, number, name, most.size, most.limit, most.rank, cause)


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values) or "none"
