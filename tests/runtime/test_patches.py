"""Tools that replace torch's own loader functions still see every batch of a shared loader."""

from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import fetch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddpify import runtime as dd
from tests.runtime.ranks import run


def _patched() -> Any:
    calls: list[Any] = []
    real_init, real_iter = DataLoader.__init__, DataLoader.__iter__
    real_next, real_fetch = _BaseDataLoaderIter.__next__, fetch._MapDatasetFetcher.fetch

    def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["num_workers"] = 0
        kwargs.pop("persistent_workers", None)
        real_init(self, dataset, *args, **kwargs)

    def iterate(self: Any) -> Any:
        iterator: Any = real_iter(self)
        iterator.mark = ("epoch", calls.count("iter"))
        calls.append("iter")
        return iterator

    def advance(self: Any) -> Any:
        out = real_next(self)
        calls.append(self.mark)
        return out

    def fetched(self: Any, index: Any) -> Any:
        calls.append(index)
        return real_fetch(self, index)  # type: ignore[no-untyped-call]

    patches: list[tuple[Any, str, Any]] = [
        (DataLoader, "__init__", init),
        (DataLoader, "__iter__", iterate),
        (_BaseDataLoaderIter, "__next__", advance),
        (fetch._MapDatasetFetcher, "fetch", fetched),
    ]
    for owner, name, function in patches:
        setattr(owner, name, function)
    data: Any = torch.arange(5)
    loader = dd.shard(DataLoader(data, 3, num_workers=2, persistent_workers=True))
    for _ in range(2):
        for _ in loader:
            pass
    return calls


def test_replaced_loader_functions_are_called() -> None:
    first, second = run(_patched, 2)
    assert first == [
        *["iter", [0, 1], ("epoch", 0), [3], ("epoch", 0)],
        *["iter", [0, 1], ("epoch", 1), [3], ("epoch", 1)],
    ]
    assert second == [
        *["iter", [2], ("epoch", 0), [4], ("epoch", 0)],
        *["iter", [2], ("epoch", 1), [4], ("epoch", 1)],
    ]
