"""Snapshots of a sharded model: a restart goes on with the same parameters, at any number."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ddpify import runtime as dd
from ddpify.runtime.resume import take_snapshots
from ddpify.runtime.snapshots import Snapshots
from tests.runtime.ranks import assert_close, run
from tests.runtime.test_fsdp_checkpoints import NoNorm


class Average:
    """A moving average of parameters, as scripts write it."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.shadow[name].mul_(0.9).add_(p.detach(), alpha=0.1)


def _train(folder: Path, strategy: str, stop: int | None) -> Any:
    """Two epochs with the optimizer's step after each second batch; None where that stops.

    Only one that stops takes snapshots.
    """
    take_snapshots(Snapshots(folder, 1 if stop else 1000, 600))
    torch.manual_seed(4)
    model = dd.wrap(NoNorm(), strategy=strategy)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    average = Average(model)
    loader = dd.shard(DataLoader(TensorDataset(torch.randn(27, 4)), batch_size=5, shuffle=True))
    done = 0
    for _ in dd.resumable(range(2), model, adam, average):
        done = dd.snapshot(done)
        for (x,) in dd.resumable(loader):
            done = dd.snapshot(done)
            dd.mean((model(x) - 1).square().mean()).backward()
            done += 1
            if done % 2 == 0:
                adam.step()
                adam.zero_grad()
                average.update(model)
            if done == stop:
                return None
    state = {"model": model.state_dict(), "average": average.shadow, "adam": adam.state_dict()}
    return _whole(state)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return dd.full_tensor(value).detach() if isinstance(value, torch.Tensor) else value


def _job(folder: Path, stop: int | None, strategy: str = "fsdp") -> Callable[[], Any]:
    return partial(_train, folder, strategy, stop)


def test_a_restart_goes_on_with_the_same_parameters(tmp_path: Path) -> None:
    whole = run(_job(tmp_path / "whole", None), 2)[0]
    stopped = tmp_path / "stopped"
    assert run(_job(stopped, 6), 2) == [None, None]  # the newest snapshot has gradients
    assert len(list(stopped.glob("*.pt"))) == 2
    for ranks, strategy, rtol in ((2, "fsdp", 0.0), (3, "fsdp", 1e-9), (1, "ddp", 1e-9)):
        copy = tmp_path / f"{ranks}-{strategy}"
        shutil.copytree(stopped, copy)
        for found in run(_job(copy, None, strategy), ranks):
            assert_close(found, whole, rtol=rtol)
