"""Packed sequences, padded to the longest of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import run


def _padded() -> dict[str, Any]:
    lengths = [2, 1, 4, 3]
    (own,) = dd.shard(DataLoader(range(4), 4))  # type: ignore[arg-type]
    packed = pack_sequence([torch.full((lengths[i],), i + 1.0) for i in own], enforce_sorted=False)
    rows, sizes = dd.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0)
    return {
        "rows": rows.tolist(),
        "sizes": sizes.tolist(),
        "time first": list(dd.pad_packed_sequence(packed)[0].shape),
        "told": list(dd.pad_packed_sequence(packed, total_length=6)[0].shape),
    }


def test_sequences_are_padded_to_the_longest_of_all_ranks() -> None:
    whole = [[1, 1, -1, -1], [2, -1, -1, -1], [3, 3, 3, 3], [4, 4, 4, -1]]
    for size in (1, 2):
        for rank, found in enumerate(run(_padded, size)):
            own = slice(rank * 4 // size, (rank + 1) * 4 // size)
            assert found["rows"] == whole[own]
            assert found["sizes"] == [2, 1, 4, 3][own]
            assert found["time first"] == [4, 4 // size]
            assert found["told"] == [6, 4 // size]
