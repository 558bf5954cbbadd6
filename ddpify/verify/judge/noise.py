"""Random numbers that the ranks draw: each its own for its own samples, all the same for the rest.

What they draw is made equal to what one process draws before it is compared. So the states of the
generators that it would have come from are judged apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpify.verify.compare import causes
from ddpify.verify.compare.records import Place, Totals
from ddpify.verify.verdict import Comparison, Difference, What

SAME_DROPOUT = (
    "dropout drops the same of different samples on ranks {ranks}: their generators are in the "
    "same state [DDP601]"
)


def shared_out(own: Totals, ranks: Sequence[Totals]) -> tuple[Place, ...]:
    """The places where ranks draw for their own samples: fewer rows than one process does."""
    return tuple(at for at in own.draws if any(_fewer(own, rank, at) for rank in ranks))


def judge(comparison: Comparison, own: Totals, ranks: Sequence[Totals]) -> None:
    """Add the first draw that is equal where it should differ, or differs where all share one."""
    if comparison.nproc == 1:
        return
    found = next(_repeated(own, ranks), None) or next(_different(own, ranks), None)
    if found is not None:
        comparison.differences.append(found)
    drops = [rank.drops[0] if rank.drops else None for rank in ranks]
    pair = _alike(drops)
    if pair is not None:
        comparison.notes.append(SAME_DROPOUT.format(ranks=f"{pair[0]} and {pair[1]}"))


def _repeated(own: Totals, ranks: Sequence[Totals]) -> Iterator[Difference]:
    """Draws for the own samples of two ranks from generators in the same state."""
    for at in own.draws:
        states = [rank.draws[at].state if _fewer(own, rank, at) else None for rank in ranks]
        pair = _alike(states)
        if pair is not None:
            rows = ranks[pair[0]].draws[at].rows
            text = f"random numbers for {rows} rows are equal on ranks {pair[0]} and {pair[1]}"
            yield Difference(What.DATA, text, rank=pair[1], cause=causes.EQUAL_NOISE)


def _different(own: Totals, ranks: Sequence[Totals]) -> Iterator[Difference]:
    """Draws that each rank makes as a whole, from generators in other states.

    A draw for the samples of a batch is smaller on the ranks in some batch, but where every batch
    has a single one, which ranks without any repeat.
    """
    parts = {number for _, _, number in shared_out(own, ranks)}
    for at, drawn in own.draws.items():
        whole = all(at in rank.draws and rank.draws[at].shape == drawn.shape for rank in ranks)
        if not whole or at[2] in parts or (drawn.rows == drawn.samples == 1):
            continue
        for number, rank in enumerate(ranks):
            if rank.draws[at].state != ranks[0].draws[at].state:
                sizes = list(drawn.shape)
                text = f"rank {number} draws other random numbers of sizes {sizes} than rank 0"
                yield Difference(What.DATA, text, rank=number, cause=causes.OWN_NOISE)


def _fewer(own: Totals, rank: Totals, at: Place) -> bool:
    """Whether a rank draws some rows there, and fewer than one process."""
    return at in rank.draws and 0 < rank.draws[at].rows < own.draws[at].rows


def _alike(states: Sequence[int | None]) -> tuple[int, int] | None:
    """The first two ranks in the same state."""
    known = [(rank, state) for rank, state in enumerate(states) if state is not None]
    pairs = ((a, b) for b, two in known for a, one in known if a < b and one == two)
    return next(pairs, None)
