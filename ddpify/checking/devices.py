"""What would go wrong on GPUs alone: another rank's device, and moves after wrapping."""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.verify.judge import ranks
from ddpify.verify.verdict import Comparison, Kind


def device_findings(run: Recording) -> Iterator[Finding]:
    """What ``verify`` finds in the ranks' use of devices."""
    comparison = Comparison(run.world_size, Kind.EQUIVALENT)
    ranks.devices(comparison, run.totals)
    for one in comparison.differences:
        if one.cause is not None:
            concerned = run.ranks if one.rank is None else (one.rank,)
            yield finding(one.cause, one.text, one.at, None, concerned)
