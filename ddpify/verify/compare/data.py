"""The first question: do the ranks together train on the original's samples, in its batches?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from ddpify.verify.compare import causes
from ddpify.verify.compare.batches import Batch, GlobalBatch, Reading, aligned, together
from ddpify.verify.verdict import Cause, Coverage

CONTENT = 1e-6
"""Relative difference of two samples' contents that counts."""


@dataclass
class DataFindings:
    """What the indices of the samples show.

    Attributes:
        compared: Whether both runs train on loaders whose samples are known by index.
        cause: Why the data differ; None where they do not.
        reordered: Whether the samples come in another order besides.
        text: The difference in a sentence.
        everywhere: Whether each rank reads all samples, be it to train on its slice of them.
        stream: Whether the samples have no indices, and are known by their content alone.
        coverage: Samples of each pass over each loader that is trained on.
    """

    compared: bool = False
    cause: Cause | None = None
    text: str = ""
    reordered: bool = False
    everywhere: bool = False
    stream: bool = False
    coverage: list[Coverage] = field(default_factory=list)


@dataclass(frozen=True)
class _Pass:
    """One pass over a loader: the original's batches and the ranks' global ones."""

    own: list[Batch]
    batches: list[GlobalBatch]
    complete: bool
    world_size: int

    @property
    def wanted(self) -> Counter[Any]:
        return Counter(root for batch in self.own for root in batch.roots)

    @property
    def found(self) -> Counter[Any]:
        return Counter(root for batch in self.batches for root in batch.roots())

    @property
    def by_rank(self) -> list[set[Any]]:
        ranks = range(self.world_size)
        return [
            {root for batch in self.batches if (part := batch.parts[rank]) for root in part.roots}
            for rank in ranks
        ]

    @property
    def everywhere(self) -> bool:
        return bool(self.batches) and all(batch.everywhere for batch in self.batches)

    @property
    def padded(self) -> bool:
        """Whether the last global batch is filled up with samples that came before it."""
        before = Counter(root for batch in self.batches[:-1] for root in batch.roots())
        extra = self.found - self.wanted
        most = max((len(batch.roots()) for batch in self.batches), default=0)
        whole = self.complete and not self.wanted - self.found and not before - self.wanted
        return whole and 0 < extra.total() < most

    @property
    def cut_short(self) -> bool:
        """Whether samples are missing at the end alone: the batches before the last are whole."""
        size = len(self.own[0].roots) if self.own else 0
        sizes = {len(batch.roots()) for batch in self.batches[:-1]}
        missing = (self.wanted - self.found).total()
        return len(sizes) == 1 and min(sizes) >= size and missing < max(sizes)

    @property
    def reordered(self) -> bool:
        """Whether the batches before the last are not the original's."""
        pairs = zip(self.own[:-1], self.batches[:-1], strict=False)
        return not all(_same_samples(own, batch, self.world_size) for own, batch in pairs)

    @property
    def batchwise(self) -> bool:
        """Whether every global batch has the original's samples."""
        pairs = zip(self.own, self.batches, strict=False)
        same = all(_same_samples(own, batch, self.world_size) for own, batch in pairs)
        return same and (len(self.own) == len(self.batches) or not self.complete)


def _same_samples(own: Batch, batch: GlobalBatch, world_size: int) -> bool:
    """Whether the samples are the same; ranks beyond a short batch's size repeat its first."""
    extra = Counter(batch.roots())
    extra.subtract(own.roots)
    if not any(extra.values()):
        return True
    spare = max(world_size - len(own.roots), 0)
    return all(n >= 0 for n in extra.values()) and extra[own.roots[0]] == extra.total() <= spare


def compare(own: Sequence[Reading], ranks: Sequence[Sequence[Reading]]) -> DataFindings:
    """Compare the loaders of the original with those of the ranks."""
    pairs = list(zip(own, aligned(ranks), strict=False))
    training = [(mine, theirs) for mine, theirs in pairs if mine.trains]
    found = DataFindings(compared=bool(training) and len(pairs) == len(own))
    if not training:
        return found
    passes = [_passes(mine, theirs) for mine, theirs in training]
    found.coverage = [_coverage(item) for loader in passes for item in loader]
    found.everywhere = all(item.everywhere for loader in passes for item in loader)
    found.compared &= all(mine.passes and theirs[0].trains for mine, theirs in training)
    found.text, cause = _leak(pairs) or _content(pairs) or _first(passes) or ("", None)
    found.cause = cause
    padded = cause is causes.PADDING
    found.reordered = padded and any(item.reordered for loader in passes for item in loader)
    found.stream = any(batch.stream for mine, _ in training for batch in _all([mine]))
    if found.stream and cause and not cause.name:
        # A stream may be read whole and split then: what enters the model decides.
        found.compared, found.text, found.cause = False, "", None
    return found


def _passes(mine: Reading, theirs: list[Reading]) -> list[_Pass]:
    turns = range(min(len(mine.passes), max(len(rank.passes) for rank in theirs)))
    return [
        _Pass(
            mine.passes[turn],
            together(theirs, turn),
            turn in mine.complete and all(turn in rank.complete for rank in theirs),
            len(theirs),
        )
        for turn in turns
    ]


Answer = tuple[str, Cause] | None


def _first(loaders: Sequence[list[_Pass]]) -> Answer:
    """The first loader whose samples differ, and how."""
    for passes in loaders:
        if all(item.batchwise for item in passes):
            continue
        found = _pass(next(item for item in passes if not item.batchwise))
        return _repeats(passes) or found if found and found[1].name else found
    return None


def _repeats(passes: list[_Pass]) -> Answer:
    """The same order in every whole pass, where the original has another each time."""
    whole = [item for item in passes if item.complete]
    if len(whole) < 2:
        return None
    own = [[batch.roots for batch in item.own] for item in whole[:2]]
    other = [[batch.roots() for batch in item.batches] for item in whole[:2]]
    if own[0] != own[1] and other[0] == other[1]:
        text = f"pass 2 over {sum(map(len, other[0]))} samples is in the order of pass 1"
        in_order = _in_order(other[0]) and not _in_order(own[0])
        return text, causes.NOT_SHUFFLED if in_order else causes.SAME_ORDER
    return None


def _in_order(batches: list[list[Any]]) -> bool:
    """Whether batches come in the data set's order; the last one may be filled up."""
    before = set(chain(*batches[:-1]))
    ends = [sorted(root for root in batches[-1] if root not in before)] if batches else []
    return all(a <= b for a, b in pairwise(chain(*map(sorted, batches[:-1]), *ends)))


def _pass(item: _Pass) -> Answer:
    wanted, found = item.wanted, item.found
    missing, extra = wanted - found, found - wanted
    size = len(item.own[0].roots) if item.own else 0
    shared: set[Any] = set()
    if item.world_size > 1 and not item.everywhere:
        shared = set.intersection(*item.by_rank)
    if item.batches and len(item.batches[0].roots()) == size * item.world_size > size:
        text = f"a global batch has {size * item.world_size} samples; the original's {size}"
        return text, causes.BATCH_SIZE
    if item.padded:
        return f"{extra.total()} samples of the last batch come a second time", causes.PADDING
    if len(shared) >= item.world_size:
        text = f"{len(shared)} of {len(wanted)} samples of a pass reach more than one rank"
        return text, causes.OVERLAP if missing else causes.DOUBLED
    return _coverage_answer(item, missing, extra)


def _coverage_answer(item: _Pass, missing: Counter[Any], extra: Counter[Any]) -> Answer:
    if not item.complete or not (missing or extra):
        return _other_batches(item)
    if missing and extra.total() >= item.world_size:
        text = f"{missing.total()} of {item.wanted.total()} samples of a pass reach no rank"
        return f"{text}, {extra.total()} come more than once", causes.OVERLAP
    if missing:
        text = f"{missing.total()} of {item.wanted.total()} samples of a pass reach no rank"
        return text, causes.DROPPED if item.cut_short else causes.LOST
    text = f"{extra.total()} samples of a pass come once more than in the original"
    return text, causes.DOUBLED


def _other_batches(item: _Pass) -> Answer:
    """The same samples in batches of another size, or in another order."""
    size, found = len(item.own[0].roots), len(item.batches[0].roots())
    if len(item.own) > 1 and found < size:
        return f"a global batch has {found} samples; the original's {size}", causes.SMALLER_BATCH
    return "the same samples come in other batches", causes.ORDER


def _leak(pairs: Sequence[tuple[Reading, list[Reading]]]) -> Answer:
    """Samples that are trained on by one rank and evaluated on by another."""
    own = _sides([[mine] for mine, _ in pairs], [mine.trains for mine, _ in pairs])
    other = _sides([theirs for _, theirs in pairs], [mine.trains for mine, _ in pairs])
    if own[0] & own[1] or not other[0] & other[1]:
        return None
    count, total = len(other[0] & other[1]), len(other[1])
    return f"{count} of {total} samples of the evaluation are trained on too", causes.LEAK


def _sides(loaders: Iterable[Sequence[Reading]], trains: Iterable[bool]) -> list[set[Any]]:
    """Samples of subsets that are trained on, and those that are not."""
    sides: list[set[Any]] = [set(), set()]
    for readings, trained in zip(loaders, trains, strict=True):
        for batch in _all(readings):
            sides[not trained].update(batch.roots if batch.subset else ())
    return sides


def _all(readings: Sequence[Reading]) -> Iterable[Batch]:
    return (batch for reading in readings for turn in reading.passes for batch in turn)


def _content(pairs: Sequence[tuple[Reading, list[Reading]]]) -> Answer:
    """A sample whose content is another one than the original's under the same index."""
    for mine, theirs in pairs:
        known: dict[Any, float] = {}
        if next(_clashes([mine], known), None) is not None:
            continue  # the original itself reads it otherwise each time
        for rank, reading in enumerate(theirs):
            found = next(_clashes([reading], known), None)
            if found is not None:
                text = f"sample {found} on rank {rank} has another content than in the original"
                return text, causes.CONTENT
    return None


def _clashes(readings: Sequence[Reading], known: dict[Any, float]) -> Iterator[Any]:
    for batch in _all(readings):
        for root, mark in zip(batch.roots, batch.marks, strict=True):
            before = known.setdefault(root, mark)
            if abs(before - mark) > CONTENT * max(1.0, abs(before), abs(mark)):
                yield root


def _coverage(item: _Pass) -> Coverage:
    wanted, found = item.wanted, item.found
    return Coverage(
        samples=wanted.total(),
        missing=(wanted - found).total(),
        extra=(found - wanted).total(),
        by_rank=[len(ids) for ids in item.by_rank],
        everywhere=item.everywhere,
    )
