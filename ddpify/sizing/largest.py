"""The largest batch whose step fits, by search."""

from __future__ import annotations

from collections.abc import Callable

from ddpify.sizing.measuring import Measurement

_CLOSE = 0.001
"""Batches that differ by no more than this part are not told apart."""
_TRIALS = 40


def largest_batch(found: Measurement, free: float, most: int | None, parts: int = 1) -> int | None:
    """Samples of the largest batch that a rank has room for.

    Batches are tried by ``found.steps``, as a step of the script without memory. Where it has none,
    or they have failed, what a batch keeps is calculated from the two that were measured.

    Args:
        found: What was measured.
        free: Bytes of the rank's device that a step can take.
        most: Samples that there are for a rank; None where that is not known.
        parts: What each parameter is divided into.

    Returns:
        None where activations were not measured.
    """
    if not found.per_sample:
        return None

    def fits(batch: int) -> bool:
        kept = found.tried(batch) or found.calculated(batch)
        return found.needed(kept, parts) <= free

    guess = int((free - found.needed(found.calculated(0), parts)) / found.growth)
    if most is not None and guess >= most and fits(most):
        return most
    return search(fits, guess if most is None else min(guess, most))


def search(fits: Callable[[int], bool], guess: int) -> int:
    """The largest number from 1 on that fits, to a thousandth; 0 where none does.

    Strides from the guess grow until one number fits and another does not; then they are halved.
    """
    low, high, at = 0, 0, max(guess, 1)
    stride = max(int(_CLOSE * at), 1)
    for _ in range(_TRIALS):
        if fits(at):
            low = at
        else:
            high = at
        if high and high - low <= max(_CLOSE * low, 1):
            break
        if low and high:
            at = (low + high) // 2
        else:
            at = at + stride if low else max(at - stride, 1)
            stride *= 2
    return low
