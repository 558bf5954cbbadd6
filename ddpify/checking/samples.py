"""The samples that the ranks train on: the same ones twice, or in the same order every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Loader, Recording
from ddpify.verify.compare import causes
from ddpify.verify.compare.batches import Batch, Reading, aligned
from ddpify.verify.verdict import Cause

DISTRIBUTED = "DistributedSampler"
SHARED = 0.5
"""Share of a step's rows that another rank has too, from which samples count as the same."""

MOST_ROWS = 2_000
"""Rows of each rank that are searched for a run that another rank has too."""
MOST_TRAINED = 0.75
"""Share of the loaded samples that enter the model where a rank trains on all of them."""
MISSED = Cause(
    "the evaluation leaves out samples: the sampler or the loader drops what does not divide",
    "evaluate each sample once: drop_last=False and a sampler without padding, or dd.shard(loader)",
    ("DDP112",),
)
LEAST_RUN = 8
"""Different rows in a row, from which a run that two ranks have is no accident."""


def sample_findings(run: Recording) -> Iterator[Finding]:
    """What is wrong with each loader, and with batches that are made without one."""
    loaders = [together for together in aligned(run.readings) if _numbered_alike(together)]
    trained = [together for together in loaders if together[0].trains]
    leak = _leak(run, loaders, trained)
    if leak is not None:
        yield leak
        return
    for together in trained:
        found = _shared(run, together) or _same_order(run, together) or _content(run, together)
        if found is not None:
            yield found
    for together in loaders:
        found = None if together in trained else _padded(run, together) or _missed(run, together)
        if found is not None:
            yield found
    if not trained and (_rows_shared(run, everywhere=True) or _one_stream(run)):
        yield finding(causes.SAME_BATCHES, "", run.steps[0][0].at, 1, run.ranks)


def _numbered_alike(together: Sequence[Reading]) -> bool:
    return len({one.number for one in together}) == 1


def _line(run: Recording, reading: Reading) -> Loader:
    return run.loaders.get(reading.number) or Loader("", False, False, "")


def _key(batch: Batch, at: int) -> Any:
    """What a sample is known by: its index and its content; of a stream, the content alone."""
    mark = round(batch.marks[at], 6)
    return mark if batch.stream else (batch.roots[at], mark)


def _samples(batches: Sequence[Batch]) -> list[Any]:
    return [_key(batch, at) for batch in batches for at in range(len(batch.roots))]


def _first_pass(together: Sequence[Reading]) -> list[list[Batch]]:
    """The first pass of each rank without its last batch, which may hold padding."""
    count = min(len(one.passes[0]) for one in together)
    return [one.passes[0][: max(count - 1, 1)] for one in together]


def _shared(run: Recording, together: Sequence[Reading]) -> Finding | None:
    """Samples that several ranks train on in one pass."""
    loader = _line(run, together[0])
    taken = [_samples(batches) for batches in _first_pass(together)]
    alone = [Counter(samples) for samples in taken]
    if loader.replacement or "Weighted" in loader.sampler:
        if taken.count(taken[0]) < len(taken):
            return None
    elif any(max(count.values(), default=0) > 1 for count in alone):
        return None
    again = sum(sample in alone[0] for samples in taken[1:] for sample in samples)
    alike = taken.count(taken[0]) == len(taken)
    if not again or (alike and not _rows_shared(run) and not _trains_on_all(run, together[0])):
        return None
    seen = f"{again} samples of the first epoch are on rank 0 and on another rank"
    cause = _cause(run, loader, together, taken)
    return finding(cause, seen, loader.at, 1, run.ranks)


def _trains_on_all(run: Recording, reading: Reading) -> bool:
    """Whether rank 0 trains on whole batches, and on all of them, so that rows which differ among
    the ranks are no division but random changes, as mixing samples makes them."""
    calls = [call for step in run.steps[0] for call in step.rows]
    sizes = {len(batch.roots) for batches in reading.passes for batch in batches}
    loaded = sum(len(batch.roots) for batches in reading.passes for batch in batches)
    whole = bool(calls) and all(len(call) in sizes for call in calls)
    return whole and sum(map(len, calls)) >= MOST_TRAINED * loaded


def _cause(
    run: Recording, loader: Loader, together: Sequence[Reading], taken: list[list[Any]]
) -> Cause:
    if together[0].passes[0][0].stream:
        return causes.NOT_SPLIT_STREAM
    if loader.sampler == DISTRIBUTED:
        return causes.DOUBLED if taken[0] == taken[1] else causes.OVERLAP
    calls = [call for step in run.steps[0][:1] for call in step.rows]
    sliced = bool(calls) and max(map(len, calls)) < len(together[0].passes[0][0].roots)
    if not sliced:
        return causes.NOT_SPLIT
    return causes.DOUBLED if taken[0] == taken[1] else causes.OVERLAP


def _rows_shared(run: Recording, *, everywhere: bool = False) -> bool | None:
    """Whether the rows that enter the models are the same on several ranks; None: not known.

    With ``everywhere``, whether all of them are, in the same order, and change between steps: one
    constant batch is no data.
    """
    together = list(zip(*run.steps, strict=False))
    known = [steps for steps in together if all(any(step.rows) for step in steps)]
    if not known:
        return None
    if everywhere:
        alike = all(step.rows == steps[0].rows for steps in known for step in steps)
        varied = any(steps[0].rows != known[0][0].rows for steps in known)
        return alike and varied
    common = []
    for steps in known:
        own = {row for call in steps[0].rows for row in call}
        others = [row for step in steps[1:] for call in step.rows for row in call]
        common.append(sum(row in own for row in others) / max(len(others), 1))
    return sum(common) / len(common) > SHARED


def _one_stream(run: Recording) -> bool:
    """Whether two ranks train on the same run of rows, at other steps: they draw batches from one
    stream of random numbers, of which one rank has used more."""
    mine, theirs = (
        [row for step in steps for call in step.rows for row in call][:MOST_ROWS]
        for steps in run.steps[:2]
    )
    match = SequenceMatcher(None, mine, theirs, autojunk=False).find_longest_match()
    return len(set(mine[match.a : match.a + match.size])) >= LEAST_RUN


def _same_order(run: Recording, together: Sequence[Reading]) -> Finding | None:
    """A shuffled order that is the same in the first two passes."""
    loader = _line(run, together[0])
    if loader.sampler != DISTRIBUTED:
        return None
    for one in together:
        passes = _epochs(one)
        if len(passes) < 2:
            return None
        first, second = ([i for batch in turn for i in batch.ids] for turn in passes[:2])
        count = min(len(first), len(second))
        ordered = first == sorted(first, key=lambda i: (isinstance(i, str), i))
        if count < 4 or first[:count] != second[:count] or ordered:
            return None
    seen = "the first two epochs have the same samples in the same order"
    return finding(causes.SAME_ORDER, seen, loader.at, None, run.ranks)


def _epochs(reading: Reading) -> list[list[Batch]]:
    """The passes that came to their end, and the last one; not a look at one batch before."""
    last = len(reading.passes) - 1
    return [batches for turn, batches in enumerate(reading.passes)
            if turn in reading.complete or turn == last]  # fmt: skip


def _content(run: Recording, together: Sequence[Reading]) -> Finding | None:
    """Samples that are the same each time on one rank, and others on another rank.

    Ranks that take all indices do not divide a data set: each of them may have a shard of its own.
    """
    if not _divided(together):
        return None
    seen: dict[Any, dict[int, set[float]]] = {}
    again = 0
    for rank, one in enumerate(together):
        batches = [batch for turn in one.passes for batch in turn if not batch.stream]
        for root, mark in [pair for b in batches for pair in zip(b.roots, b.marks, strict=True)]:
            marks = seen.setdefault(root, {}).setdefault(rank, set())
            again += bool(marks)
            marks.add(round(mark, 6))
    steady = all(len(marks) == 1 for ranks in seen.values() for marks in ranks.values())
    other = sum(len(set.union(*ranks.values())) > 1 for ranks in seen.values())
    if not steady or not again or not other:
        return None
    told = f"{other} indices stand for other samples on another rank"
    return finding(causes.CONTENT, told, _line(run, together[0]).at, None, run.ranks)


def _divided(together: Sequence[Reading]) -> bool:
    """Whether the ranks take different indices in the first pass."""
    taken = [{root for batch in one.passes[0] for root in batch.roots} for one in together]
    return taken.count(taken[0]) < len(taken)


def _padded(run: Recording, together: Sequence[Reading]) -> Finding | None:
    """Samples that a sampler repeats where the ranks share an evaluation."""
    loader = _line(run, together[0])
    if loader.sampler != DISTRIBUTED or not all(0 in one.complete for one in together):
        return None
    taken = [_samples(one.passes[0]) for one in together]
    repeated = sum(map(len, taken)) - len({sample for samples in taken for sample in samples})
    if not repeated or len(set(map(tuple, taken))) == 1:
        return None
    cause = Cause(
        "the sampler repeats samples in the evaluation so that all ranks have equally many",
        "evaluate each sample once: a sampler without padding, or dd.shard(loader)",
        ("DDP112",),
    )
    return finding(cause, f"{repeated} samples count twice", loader.at, None, run.ranks)


def _missed(run: Recording, together: Sequence[Reading]) -> Finding | None:
    """Samples that no rank evaluates, although the ranks share the others."""
    loader = _line(run, together[0])
    complete = all(0 in one.complete for one in together)
    if not complete or not loader.length or loader.selects or not _divided(together):
        return None
    taken = {i for one in together for batch in one.passes[0] for i in batch.ids}
    missing = loader.length - len(taken)
    known = all(isinstance(i, int) for i in taken)
    if missing <= 0 or not known:
        return None
    seen = f"{missing} of {loader.length} samples are on no rank"
    return finding(MISSED, seen, loader.at, None, run.ranks)


def _leak(
    run: Recording, loaders: Sequence[list[Reading]], trained: Sequence[list[Reading]]
) -> Finding | None:
    """Samples that one rank trains on and another one evaluates, as no single rank does."""
    for held in loaders:
        for fit in trained:
            subsets = all(one.passes[0][0].subset for one in (*held, *fit))
            if held in trained or not subsets:
                continue
            tests = [_roots(one) for one in held]
            trains = [_roots(one) for one in fit]
            own = any(mine & also for mine, also in zip(tests, trains, strict=True))
            if not own and set.union(*tests) & set.union(*trains):
                return finding(causes.LEAK, "", _line(run, fit[0]).at, None, run.ranks)
    return None


def _roots(reading: Reading) -> set[Any]:
    return {root for batches in reading.passes for batch in batches for root in batch.roots}
