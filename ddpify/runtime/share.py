"""How the current batch is shared among the ranks.

Every iterator of a sharded or replicated loader is a Loop. The loop that yielded last says how
its batch is shared; when an inner loop ends, the loop around it does again.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ddpify.runtime.rng import own_torch_stream


@dataclass(frozen=True, slots=True)
class Share:
    """This rank's part of a global batch of ``total`` samples: ``local`` of them, in ``rows`` rows.

    A rank that a short batch leaves without a sample holds a ghost: one row that counts for none.
    """

    local: int
    total: int
    rows: int

    @property
    def ghost(self) -> bool:
        """Whether this rank's only row is a copy that must count for nothing."""
        return self.local == 0


def bounds(total: int, rank: int, size: int) -> tuple[int, int]:
    """First and past-the-last index of a rank's part: contiguous, uneven ones larger at first."""
    base, extra = divmod(total, size)
    first = rank * base + min(rank, extra)
    return first, first + base + (rank < extra)


def share_of(total: int, rank: int, size: int) -> Share | None:
    """A rank's share of ``total`` samples; None (replicated) of an empty batch."""
    if total == 0:
        return None
    first, last = bounds(total, rank, size)
    return Share(last - first, total, max(last - first, 1))


class Loop:
    """One iteration over a loader; ``share`` is its latest batch's, None for a replicated one."""

    __slots__ = ("kept", "share")

    def __init__(self) -> None:
        self.share: Share | None = None
        self.kept = False  # dropped by the script, but its last batch is still current


class Loops:
    """The iterations under way, innermost last, and the share that the last one to end had."""

    def __init__(self) -> None:
        self.running: list[Loop] = []
        self.ended: Share | None = None
        self.by_hand: Share | None = None  # of the latest batch that no loader made
        self.forwards = 0
        self.totals: set[int] = set()  # the sizes of the batches that are shared

    def yielded(self, loop: Loop) -> None:
        """``loop`` has just yielded: its share holds now."""
        if loop.share is not None:
            self.totals.add(loop.share.total)
        running = self.running
        if running and running[-1] is loop:
            return
        self.running = [other for other in running if other is not loop and not other.kept]
        self.running.append(loop)

    def made(self, share: Share | None) -> None:
        """The script has made a batch itself: its share holds now."""
        if self.running:
            self.running[-1].share = share
        else:
            self.by_hand = share

    def repeated(self, loop: Loop) -> None:
        """A batch that came before is given again: ``loop`` says how it is shared."""
        if self.running:
            self.yielded(loop)
        else:
            self.by_hand, self.ended = None, loop.share

    def exhausted(self, loop: Loop) -> None:
        """``loop`` has no more batches: the loop around it holds again."""
        if loop in self.running:
            self.running.remove(loop)
            self.ended = loop.share

    def dropped(self, loop: Loop, *, keep: bool) -> None:
        """``loop`` was left early; on ``keep`` its batch stays current until the next."""
        if keep:
            loop.kept = True
        else:
            self.exhausted(loop)


_loops = Loops()


def loops() -> Loops:
    """The iterations of this process."""
    return _loops


def current_share() -> Share | None:
    """The share of the current batch; None for a replicated one, and before any loop.

    After the outermost loop that is still its last batch: scripts go on to use it.
    """
    return _loops.running[-1].share if _loops.running else _loops.by_hand or _loops.ended


def replicated() -> contextlib.AbstractContextManager[None]:
    """Inside, values that the script creates are replicated, whatever the current batch is.

    For functions that draw random rows for a batch in one call, and for all ranks alike in
    another. Around a statement: ``with dd.replicated():``. No communication.
    """
    return sharing(None)


@contextlib.contextmanager
def sharing(share: Share | None) -> Iterator[None]:
    """Inside, the current batch is shared so; with None, every rank holds all of it."""
    loop = Loop()
    loop.share = share
    _loops.running.append(loop)
    try:
        yield
    finally:
        _loops.running.remove(loop)


@contextlib.contextmanager
def inside_forward(place: torch.device) -> Iterator[None]:
    """Mark that a wrapped model's forward pass is under way on ``place``.

    On this rank's rows of a batch it draws from the rank's own stream, else from the shared one.
    """
    own = own_torch_stream(place) if current_share() is not None else contextlib.nullcontext()
    _loops.forwards += 1
    try:
        with own:
            yield
    finally:
        _loops.forwards -= 1


def in_forward() -> bool:
    """Whether a wrapped model's forward pass is under way."""
    return _loops.forwards > 0
