"""Take out the chance that depends on how a batch is split.

Dropout becomes the identity. A sample's augmentation is drawn from a seed of its index, whoever
fetches it. A random tensor drawn inside the training loop (noise, masks) follows from its place in
the loop, on every rank alike. Where the ranks draw for their own samples alone, fewer rows than one
process draws, they get rows that are all equal, and so does that process at the same place.
Samplers, shuffles and initialisation draw as always. So does all but a sample's augmentation where
no other run is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable

from ddpify.verify.inside import array_draws, draws, dropout, samples
from ddpify.verify.inside.place import PLACE


def install(
    *, gpus: bool = False, equal_at: Iterable[tuple[int, int, int]] = (), compared: bool = True
) -> None:
    """Prepare this process; the random states are the caller's business.

    Args:
        gpus: Whether the script runs on real GPUs, which draw from generators of their own.
        equal_at: Places of random tensors whose rows are all the same.
        compared: Whether another run must draw alike.
    """
    PLACE.gpus, PLACE.equal_at = gpus, frozenset(equal_at)
    samples.install()
    if not compared:
        return
    dropout.install()
    draws.install()
    array_draws.install()
