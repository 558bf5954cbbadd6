"""Gradients that are exchanged twice, collectives of groups, and what each step exchanges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.verify.compare import causes
from ddpify.verify.verdict import Cause

TWICE = Cause(
    "gradients that the wrapper has averaged are reduced once more",
    "leave the reduction to DistributedDataParallel, or do not wrap the model",
    ("DDP409",),
)
SCALES = Cause(
    "the gradient scaler's factor differs between the ranks: each has seen overflows of its own",
    "step and update the scaler on every rank alike; sharded models need ShardedGradScaler",
    ("DDPF07",),
)
_WRAPPER = ("backward", "DistributedDataParallel")
LEAST_STEPS = 3
"""Steps in a row that a barrier is met in, from which it belongs to the step."""


def exchange_findings(run: Recording) -> Iterator[Finding]:
    """Each line that reduces gradients which the wrapper has averaged, and unequal loss scales."""
    lines = {event["at"] for event in run.events(0, "again")}
    for at in sorted(lines):
        yield finding(TWICE, "", at, None, run.ranks)
    for scales in zip(*(run.events(rank, "scale") for rank in run.ranks), strict=False):
        values = [event["value"] for event in scales]
        if len(set(values)) > 1:
            seen = ", ".join(f"{value:g} on rank {rank}" for rank, value in enumerate(values))
            yield finding(SCALES, seen, scales[0]["at"], None, run.ranks)
            return


def group_findings(run: Recording) -> Iterator[Finding]:
    """Groups whose ranks do not take part in the same collectives."""
    calls: defaultdict[tuple[int, ...], dict[int, list[Any]]] = defaultdict(dict)
    waiting = False
    for rank in run.ranks:
        last = None
        for event in run.all_events(rank):
            if event["event"] == "grouped":
                call = (event["op"], event["shape"], event["at"])
                calls[tuple(event["ranks"])].setdefault(rank, []).append(call)
            last = event["event"] if event["event"] in ("grouped", "collective") else last
        waiting |= last == "grouped"
    for members, own in calls.items():
        ranks = [own.get(rank, []) for rank in members if rank in run.ranks]
        found = _mismatch(ranks, ended=run.outcome.ok or waiting)
        if found is not None:
            seen = f"in the group of ranks {', '.join(map(str, members))}, collective {found[0]}"
            yield finding(causes.COLLECTIVE, seen, found[1], None, members)


def _mismatch(ranks: Sequence[list[Any]], *, ended: bool) -> tuple[int, str] | None:
    """The number and the line of the first call that not all ranks of a group make."""
    lengths = [len(calls) for calls in ranks]
    for at in range(max(lengths) if ended else min(lengths)):
        present = [calls[at] for calls in ranks if at < len(calls)]
        if len(present) < len(ranks) or len({str(call[:2]) for call in present}) > 1:
            return at + 1, present[-1][2]
    return None


def exchange_notes(run: Recording) -> Iterator[str]:
    """What the script itself exchanges in a step, and what of it can be left out."""
    steps = list(_by_step(run))
    if not steps:
        return
    middle = steps[len(steps) // 2]
    if middle:
        size = sum(event["size"] for event in middle)
        yield f"collectives in a step besides the gradients': {len(middle)}, of {size} bytes"
    barriers = Counter(at for own in steps for at in {e["at"] for e in own if e["op"] == "barrier"})
    for at, count in barriers.items():
        if count >= max(LEAST_STEPS, len(steps) - 1):
            yield f"{at}: a barrier in each step, which only costs time (ddpify rule DDP802)"
    if again := _micro_batches(run):
        yield again


def _by_step(run: Recording) -> Iterator[list[dict[str, Any]]]:
    """The collectives before each step of rank 0, without the wrapper's; those of the first step
    hold what comes before the training, and are left out."""
    own: list[dict[str, Any]] = []
    first = True
    for event in run.all_events(0):
        if event["event"] == "collective" and not event["op"].startswith(_WRAPPER):
            own.append(event)
        elif event["event"] == "step":
            if not first:
                yield own
            first, own = False, []


def _micro_batches(run: Recording) -> str:
    """Steps whose every micro-batch is exchanged, though the last one is enough."""
    for step in run.steps[0]:
        count = sum(step.synchronised)
        if count > 1 and sum(map(bool, step.forwards)) == len(step.forwards) == count:
            return (
                f"{step.at}: the wrapper exchanges gradients {count} times for a step; no_sync "
                "for all but the last micro-batch saves time (ddpify rule DDP801)"
            )
    return ""
