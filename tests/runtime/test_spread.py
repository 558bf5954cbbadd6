"""Rows that every rank holds, computed in parts, as one process computes them whole."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import assert_same


class TwoHeads(nn.Module):
    """A tensor for each row and label, and a dictionary of another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, scale: Any, *, labels: torch.Tensor) -> Any:
        out = self.head(self.norm(x))
        return out * scale, {"chosen": out[torch.arange(len(labels)), labels]}


def _drawn(rows: int) -> Any:
    """What a model gives for fixed rows in the middle of a batch, and what that does to it."""
    torch.manual_seed(0)
    model = dd.wrap(TwoHeads())
    fixed, labels = torch.randn(rows, 3), torch.arange(rows) % 2
    found = []
    for part in dd.shard(DataLoader(torch.randn(7, 3), 4)):  # type: ignore[arg-type]
        model(part, 1.0, labels=torch.zeros(len(part), dtype=torch.long))
        out, more = dd.spread(model)(fixed, 0.5, labels=labels)
        (out.sum() + more["chosen"].pow(2).sum()).backward()
        found += [out.detach(), more["chosen"].detach(), dd.sum(len(part))]
    return found, [p.grad for p in model.parameters()], dict(model.state_dict())


@pytest.mark.parametrize("rows", [5, 2])  # 2 rows leave a rank of 3 without one
def test_all_ranks_get_what_one_process_computes(rows: int) -> None:
    assert_same(lambda: _drawn(rows))


def _differentiated() -> Any:
    """A second derivative at fixed points, beside a batch, in a model that has statistics."""
    torch.manual_seed(0)
    model = dd.wrap(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)))
    fixed = torch.randn(5, 3, requires_grad=True)
    for part in dd.shard(DataLoader(torch.randn(7, 3), 4)):  # type: ignore[arg-type]
        of_batch = model(part).mean()
        out = dd.spread(model, whole=True)(fixed).sum()
        (slope,) = torch.autograd.grad(out, fixed, create_graph=True)
        dd.mean(of_batch + slope.pow(2).sum()).backward()
    return slope.detach(), [p.grad for p in model.parameters()], dict(model.state_dict())


def test_gradients_of_what_all_ranks_hold() -> None:
    assert_same(_differentiated)


def test_a_plain_run_calls_the_model_itself() -> None:
    model = nn.Linear(2, 2)
    assert dd.spread(model) is model


def _drawn_beside_a_batch() -> list[torch.Tensor]:
    torch.manual_seed(0)
    found = []
    for part in dd.shard(DataLoader(torch.randn(7, 3), 4)):  # type: ignore[arg-type]
        with dd.replicated():
            found.append(dd.split(torch.randn(dd.global_batch_size(5), 2)))
        found.append(dd.gather(dd.split(torch.randn(dd.global_batch_size(part), 2))))
    return found


def test_what_is_drawn_beside_a_batch_is_whole() -> None:
    assert_same(_drawn_beside_a_batch)
