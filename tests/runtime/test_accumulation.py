"""sync_gradients(): fewer collectives, and the steps of one process, whatever is accumulated."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.hooks import counting
from tests.runtime.ranks import assert_same, run

WINDOW = 3


class Net(nn.Module):
    """Layers of which some get no gradient in some batches, and BatchNorm with plain statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.second = nn.Linear(6, 1)
        self.third = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor, head: int = 0) -> torch.Tensor:
        """x: (N, 4)."""
        hidden = self.first(x)
        out: torch.Tensor = (self.second, self.third)[head % 2](hidden)
        return out if head < 2 else out + self.second(hidden)


def _batches() -> Any:
    generator = torch.Generator().manual_seed(1)
    return dd.shard(DataLoader(torch.randn(22, 4, generator=generator), 5))  # type: ignore[arg-type]


def _training(heads: list[int], clear: bool = False, **options: Any) -> Any:
    """Two epochs with a step after each window, the last of which is short."""
    torch.manual_seed(3)
    model = dd.wrap(Net().double(), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    norms = []
    for _ in range(2):
        if clear:
            optimizer.zero_grad()
        for i, x in enumerate(_batches()):
            dd.sync_gradients((i + 1) % WINDOW == 0)
            dd.mean(model(x.double(), heads[i % len(heads)]).pow(2).mean()).backward()
            if (i + 1) % WINDOW == 0:
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
                optimizer.step()
                optimizer.zero_grad()
    norms = [dd.full_tensor(norm).detach() for norm in norms]
    return {k: dd.full_tensor(v).clone() for k, v in model.state_dict().items()}, norms


def _replicated() -> Any:
    return [
        _training([2]),
        _training([2], clear=True),
        _training([0, 1]),
        _training([0, 1], find_unused_parameters=True),
        _training([0, 2, 1, 2]),
    ]


def _sharded() -> Any:
    return [
        _training([2], strategy="fsdp"),
        _training([2], clear=True, strategy="fsdp"),
        _training([0, 1], strategy="fsdp"),
    ]


@pytest.mark.parametrize("job", [_replicated, _sharded])
def test_steps_are_those_of_one_process(job: Any) -> None:
    assert_same(job)


def _late() -> Any:
    """A last window that ends before its batches do."""
    torch.manual_seed(3)
    model = dd.wrap(Net().double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in _batches():
        dd.sync_gradients(False)
        dd.mean(model(x.double(), 2).pow(2).mean()).backward()
    optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_a_step_goes_by_the_gradients_of_all_ranks() -> None:
    assert_same(_late, sizes=(2,))


def _late_sharded() -> str:
    model = dd.wrap(Net(), strategy="fsdp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dd.sync_gradients(False)
    dd.mean(model(next(iter(_batches())), 2).pow(2).mean()).backward()
    try:
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_step_of_a_sharded_model_before_the_exchange_is_an_error() -> None:
    for message in run(_late_sharded, 2):
        assert "sync_gradients(True)" in message


def _exchanges() -> dict[str, int]:
    """How many gradients are reduced in 8 windows of 4 batches."""
    found = {}
    for name, accumulates in (("every", False), ("last", True)):
        calls: list[int] = []
        model = dd.wrap(nn.Linear(4, 1), comm_hook=counting, comm_state=calls)
        for i in range(32):
            x = dd.shard_batch(torch.randn(6, 4))
            dd.sync_gradients(not accumulates or (i + 1) % 4 == 0)
            dd.mean(model(x).pow(2).mean()).backward()
        found[name] = len(calls)
    return found


def test_gradients_are_reduced_once_a_step() -> None:
    assert run(_exchanges, 2) == [{"every": 32, "last": 8}] * 2
