"""How far a difference may go: the effect of rounding on each tensor so far."""

from __future__ import annotations

from ddpify.verify.compare.differences import TOLERANCE
from ddpify.verify.compare.evidence import Departure, sizes
from ddpify.verify.compare.records import Mark, Step, given
from ddpify.verify.verdict import What

ABOVE_FLOOR = 10.0
"""A difference counts when it is this many times what rounding alone does."""


class Floor:
    """Limits by kind of tensor, optimizer and index; cumulative over the steps."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[What, int, int], float] = {}
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
            for at, size in enumerate(sizes(mine, other)):
                key = (what, own.optimizer, at)
                self._sizes[key] = max(self._sizes.get(key, 0.0), size)

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
        for rank, others in enumerate(marks[1:], first_rank):
            for at, size in enumerate(sizes(marks[0], others)):
                limit = max(TOLERANCE, ABOVE_FLOOR * self._sizes.get((what, optimizer, at), 0.0))
                self.largest = max(self.largest, limit)
                if size > limit and (at not in found or size > found[at].size):
                    found[at] = Departure(at, size, limit, rank)
        return sorted(found.values(), key=lambda item: item.at)
