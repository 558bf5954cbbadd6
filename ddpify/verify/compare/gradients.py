"""Which gradients of a step are compared, and what happened to them before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ddpify.verify.compare.evidence import Departure
from ddpify.verify.compare.records import Mark, Step, given

Beyond = Callable[[Sequence[list[Mark]], int], list[Departure]]
"""The departures of some runs' tensors from the first one's, from a rank on."""


def comparable(own: Step, ranks: Sequence[Step], beyond: Beyond) -> list[list[Mark]]:
    """The gradients of the original and of the ranks.

    Those that were handed to clipping, whose scale clipping hides. Where some runs clip by
    PyTorch's functions and others by hand, those that were handed to the step, if they agree.
    """
    steps = [own, *ranks]
    unclipped = [given(step.grads) for step in steps]
    if len({bool(step.clips) for step in steps}) == 1:
        return unclipped
    used = [given(step.used or step.grads) for step in steps]
    return unclipped if beyond(used, 0) or not beyond(unclipped, 0) else used


def changed(step: Step) -> int:
    """How many gradients were changed between backward and step, or clipping."""
    pairs = zip(step.arrived, step.grads, strict=False)
    return sum(before is not None and before != after for before, after in pairs)
