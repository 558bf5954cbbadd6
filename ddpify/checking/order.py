"""The collectives of each rank, and ranks that wait for one another or fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.checking.state import skipped_updates
from ddpify.verify.compare import causes, failures, matching
from ddpify.verify.compare.loops import left_loop
from ddpify.verify.compare.matching import Mismatch
from ddpify.verify.verdict import Cause

UNEVEN = Cause(
    "the loader has more batches on one rank than on another",
    "let every rank take equally many batches (drop_last=True, or dd.shard(loader))",
    ("DDP114",),
)
ERRORS = (
    ("Expected to have finished reduction", "DDP316", "a parameter gets no gradient",
     "let every parameter take part in the loss, or set find_unused_parameters=True"),
    ("'DistributedDataParallel' object has no attribute", "DDP309",
     "an attribute of the model is read from its wrapper", "read it from model.module"),
    ("Default process group has not been initialized", "DDP423",
     "the process group is used before it is made", "call init_process_group first"),
    ("initialize the default process group twice", "DDP709",
     "the process group is made twice", "call init_process_group once"),
)  # fmt: skip
"""Errors that PyTorch raises for a pitfall: part of its text, rule, what happened, remedy."""
_LINE = re.compile(r'File "([^"/<][^"]*)", line (\d+)')


def order_findings(run: Recording) -> Iterator[Finding]:
    """A hang, a rank that fails for a known reason, or collectives that do not match."""
    outcome = run.outcome
    if found := _known_error(run):
        yield found
        return
    if found := skipped_updates(run):
        yield found
        return
    mismatch = matching.first(run.totals, ended=outcome.ok)
    # Ranks that ran out of time are at different lines because they were running.
    settled = outcome.ok or run.timed_out
    hang = None if settled else failures.hang(outcome.run, run.totals)
    if hang is not None and hang.cause is not None:
        cause = _cause(run, mismatch) or hang.cause
        where = f"; {_mismatched(mismatch)}" if mismatch else ""
        line = _line(run, mismatch) or hang.at
        yield finding(cause, hang.text + where, line, _step(run), run.ranks)
    elif mismatch is not None:
        cause = _cause(run, mismatch) or mismatch.cause
        line = _line(run, mismatch)
        yield finding(cause, _mismatched(mismatch), line, _step(run), (0, mismatch.rank))


def _step(run: Recording) -> int:
    """The step that the slowest rank was on its way to."""
    return min(map(len, run.steps)) + 1


def _mismatched(mismatch: Mismatch) -> str:
    return mismatch.difference().text


def _line(run: Recording, mismatch: Mismatch | None) -> str:
    """The line that only one of the ranks reaches, or rank 0's."""
    return _surplus(run) if mismatch is None else mismatch.line


def _surplus(run: Recording) -> str:
    """The line of the first collective that not every rank has begun."""
    counts = [len(totals.collectives) for totals in run.totals]
    if len(set(counts)) == 1:
        return ""
    longest = run.totals[counts.index(max(counts))]
    return longest.collectives[min(counts)][2]


def _uneven(run: Recording) -> bool:
    """Whether a pass came to its end on one rank with fewer batches than another rank took."""
    for together in zip(*run.readings, strict=False):
        for turn in range(min(len(one.passes) for one in together)):
            counts = [len(one.passes[turn]) for one in together]
            ended = [turn in one.complete for one in together]
            if any(end and count < max(counts) for end, count in zip(ended, counts, strict=True)):
                return True
    return False


def _cause(run: Recording, mismatch: Mismatch | None) -> Cause | None:
    """What the loaders and the script's loops tell about a mismatch; None: nothing."""
    if _uneven(run):
        return UNEVEN
    if _began_more(run) or (mismatch is not None and left_loop(run.root, mismatch)):
        return causes.CONTROL_FLOW
    return None


def _began_more(run: Recording) -> bool:
    """Whether a rank left a pass before its end, for another one that a second rank never began."""
    passes = [
        {(one.number, turn): len(batches) for one in loaders
         for turn, batches in enumerate(one.passes)}
        for loaders in run.readings
    ]  # fmt: skip
    complete = [{(one.number, t) for one in known for t in one.complete} for known in run.readings]
    for mine, ended in zip(passes, complete, strict=True):
        for theirs in passes:
            left = any(mine[key] < theirs.get(key, 0) for key in mine.keys() - ended)
            if left and mine.keys() - theirs.keys():
                return True
    return False


def _known_error(run: Recording) -> Finding | None:
    failed = run.outcome.run.first_failed
    if failed is None:
        return None
    text = run.outcome.run.text(failed, "err")
    for sign, code, what, remedy in ERRORS:
        if sign in text:
            lines = _LINE.findall(text)
            at = ":".join(lines[-1]) if lines else ""
            return Finding(code, what, remedy, at, _step(run), (failed,))
    return None
