"""What to say about a run that did not end well: the line where a rank failed, or where it
waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpify.verify.compare import causes, matching
from ddpify.verify.compare.loops import left_loop
from ddpify.verify.compare.records import Totals
from ddpify.verify.launch.launcher import Run
from ddpify.verify.verdict import Cause, Difference, What

TAIL = 12
_FRAME = re.compile(r'File "([^"]+)", line (\d+),? in (\S+)')
_PEER_GONE = re.compile(
    r"Connection (closed|reset) by peer|Connection refused|Broken pipe|Timed out waiting"
    r"|gloo.*timeout",
    re.IGNORECASE,
)
_KNOWN = {
    "Expected to have finished reduction in the prior iteration": (
        "a wrapped model's gradients were not complete when its next forward began",
        causes.UNUSED,
    ),
}
"""What PyTorch says of a pitfall, what that means, and its cause."""
_CUDA = re.compile(r"cuda|nccl|nvidia|\bgpus?\b|accelerator", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A line of the script, and the library function that it is in."""

    path: str
    line: int
    inside: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" (in {self.inside})" if self.inside else "")


def traceback_tail(run: Run) -> str:
    """The end of what the rank that failed first wrote to its standard error."""
    rank = run.first_failed if run.first_failed is not None else 0
    lines = run.text(rank, "err").rstrip().splitlines()
    start = max((at for at, line in enumerate(lines) if line.startswith("Traceback")), default=0)
    tail = lines[start:]
    if len(tail) > TAIL:
        tail = [tail[0], "  ...", *tail[-TAIL:]]
    status = run.status.get(rank, 0)
    ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    head = f"rank {rank} {ended}" if run.job.world_size > 1 else f"the script {ended}"
    return "\n".join([head, *tail])


def known(run: Run) -> Difference | None:
    """The pitfall that PyTorch itself has found, as it tells in the failed rank's traceback."""
    rank = run.first_failed
    if rank is None:
        return None
    said = run.text(rank, "err")
    for sign, (text, cause) in _KNOWN.items():
        if sign in said:
            place = _place(run, rank, kind="err")
            at = f"{place.path}:{place.line}" if place else ""
            return Difference(What.FAILURE, text, rank=rank, cause=cause, at=at)
    return None


def wants_cuda(run: Run) -> bool:
    """Whether a failed run complains about a missing GPU."""
    texts = (run.text(rank, kind)[-4000:] for rank in run.status for kind in ("err", "out"))
    return not run.ok and any(_CUDA.search(text) for text in texts)


def hang(run: Run, ranks: Sequence[Totals] = ()) -> Difference | None:
    """The ranks that wait for one another, if that is how the run ended."""
    cause = _cause(run, ranks) if ranks else causes.OTHER_COLLECTIVES
    if run.ended == "hung":
        return _waiting(run, {rank: _place(run, rank) for rank in sorted(run.status)}, cause)
    failed = run.first_failed
    left = [rank for rank, status in run.status.items() if status == 0]
    if failed is None or not left or not _PEER_GONE.search(run.text(failed, "err")):
        return None
    found = _place(run, failed, kind="err")
    where = f" at {found}" if found else ""
    text = f"rank {failed} waits{where} for rank {left[0]}, which has ended"
    at = f"{found.path}:{found.line}" if found else ""
    return Difference(What.HANG, text, rank=failed, cause=cause, at=at)


def _cause(run: Run, ranks: Sequence[Totals]) -> Cause:
    mismatch = matching.first(ranks, ended=False) or matching.surplus(ranks)
    if mismatch is None or left_loop(Path(run.job.root), mismatch):
        return causes.CONTROL_FLOW
    return mismatch.cause


def _waiting(run: Run, places: dict[int, Place | None], cause: Cause) -> Difference:
    parts = []
    for rank, place in places.items():
        if run.status[rank] == 0:
            parts.append(f"rank {rank} has ended")
        else:
            parts.append(f"rank {rank} waits at {place}" if place else f"rank {rank} still runs")
    first = next((rank for rank, place in places.items() if place), 0)
    found = places.get(first)
    text = f"no end after {run.seconds:.0f} s: " + "; ".join(parts)
    at = f"{found.path}:{found.line}" if found else ""
    return Difference(What.HANG, text, rank=first, cause=cause, at=at)


def _place(run: Run, rank: int, kind: str = "stack") -> Place | None:
    """The innermost line of the script itself in a stack dump (newest first) or a traceback."""
    frames = _FRAME.findall(run.text(rank, kind))
    if kind == "err":
        frames.reverse()
    for at, (path, line, _function) in enumerate(frames):
        if not path.startswith(("/", "<")):
            return Place(path, int(line), frames[0][2] if at else "")
    return None
