"""How far a difference may go: the effect of rounding on each tensor so far."""

from __future__ import annotations

import statistics

from ddpify.verify.compare.differences import TOLERANCE
from ddpify.verify.compare.evidence import Departure, sizes
from ddpify.verify.compare.records import Mark, Step, given
from ddpify.verify.verdict import What

ABOVE_FLOOR = 10.0
"""A difference counts when it is this many times what rounding alone does."""


class Floor:
    """Limits by kind of tensor, optimizer and index; cumulative over the steps.

    One run with noise may by luck hardly change some tensor: what it does to most tensors of the
    kind counts for each.
    """

    def __init__(self) -> None:
        self._sizes: dict[tuple[What, int, int], float] = {}
        self._usual: dict[tuple[What, int], float] = {}
        self.largest = TOLERANCE

    def raise_by(self, own: Step, noisy: Step | None) -> None:
        """Take in the difference that rounding-sized noise makes at one step."""
        if noisy is None or (noisy.optimizer, len(noisy.params)) != (
            own.optimizer,
            len(own.params),
        ):
            return
        pairs = [
            (What.PARAMETER, own.params, noisy.params),
            (What.GRADIENT, given(own.grads), given(noisy.grads)),
        ]
        if len(own.buffers) == len(noisy.buffers):
            pairs.append((What.BUFFER, own.buffers, noisy.buffers))
        for what, mine, other in pairs:
            grown = []
            for at, size in enumerate(sizes(mine, other)):
                key = (what, own.optimizer, at)
                self._sizes[key] = max(self._sizes.get(key, 0.0), size)
                grown.append(self._sizes[key])
            self._usual[what, own.optimizer] = statistics.median(grown or [0.0])

    def beyond(
        self, what: What, optimizer: int, marks: list[list[Mark]], first_rank: int
    ) -> list[Departure]:
        """Tensors that differ from the first list's in another one by more than their limit.

        Args:
            what: The kind of tensor.
            optimizer: The optimizer that they belong to.
            marks: A reference, then what is compared with it.
            first_rank: The rank that the second list belongs to.
        """
        found: dict[int, Departure] = {}
        usual = self._usual.get((what, optimizer), 0.0)
        for rank, others in enumerate(marks[1:], first_rank):
            for at, size in enumerate(sizes(marks[0], others)):
                floor = max(usual, self._sizes.get((what, optimizer, at), 0.0))
                limit = max(TOLERANCE, ABOVE_FLOOR * floor)
                self.largest = max(self.largest, limit)
                if size > limit and (at not in found or size > found[at].size):
                    found[at] = Departure(at, size, limit, rank)
        return sorted(found.values(), key=lambda item: item.at)
