"""A loss whose global value is still on its way: whoever looks at it sees the whole of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.profiler import profile
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


def _lazy_losses(lazy: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The weight, a mean of its product with this rank's rows and a sum; whole 3 w and 21 w."""
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    x = dd.shard_batch(DATA.double())
    return weight, dd.mean((weight * x).mean(), lazy=lazy), dd.sum((weight * x).sum(), lazy=lazy)


def _lazily_read() -> list[Any]:
    found: list[Any] = []
    for name, reader in READERS.items():
        weight, loss, other = _lazy_losses()
        torch.autograd.backward(loss if name != "nested" else loss + other)
        other = 1 * other
        found.append((name, round(reader(loss), 9), type(loss), round(other.item(), 9)))
        found.append(float(dd.sum(weight.grad)) / dd.world_size() if weight.grad is not None else 0)
    return found


def test_a_lazy_loss_is_whole_for_every_reader() -> None:
    gradients = [24.0 if name == "nested" else 3.0 for name in READERS]
    readings = [(name, 3.0, torch.Tensor, 21.0) for name in READERS]
    expected = [one for pair in zip(readings, gradients, strict=True) for one in pair]
    for size in (1, 2, 3, 9):
        for found in ranks.run(_lazily_read, size):
            for one, other in zip(found, expected, strict=True):
                assert one == (other if isinstance(one, tuple) else pytest.approx(other))


def _collectives() -> list[int]:
    """Collectives of a lazy loss and of others: with the backward, and when they are read."""
    counts = []
    for lazy in (True, False):
        with profile() as trained:
            _, loss, _ = _lazy_losses(lazy)
            loss.backward()  # type: ignore[no-untyped-call]
        with profile() as read:
            loss.item(), float(loss)
        for recorded in (trained, read):
            counts.append(sum(e.name.startswith("gloo:") for e in recorded.events()))
    return counts


def test_a_lazy_loss_is_exchanged_when_it_is_read() -> None:
    assert ranks.run(_collectives, 2) == [[0, 1, 2, 0]] * 2


def _without_a_sample() -> float:
    """Gradients of a rank whose copy of another's sample makes no number."""
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    x = dd.shard_batch(torch.ones(1, dtype=torch.float64))
    own = (weight * x).mean() * (1.0 if dd.rank() == 0 else float("nan"))
    loss = dd.mean(own, lazy=True)
    loss.backward()
    assert loss.item() == 1.0
    return dd.sum(float(weight.grad)) if weight.grad is not None else 0.0


def test_a_lazy_loss_of_no_sample_counts_for_nothing() -> None:
    assert all(value == value for value in ranks.run(_without_a_sample, 2))


def _by_autograd() -> list[float]:
    values = []
    for lazy in (True, False):
        weight, loss, _ = _lazy_losses(lazy)
        torch.autograd.backward([loss])
        assert weight.grad is not None
        values += [loss.item(), dd.sum(float(weight.grad)) / dd.world_size()]
    return values


def test_the_function_for_a_backward() -> None:
    for found in ranks.run(_by_autograd, 2):
        assert found == pytest.approx([3.0] * 4)
