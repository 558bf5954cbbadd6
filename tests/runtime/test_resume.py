"""Loops of every form are taken up again in the iteration of the newest snapshot."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from ddpify.runtime.resume import take_snapshots
from ddpify.runtime.snapshots import Snapshots
from tests.runtime.ranks import run

READ: list[int] = []
"""Samples that were loaded."""


class Numbers(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> int:
        READ.append(index)
        return index


def lazily(loader: Any) -> Iterator[Any]:
    """As a progress bar takes batches."""
    yield from loader


def _visit(folder: Path, feed: Callable[[Any], Any], stop: int | None) -> Any:
    """Three epochs over numbers: what was visited, and how many samples were loaded for it."""
    take_snapshots(Snapshots(folder, 1, 600))
    torch.manual_seed(2)
    loader = dd.shard(DataLoader(Numbers(), batch_size=4, shuffle=True))
    visited: list[Any] = []
    for epoch in dd.resumable(range(3), visited):
        dd.snapshot()
        for item in dd.resumable(feed(loader)):
            dd.snapshot()
            batch = item[1] if isinstance(item, tuple) else item
            visited.append([epoch, *dd.gather(batch).tolist()])
            if len(visited) == stop:
                return visited
    return visited, len(READ)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("feed", [lambda loader: loader, enumerate, lazily])
def test_a_loop_goes_on_in_the_iteration_of_the_snapshot(
    tmp_path: Path, feed: Callable[[Any], Any], ranks: int
) -> None:
    (whole, read), *_ = run(partial(_visit, tmp_path / "whole", feed, None), ranks)
    folder = tmp_path / "stopped"
    assert run(partial(_visit, folder, feed, 6), ranks)[0] == whole[:6]
    assert len(list(folder.glob("*.pt"))) == 2
    (again, less), *_ = run(partial(_visit, folder, feed, None), ranks)
    assert again == whole
    assert less < read * 2 / 3  # batches of iterations that are left out are not loaded
