"""A loss whose global value is still on its way: whoever looks at it sees the whole of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from ddpify import runtime as dd
from ddpify.runtime.pending import Pending
from tests.runtime import ranks

DATA = torch.arange(7.0)
READERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda loss: loss.item(),
    "format": lambda loss: float(f"{loss:.12f}"),
    "float": float,
    "compare": lambda loss: 9.0 if loss > 1e6 else float(loss.detach()),
    "nested": lambda loss: torch.stack([loss, loss])[1].item(),
    "numpy": lambda loss: float(loss.detach().numpy()),
    "data": lambda loss: loss.data.item(),
    "copy": lambda loss: copy.copy(loss).item(),
    "repr": lambda loss: float(repr(loss.detach()).split("(")[1].split(")")[0].split(",")[0]),
    "list": lambda loss: loss.tolist(),
}


def _losses() -> tuple[torch.Tensor, torch.Tensor]:
    """One loss of this rank's rows and one of their squares; whole they are 3 w and 13 w."""
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    loader = DataLoader(TensorDataset(DATA.double()), batch_size=7)
    for (x,) in dd.shard(loader):
        return dd.mean((weight * x).mean()), dd.mean((weight * x * x).mean())
    raise AssertionError("no batch")


def _read() -> list[tuple[str, Any, type]]:
    found = []
    for name, reader in READERS.items():
        loss, other = _losses()
        assert isinstance(loss, Pending) == (dd.world_size() > 1)
        found.append((name, round(reader(loss), 9), type(loss)))
        assert round(other.item(), 9) == 13.0
    return found


def test_every_reader_sees_the_whole_value() -> None:
    for size in (1, 2, 3):
        for found in ranks.run(_read, size):
            assert found == [(name, 3.0, torch.Tensor) for name in READERS]


def _trained() -> list[float]:
    weight: Any = torch.ones((), dtype=torch.float64, requires_grad=True)
    values: list[float] = []
    for (x,) in dd.shard(DataLoader(TensorDataset(DATA.double()), batch_size=4)):
        weight.grad = None
        first, second = dd.mean((weight * x).mean()), dd.mean((weight * x * x).mean())
        first.backward(retain_graph=True)
        first.backward()
        (2 * second).backward()
        values += [first.item(), second.item(), dd.sum(weight.grad.item()) / dd.world_size()]
    return values


def test_backward_goes_first() -> None:
    expected = [1.5, 3.5, 2 * 1.5 + 2 * 3.5, 5.0, 77 / 3, 2 * 5.0 + 2 * 77 / 3]
    for found in ranks.run(_trained, 2):
        torch.testing.assert_close(found, expected)


def _dropped() -> float:
    for _ in range(5):
        _losses()
    return round(_losses()[0].item(), 9)


def test_a_loss_that_nobody_reads() -> None:
    assert ranks.run(_dropped, 3) == [3.0] * 3
