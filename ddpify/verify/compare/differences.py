"""Differences between one step of one process and the same step of several ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpify.verify.compare import causes, suspects
from ddpify.verify.compare.evidence import Departure, Evidence, sizes
from ddpify.verify.compare.records import OptimizerStart, Step
from ddpify.verify.verdict import Cause, Difference, What

TOLERANCE = 1e-9
"""Smallest relative difference that counts, in double precision."""
RATE_TOLERANCE = 1e-9


def start(own: OptimizerStart, other: OptimizerStart, rank: int) -> Difference | None:
    """Parameters that are not the original's before the first step."""
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


def unpaired(number: int, own: Step | None, ranks: Sequence[Step | None]) -> Difference:
    """A step that some run does not make."""
    if own is None:
        rank = next(rank for rank, step in enumerate(ranks) if step is not None)
        text = f"rank {rank} makes a step {number} that the original does not make"
    else:
        rank = next(rank for rank, step in enumerate(ranks) if step is None)
        text = f"rank {rank} makes {number - 1} steps; the original goes on"
    unequal = any(step is None for step in ranks) and any(ranks)
    cause = causes.CONDITIONAL if unequal else causes.STEPS
    at = next((step.at for step in ranks if step), "")
    return Difference(What.STEPS, text, number, rank=rank, cause=cause, at=at)


def pairing(number: int, own: Step, ranks: Sequence[Step]) -> Difference | None:
    """Steps that are no pair: of other optimizers, or without a backward of their own."""
    kinds = [(step.optimizer, len(step.params)) for step in ranks]
    for rank, step in enumerate(ranks):
        if own.losses and not step.losses:
            text = f"step {number} comes without a backward since the step before"
            cause = causes.EXTRA_STEPS
            return Difference(What.STEPS, text, number, rank=rank, cause=cause, at=step.at)
        if kinds[rank] != (own.optimizer, len(own.params)):
            text = f"step {number} is another optimizer's, or of other parameters"
            cause = causes.STEPS if len(set(kinds)) == 1 else causes.CONDITIONAL
            return Difference(What.STEPS, text, number, rank=rank, cause=cause, at=step.at)
    return None


def between(number: int, evidence: Evidence, found: list[Departure], *, apart: bool) -> Difference:
    """A parameter that has left the original's, or the other ranks', since the last step."""
    most = max(found, key=lambda item: item.size)
    name = evidence.name(most.at)
    how = "differs between the ranks" if apart else "is not the original's"
    text = f"{name} {how} before the step, and did not after the one before"
    cause = causes.CONDITIONAL if evidence.unequal_calls else causes.BETWEEN
    return Difference(What.BETWEEN, text, number, name, most.size, most.limit, most.rank, cause)


def all_of(number: int, own: Step, ranks: Sequence[Step], evidence: Evidence) -> list[Difference]:
    """The differences of one step in causal order; a loss counts only beside another one."""
    hard = [
        *_gradient(number, evidence),
        *_rates(number, evidence),
        *_parameter(number, evidence),
        *_buffer(number, evidence),
    ]
    return [*_loss(number, own, ranks, evidence), *hard] if hard else []


def _loss(
    number: int, own: Step, ranks: Sequence[Step], evidence: Evidence
) -> Iterator[Difference]:
    if evidence.loss == "other":
        values = ", ".join(f"{step.losses[-1][-1]:.8g}" for step in ranks)
        text = f"loss {values} on the ranks; original {own.losses[-1][-1]:.8g}"
        cause = suspects.gradient(evidence)
        yield Difference(What.LOSS, text, number, cause=cause, at=evidence.at)


def _gradient(number: int, evidence: Evidence) -> Iterator[Difference]:
    apart, off = evidence.gradients_apart, evidence.gradients_off
    if evidence.absent:
        text = "no parameter that the optimizer holds has a gradient"
        cause = causes.ZEROED_EARLY if evidence.cleared else causes.STUCK
        yield Difference(What.GRADIENT, text, number, cause=cause, at=evidence.at)
    elif apart or off:
        text = "differs between the ranks" if apart else "is not the original's"
        cause = suspects.gradient(evidence)
        yield _tensor(What.GRADIENT, number, evidence, apart or off, text, cause)


def _rates(number: int, evidence: Evidence) -> Iterator[Difference]:
    own, *ranks = evidence.rates
    for rank, rates in enumerate(ranks):
        if not _same_rates(own, rates):
            text = f"learning rate {_listed(rates)} on rank {rank}; original {_listed(own)}"
            cause = suspects.learning_rate(evidence)
            yield Difference(What.LEARNING_RATE, text, number, rank=rank, cause=cause)
            return


def _same_rates(own: list[float], rates: list[float]) -> bool:
    """Whether groups have equal rates; of groups that are divided otherwise, whether each rate is
    one of the other's."""
    if len(own) == len(rates):
        return all(_close(a, b) for a, b in zip(own, rates, strict=True))
    return all(any(_close(a, b) for b in rates) for a in own) and all(
        any(_close(a, b) for a in own) for b in rates
    )


def _close(own: float, rate: float) -> bool:
    return abs(own - rate) <= RATE_TOLERANCE * abs(own)


def _parameter(number: int, evidence: Evidence) -> Iterator[Difference]:
    apart, off = evidence.parameters_apart, evidence.parameters_off
    if apart or off:
        text = "differs between the ranks" if apart else "is not the original's"
        explained = evidence.gradients_apart or evidence.gradients_off
        cause = None if explained else suspects.parameter(evidence)
        yield _tensor(What.PARAMETER, number, evidence, apart or off, text, cause)


def _buffer(number: int, evidence: Evidence) -> Iterator[Difference]:
    if evidence.buffers_off:
        most = max(evidence.buffers_off, key=lambda item: item.size)
        name = evidence.buffers[most.at]
        text = f"{name} is not the original's"
        size = (most.size, most.limit, most.rank)
        yield Difference(What.BUFFER, text, number, name, *size, suspects.buffer(evidence))


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
    size = (most.size, most.limit, most.rank)
    return Difference(what, f"{subject} {text}{others}", number, name, *size, cause, at=evidence.at)


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values) or "none"
