"""The global batches of another run, for the original's loaders to yield."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Replay:
    """Batches by loader and by pass over it.

    Args:
        path: A file written by ``compare.replaying``.

    Attributes:
        parts: How many samples of the current batch each rank had; empty before the first.
    """

    def __init__(self, path: str) -> None:
        data = json.loads(Path(path).read_text())
        self._passes: dict[int, list[list[dict[str, Any]]]] = {
            int(number): passes for number, passes in data["loaders"].items()
        }
        self._at: dict[tuple[int, int], int] = {}
        self.parts: list[int] = []

    def knows(self, loader: int, turn: int) -> bool:
        """Whether there are batches for pass ``turn`` over ``loader``."""
        return turn < len(self._passes.get(loader, []))

    def length(self, loader: int) -> int | None:
        """The number of batches in the longest pass; None for a loader without batches.

        (A pass may have been left early, as by ``next(iter(loader))``.)
        """
        return max(map(len, self._passes.get(loader, [])), default=None)

    def next_batch(self, loader: int, turn: int, collated: bool) -> Any:
        """The indices of the next batch; a single one where the loader does not collate."""
        at = self._at.get((loader, turn), 0)
        batches = self._passes[loader][turn]
        if at >= len(batches):
            raise StopIteration
        self._at[loader, turn] = at + 1
        self.parts = batches[at]["parts"]
        ids = batches[at]["ids"]
        return ids if collated else ids[0]
