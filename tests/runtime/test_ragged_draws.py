"""Random numbers for rows of which each rank has any number."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import run


def _drawn() -> list[Any]:
    found = []
    for n in (1, 5, 6):
        torch.manual_seed(n)
        (x,) = dd.shard(DataLoader(range(1, n + 1), n))  # type: ignore[arg-type]
        x = x.double()
        kept = x[x != 2]
        mine = dd.drawn_ragged(torch.randn_like)(kept)
        assert mine.shape == kept.shape
        found.append((dd.gather_ragged(mine).tolist(), torch.rand(1).item()))
    return found


def test_draws_for_what_a_mask_left_are_those_of_one_process() -> None:
    expected = run(_drawn, 1)[0]
    assert all(found == expected for size in (2, 3) for found in run(_drawn, size))
