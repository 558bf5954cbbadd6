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
    """

    number: int
    rank: int
    mine: Call | None
    theirs: Call | None
    cause: Cause

    def difference(self) -> Difference:
        """The mismatch as a finding."""
        text = (
            f"collective {self.number} is {_shown(self.mine)} on rank 0, and "
            f"{_shown(self.theirs)} on rank {self.rank}"
        )
        at = (self.mine or self.theirs or ("", None, ""))[2]
        return Difference(What.COLLECTIVE, text, rank=self.rank, cause=self.cause, at=at)


def first(ranks: Sequence[Totals], *, ended: bool) -> Mismatch | None:
    """The first mismatch of any rank with rank 0.

    Args:
        ranks: The ranks' records.
        ended: Whether the ranks ran to their end, so that a missing collective is one too.
    """
    own = ranks[0].collectives
    for rank, record in enumerate(ranks[1:], 1):
        theirs = record.collectives
        for at in range(max(len(own), len(theirs)) if ended else min(len(own), len(theirs))):
            a, b = (calls[at] if at < len(calls) else None for calls in (own, theirs))
            if a is None or b is None or a != b:
                if a and b and a[:2] == b[:2] and ended:
                    continue  # from other lines, but the same
                return Mismatch(at + 1, rank, a, b, _cause(a, b, own, theirs))
    return None


def leftover(ranks: Sequence[Totals]) -> Cause:
    """Why a rank waits although the collectives agree as far as they go."""
    own = ranks[0].collectives
    for record in ranks[1:]:
        shorter, longer = sorted((own, record.collectives), key=len)
        if len(shorter) < len(longer):
            return _cause(longer[len(shorter)], None, longer, shorter)
    return causes.CONTROL_FLOW


def _cause(a: Call | None, b: Call | None, own: Sequence[Call], theirs: Sequence[Call]) -> Cause:
    """A call from a line that the other rank never reaches is conditional; else a loop ends, or a
    rank skips a part of it, which holds a backward."""
    for call, others in ((a, theirs), (b, own)):
        if call is not None and call[0] != _BACKWARD and not any(o[2] == call[2] for o in others):
            return causes.RANK_FORWARD if call[0] == _FORWARD else causes.COLLECTIVE
    return causes.CONTROL_FLOW


def _shown(call: Call | None) -> str:
    if call is None:
        return "none"
    return f"{call[0]} at {call[2]}" if call[2] else call[0]
