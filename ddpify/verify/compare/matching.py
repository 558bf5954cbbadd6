"""Whether the ranks take part in the same collectives, and what it means if they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddpify.verify.compare import causes
from ddpify.verify.compare.records import Totals
from ddpify.verify.verdict import Cause, Difference, What

Call = tuple[str, Any, str]
"""A collective: its name, its tensor's shape, the script's line."""
SETTLED = 3
"""Calls from the same lines on both ranks, in a row, that make an earlier deviation a right one."""
_NONE: Call = ("", None, "")
_BACKWARD = "backward"
_FORWARD = "DistributedDataParallel.forward"


@dataclass(frozen=True)
class Mismatch:
    """The first place where rank 0 and another one do not take part in the same collective.

    Attributes:
        number: Its place in the order of collectives, from 1.
        rank: The other rank.
        mine: What rank 0 does there; None if it does nothing any more.
        theirs: What the other rank does.
        cause: What is probably behind it.
        line: The line that only one of the two reaches, or that of the collective.
        chains: The script's lines on the stack of rank 0 and of the other one.
    """

    number: int
    rank: int
    mine: Call | None
    theirs: Call | None
    cause: Cause
    line: str
    chains: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def difference(self) -> Difference:
        """The mismatch as a finding."""
        text = (
            f"collective {self.number} is {_shown(self.mine)} on rank 0, and "
            f"{_shown(self.theirs)} on rank {self.rank}"
        )
        called = f", called at {self.line}" if self.line not in text else ""
        return Difference(What.COLLECTIVE, text + called, rank=self.rank, cause=self.cause,
                          at=self.line)  # fmt: skip


def first(ranks: Sequence[Totals], *, ended: bool) -> Mismatch | None:
    """The first mismatch of any rank with rank 0.

    Args:
        ranks: The ranks' records.
        ended: Whether the ranks ran to their end, so that a missing collective is one too.
    """
    for rank, record in enumerate(ranks[1:], 1):
        found = _first(rank, ranks[0], record, ended=ended)
        if found is not None:
            return found
    return None


def _first(rank: int, own: Totals, other: Totals, *, ended: bool) -> Mismatch | None:
    """The first mismatch of two ranks.

    Calls may agree by chance for a while after one rank has made one too many: what led to the
    first of them that comes from elsewhere tells the cause, unless some from the same lines follow.
    """
    mine, theirs = own.collectives, other.collectives
    aside, since = None, 0
    for at in range(max(len(mine), len(theirs)) if ended else min(len(mine), len(theirs))):
        a, b = (calls[at] if at < len(calls) else None for calls in (mine, theirs))
        if a and b and a[:2] == b[:2]:
            if own.chains[at : at + 1] != other.chains[at : at + 1]:
                aside, since = at if aside is None else aside, at
            elif at - since >= SETTLED:
                aside = None
            if a == b or ended:
                continue
        place = at if aside is None else aside
        places = (_Place(place, own, other), _Place(place, other, own))
        line = next((one.line for one in places if one.line), "")
        chains = _chain(own, at), _chain(other, at)
        return Mismatch(at + 1, rank, a, b, _cause(places), line or (a or b or _NONE)[2], chains)
    return None


def _chain(record: Totals, at: int) -> tuple[str, ...]:
    return record.chains[at] if at < len(record.chains) else ()


def surplus(ranks: Sequence[Totals]) -> Mismatch | None:
    """Where a rank waits although the collectives agree as far as they go, if anywhere."""
    return first(ranks, ended=True)


class _Place:
    """A call of one rank, and the line that led to it and that another rank never reaches."""

    def __init__(self, at: int, own: Totals, other: Totals) -> None:
        self.call = own.collectives[at] if at < len(own.collectives) else None
        self.line = ""
        if self.call is not None and self.call[0] != _BACKWARD:
            known = {line for chain in other.chains for line in chain}
            known |= {one[2] for one in other.collectives}
            chain = own.chains[at] if at < len(own.chains) else (self.call[2],)
            self.line = next((line for line in chain if line not in known), "")


def _cause(places: Sequence[_Place]) -> Cause:
    """A call from a line that the other rank never reaches is conditional; else a loop ends, or a
    rank skips a part of it, which holds a backward."""
    for place in places:
        if place.call is not None and place.line:
            return causes.RANK_FORWARD if place.call[0] == _FORWARD else causes.COLLECTIVE
    return causes.CONTROL_FLOW


def _shown(call: Call | None) -> str:
    if call is None:
        return "none"
    return f"{call[0]} at {call[2]}" if call[2] else call[0]
