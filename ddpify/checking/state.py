"""Parameters, buffers, rates and optimizer states, compared among ranks after each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.verify.compare import causes, suspects
from ddpify.verify.compare.evidence import SMALL, Departure, Evidence, sizes
from ddpify.verify.compare.records import Mark, OptimizerStart, Step, given
from ddpify.verify.verdict import Cause

LIMIT = 1e-9
"""Relative difference of equal tensors in double precision, at most."""

UNEQUAL_START = Cause(
    "the ranks' models begin with different values, and nothing makes them equal",
    "wrap the model in DistributedDataParallel, or broadcast rank 0's values before the first step",
    ("DDP322",),
)
CHANGED_AFTER_WRAP = Cause(
    "the ranks' models begin with different values, although the wrapper made them equal",
    "change or load parameters before wrapping, or on every rank alike",
    ("DDP308",),
)
UNEQUAL_STATE = Cause(
    "the optimizer's state differs between the ranks",
    "load and change the optimizer's state on every rank alike",
    ("DDP407",),
)

_UPDATING = frozenset({"Optimizer.zero_grad", "LRScheduler.step", "ReduceLROnPlateau.step",
                       "GradScaler.update"})  # fmt: skip
"""Calls that every rank makes equally often."""
_OWN = "a buffer is computed from each rank's own samples, and nothing makes it equal"
OWN_BUFFER = replace(causes.BUFFER, text=_OWN)
OWN_STATISTICS = replace(causes.BATCH_NORM, text=_OWN)


def state_findings(run: Recording) -> Iterator[Finding]:
    """The first difference of each optimizer's parameters, and what made it."""
    for number in sorted({number for known in run.optimizers for number in known}):
        series = [[s for s in steps if s.optimizer == number] for steps in run.steps]
        counts = [len(steps) for steps in series]
        finished = run.outcome.ok or (run.outcome.run.job.stop and not run.timed_out)
        if len(set(counts)) > 1 and finished:
            yield _unequal_counts(run, series, counts)
        elif min(counts):
            yield from _Series(run, number, series).find()


def skipped_updates(run: Recording) -> Finding | None:
    """A rank that lies two steps or more behind another one, although a wrapper joins every step.

    Ranks that exchange gradients cannot be that far apart, unless one leaves out updates.
    """
    for number in sorted({number for known in run.optimizers for number in known}):
        series = [[s for s in steps if s.optimizer == number] for steps in run.steps]
        counts = [len(steps) for steps in series]
        start = run.optimizers[counts.index(max(counts))].get(number)
        if start is not None and start.wrapped and max(counts) - min(counts) > 1:
            return _unequal_counts(run, series, counts)
    return None


def _unequal_counts(run: Recording, series: Sequence[Sequence[Step]], counts: list[int]) -> Finding:
    longest = max(series, key=len)
    seen = " and ".join(f"{count} on rank {rank}" for rank, count in enumerate(counts))
    return finding(
        causes.CONDITIONAL, f"steps are {seen}", longest[0].at, min(counts) + 1, run.ranks
    )


class _Series:
    """The steps of one optimizer on all ranks, equally many or cut to the fewest."""

    def __init__(self, run: Recording, number: int, series: list[list[Step]]) -> None:
        self.run = run
        self.starts: list[OptimizerStart] = [known[number] for known in run.optimizers]
        self.steps = list(zip(*series, strict=False))
        self.states = list(zip(*run.states(number), strict=False))
        self.number = number

    def find(self) -> Iterator[Finding]:
        """The first difference in the parameters or rates, else in the buffers or the state."""
        begins = apart([start.params for start in self.starts])
        synchronised = not self._unsynchronised()
        if begins and synchronised:
            made_equal = any(one["init_sync"] for one in self.run.events(0, "wrapped"))
            cause = CHANGED_AFTER_WRAP if made_equal else UNEQUAL_START
            yield self._finding(cause, 0, self._names(begins))
            return
        for at in range(len(self.steps)):
            found = self._at(at)
            if found is not None:
                yield found
                return
        yield from self._buffers()
        yield from self._state()
        yield from self._calls()

    def _unsynchronised(self) -> bool:
        """Whether gradients differ at the first step: then the start is not the root."""
        return bool(apart([given(step.grads) for step in self.steps[0]]))

    def _at(self, at: int) -> Finding | None:
        """What differs first at one step; before it, all was equal."""
        steps = self.steps[at]
        before = [step.before for step in steps]
        if at and any(before):
            known = self.steps[at - 1]
            now = [own or step.params for own, step in zip(before, known, strict=True)]
            if changed := apart(now):
                return self._finding(causes.BETWEEN, at, self._names(changed))
        if any(step.lr != steps[0].lr for step in steps):
            cause = suspects.learning_rate(self._evidence(at, []))
            rates = ", ".join(f"{step.lr[0]:g} on rank {r}" for r, step in enumerate(steps))
            return self._finding(cause, at, rates)
        changed = apart([step.params for step in steps])
        return self._changed(at, changed) if changed else None

    def _changed(self, at: int, changed: list[Departure]) -> Finding:
        evidence = self._evidence(at, changed)
        gradients = bool(evidence.gradients_apart)
        cause = (suspects.gradient if gradients else suspects.parameter)(evidence)
        if cause is causes.CONDITIONAL and not gradients and not evidence.unequal_calls:
            cause = UNEQUAL_STATE if self._states_apart(at) else causes.CONDITIONAL
        seen = self._names(changed)
        if at == 0 and apart([start.params for start in self.starts]):
            seen += "; the models began differently, too"
        return self._finding(cause, at, seen)

    def _evidence(self, at: int, changed: list[Departure]) -> Evidence:
        steps, start = self.steps[at], self.starts[0]
        earlier = self.steps[at - 1] if at else None
        calls = [
            _since(step.calls, earlier[rank].calls if earlier else {})
            for rank, step in enumerate(steps)
        ]
        return Evidence(
            world_size=self.run.world_size,
            names=start.names,
            batch_norm=start.batch_norm,
            rows=None,
            loss=None,
            gradients_apart=_gradients_apart(steps),
            parameters_apart=changed,
            rates=[step.lr for step in (steps[0], *steps)],
            backwards=steps[0].forwards,
            synchronised=steps[0].synchronised,
            clips=[step.clips for step in (steps[0], *steps)],
            calls=[calls[0], *calls],
            places=start.places,
            wrapped=start.wrapped,
            module_read=steps[0].module_read,
            unequal_calls=any(one != calls[0] for one in calls),
            first=at == 0,
            at=steps[0].at,
        )

    def _buffers(self) -> Iterator[Finding]:
        """Buffers that go their own ways; a wrapper that sends rank 0's brings them together."""
        wrappers = list(self.run.events(0, "wrapped"))
        if any(one["broadcast_buffers"] for one in wrappers):
            return
        for at, steps in enumerate(self.steps):
            if changed := apart([step.buffers for step in steps]):
                cause = OWN_STATISTICS if self.starts[0].batch_norm else OWN_BUFFER
                names = [self.starts[0].buffers[one.at] for one in changed]
                found = self._finding(cause, at, _listed(names))
                yield replace(found, at=wrappers[0]["at"]) if wrappers else found
                return

    def _state(self) -> Iterator[Finding]:
        for at in range(len(self.states)):
            if names := self._states_apart(at):
                yield self._finding(UNEQUAL_STATE, at, _listed(names))
                return

    def _calls(self) -> Iterator[Finding]:
        """Gradients that are cleared, or schedulers that step, on some ranks only."""
        for at, steps in enumerate(self.steps):
            for name in steps[0].calls:
                counts = [step.calls.get(name, 0) for step in steps]
                if len(set(counts)) > 1 and name in _UPDATING:
                    seen = f"calls of {name} so far, by rank: {', '.join(map(str, counts))}"
                    yield self._finding(causes.CONDITIONAL, at, seen)
                    return

    def _states_apart(self, at: int) -> list[str]:
        """Entries of the optimizer's state that differ after a step."""
        states = self.states[at] if at < len(self.states) else ()
        keys = sorted(set.intersection(*map(set, states))) if states else []
        found = apart([[state[key] for key in keys] for state in states])
        return [keys[one.at] for one in found]

    def _names(self, changed: list[Departure]) -> str:
        names = [self.starts[0].names[one.at] for one in changed]
        return f"first {names[0]} differs, by {changed[0].size:.1e} of its norm" + (
            f", and {len(names) - 1} more" if len(names) > 1 else ""
        )

    def _finding(self, cause: Cause, at: int, seen: str) -> Finding:
        return finding(cause, seen, self.steps[at][0].at, at + 1, self.run.ranks)


def apart(ranks: Sequence[Sequence[Mark]]) -> list[Departure]:
    """The tensors that differ between rank 0 and another rank."""
    found: dict[int, Departure] = {}
    for rank, marks in enumerate(ranks[1:], 1):
        if len(marks) != len(ranks[0]):
            continue
        for at, size in enumerate(sizes(ranks[0], marks)):
            if size > LIMIT and at not in found:
                found[at] = Departure(at, size, LIMIT, rank)
    return [found[at] for at in sorted(found)]


def _gradients_apart(steps: Sequence[Step]) -> list[Departure]:
    """The gradients that differ: all, where those that do not are nothing but rounding."""
    marks = [given(step.grads) for step in steps]
    found = apart(marks)
    largest = max((norm for rank in marks for norm, _ in rank), default=0.0)
    known = {one.at for one in found}
    for at in range(len(marks[0])):
        if at not in known and any(rank[at][0] >= SMALL * largest for rank in marks):
            return found
    return [Departure(at, 0.0, LIMIT, 0) for at in range(len(marks[0]))] if found else []


def _since(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in now.items()}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
