"""take(): rows by masks and by positions among those of the global batch."""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import run


def _taken() -> dict[str, Any]:
    """Of a batch of the numbers 0 to 4, those that are taken by each rank's rows of an index."""
    (x,) = dd.shard(DataLoader(range(5), 5))  # type: ignore[arg-type]
    x = x.double().requires_grad_()
    backwards = dd.split(torch.arange(4, -1, -1))
    moved = dd.take(x, backwards)
    (moved * x.detach()).sum().backward()
    return {
        "positions": moved.tolist(),
        "gradient": x.grad.tolist() if x.grad is not None else [],
        "mask": dd.take(x, x > 1).tolist(),
        "bytes": dd.take(x, (x > 1).byte()).tolist(),
        "list": dd.take(x, backwards.tolist()).tolist(),
        "list of truth values": dd.take(x, (x > 1).tolist()).tolist(),
        "array": dd.take(x.detach().numpy(), backwards.numpy()).tolist(),
        "mask of an array": dd.take(x.detach().numpy(), np.asarray((x > 1).tolist())).tolist(),
    }


def test_positions_are_those_in_the_global_batch() -> None:
    ranks = run(_taken, 2)
    for name in ("positions", "list", "array"):
        assert [rank[name] for rank in ranks] == [[4, 3, 2], [1, 0]]
    for name in ("mask", "bytes", "list of truth values", "mask of an array"):
        assert [rank[name] for rank in ranks] == [[2], [3, 4]]


def test_the_gradient_comes_from_all_ranks() -> None:
    assert [rank["gradient"] for rank in run(_taken, 2)] == [[4, 3, 2], [1, 0]]
