"""Where the training loop is, so that chance can be drawn there alike on every rank."""

from __future__ import annotations

import contextlib
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

MAX_DRAWS = 10_000
_REAL_DRAWS = (
    "torch.utils.data",
    "torch.nn.init",
    "torch.nn.modules",
    "torch.distributed",
    "ddpify.runtime",
    "ddpify_runtime",
)


class Draw(NamedTuple):
    """A random tensor that the training loop drew: where, its sizes, its generator's state, and
    how many samples the latest batch has, as far as that is known."""

    turn: int
    batch: int
    number: int
    shape: tuple[int, ...]
    state: int
    samples: int


class Place:
    """Where the training loop is: the latest batch, draws made since, and whether draws are real.

    ``batch`` has the number of the pass over its loader, and the number of the batch in it.

    ``watch`` takes the index and the content of each sample that a loader fetches. ``gpus`` says
    whether draws may come from the generators of real GPUs. ``draws`` has the first ones,
    and ``samples`` the number of samples that were fetched last.
    ``equal_at`` has the places of those whose rows are all the same, and ``equal_rows`` says
    whether the latest one is such. ``drawn`` has the generators that the latest samples drew
    from, where that is asked for, and ``before`` the states of all generators before the first of
    these samples.
    """

    def __init__(self) -> None:
        self.looping = False
        self.real = 0
        self.batch = (0, 0)
        self.draw = 0
        self.gpus = False
        self.equal_at: frozenset[tuple[int, int, int]] = frozenset()
        self.equal_rows = False
        self.draws: list[Draw] = []
        self.samples = 0
        self.drawn: set[str] | None = None
        self.before: dict[str, int] | None = None
        self.watch: Callable[[Any, Any], None] = lambda index, item: None

    def replaced(self, depth: int = 2) -> bool:
        """Whether a draw by the caller ``depth`` frames up is one of the loop's own."""
        module = sys._getframe(depth).f_globals.get("__name__", "")
        return self.looping and not self.real and not module.startswith(_REAL_DRAWS)

    def seed(self, shape: Sequence[int], state: int) -> int:
        """A seed for the next draw, the same on every rank that is at the same place.

        ``state``: that of the generator which it would come from.
        """
        self.draw += 1
        turn, batch = self.batch
        known = len(self.draws) < MAX_DRAWS
        if known:
            self.draws.append(Draw(turn, batch, self.draw, tuple(shape), state, self.samples))
        # Past the draws that are told, all are drawn as those are that the ranks share out.
        at = turn, batch, self.draw
        self.equal_rows = at in self.equal_at if known else bool(self.equal_at)
        return zlib.crc32(f"{turn}/{batch}/{self.draw}".encode())

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """A stretch whose draws are real: sampling and fetching."""
        self.real += 1
        try:
            yield
        finally:
            self.real -= 1


PLACE = Place()


def seed_all(seed: int) -> None:
    """Seed the generators that a draw without a generator of its own comes from."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if _uses_gpu():
        torch.cuda.manual_seed(seed)


def _uses_gpu() -> bool:
    """Whether a GPU's generator is there to be drawn from; asking for it would make it."""
    return PLACE.gpus and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def kept_states() -> Iterator[None]:
    """A stretch after which the global generators are as they were."""
    numpy = sys.modules.get("numpy")
    state, python = torch.get_rng_state(), random.getstate()
    array = numpy.random.get_state() if numpy else None
    gpu = torch.cuda.get_rng_state() if _uses_gpu() else None
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python)
        if numpy and array is not None:
            numpy.random.set_state(array)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)
