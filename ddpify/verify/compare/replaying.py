"""Writing down the converted run's global batches for the original to train on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpify.verify.compare.batches import GlobalBatch, Reading, aligned, together


def write(own: Sequence[Reading], ranks: Sequence[Sequence[Reading]], path: Path) -> bool:
    """Write ``path`` for ``inside.replay``; False where the batches cannot be replayed.

    Loaders that nothing trains on are left alone: what is evaluated must be the original's.

    Args:
        own: The original's loaders.
        ranks: Those of each rank.
        path: Where to write.
    """
    pairs = [pair for pair in zip(own, aligned(ranks), strict=False) if pair[0].trains]
    if not pairs:
        return False
    loaders: dict[int, Any] = {}
    for reading, theirs in pairs:
        passes = [together(theirs, turn) for turn in range(len(theirs[0].passes))]
        if not all(map(_replayable, (batch for batches in passes for batch in batches))):
            return False
        loaders[reading.number] = [[_entry(batch) for batch in batches] for batches in passes]
    path.write_text(json.dumps({"loaders": loaders}))
    return True


def _replayable(batch: GlobalBatch) -> bool:
    samples = [index for part in batch.merged for index in part.ids]
    single = any(part.single for part in batch.merged)
    known = all(type(index) is int for index in samples)
    known |= all(part.stream for part in batch.merged)
    return known and (not single or len(samples) == 1)


def _entry(batch: GlobalBatch) -> dict[str, Any]:
    ids = [index for part in batch.merged for index in part.ids]
    return {"ids": ids, "parts": [len(part.ids) for part in batch.parts if part]}
