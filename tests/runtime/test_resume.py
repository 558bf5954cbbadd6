"""Loops of every form are taken up again in the iteration of the newest snapshot."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

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


def _visit(
    folder: Path, feed: Callable[[Any], Any], stop: int | None, *, shuffle: bool = True
) -> Any:
    """Three epochs over numbers: what was visited, and how many samples were loaded for it."""
    take_snapshots(Snapshots(folder, 1, 600))
    torch.manual_seed(2)
    loader = dd.shard(DataLoader(Numbers(), batch_size=4, shuffle=shuffle))
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


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_loader_that_does_not_shuffle(tmp_path: Path, ranks: int) -> None:
    """Its indices are a range, at one process too."""
    visited, _ = run(partial(_visit, tmp_path, lambda loader: loader, None, shuffle=False), ranks)[
        0
    ]
    epoch = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert visited == [[number, *batch] for number in range(3) for batch in epoch]


def test_a_data_set_gets_lists_of_indices_at_one_process(tmp_path: Path) -> None:
    """A data set's own ``__getitems__`` may do with them what it does with torch's."""
    assert run(partial(_ask_for_batches, tmp_path), 1)[0] == {list}


class Asked(Numbers):
    kinds: ClassVar[set[type]] = set()

    def __getitems__(self, indices: Any) -> list[int]:
        self.kinds.add(type(indices))
        return list(indices)


def _ask_for_batches(folder: Path) -> Any:
    take_snapshots(Snapshots(folder, 1, 600))
    for shuffle in (False, True):
        for _ in dd.shard(DataLoader(Asked(), batch_size=4, shuffle=shuffle)):
            pass
    return Asked.kinds
