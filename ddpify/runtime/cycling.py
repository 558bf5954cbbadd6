"""Batches that are kept and given again and again, as by ``itertools.cycle``."""

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ddpify.runtime.process import world_size
from ddpify.runtime.share import Loop, Share, current_share, loops
from ddpify.runtime.shared_loader import SharedLoader


class RepeatedBatches:
    """The batches of one pass, and then those again and again, each with its own share."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.batches = iter(loader)
        self.loader = loader
        self.loop = Loop()
        self.kept: list[tuple[Share | None, Any]] = []
        self.again: Iterator[tuple[Share | None, Any]] | None = None

    def __iter__(self) -> "RepeatedBatches":
        return self

    def __next__(self) -> Any:
        if self.again is None:
            try:
                batch = next(self.batches)
            except StopIteration:
                self.again = itertools.cycle(self.kept)
            else:
                self.kept.append((current_share(), batch))
                return batch
        self.loop.share, batch = next(self.again)
        loops().repeated(self.loop)
        if isinstance(self.loader, SharedLoader):
            self.loader.__dict__["ddpify_latest"] = self.loop
        return batch

    def __del__(self) -> None:
        if not sys.is_finalizing() and "loop" in self.__dict__:
            loops().exhausted(self.loop)


def cycle(loader: Iterable[Any]) -> Iterator[Any]:
    """As ``itertools.cycle(loader)``: its batches again and again, each shared as it was at first.

    Keeps the batches of its first pass, as that does.
    """
    return RepeatedBatches(loader) if world_size() > 1 else itertools.cycle(loader)
