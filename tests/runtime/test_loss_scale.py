"""A scaled loss overflows float16, and its steps are skipped, where one process's are."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ddpify import runtime as dd
from tests.runtime import ranks


def _train(clip: bool, fused: bool, strategy: str) -> dict[str, Any]:
    torch.manual_seed(3)
    data = TensorDataset(torch.randn(44, 6), torch.randn(44, 1))
    net = dd.wrap(nn.Linear(6, 1), strategy=strategy)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=fused)
    scaler = dd.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3))
    assert isinstance(scaler, torch.amp.GradScaler)
    scales, norms, losses = [], [], []
    for x, y in dd.shard(DataLoader(data, batch_size=7)):
        optimizer.zero_grad()
        rounded = net(x).half().float()  # their gradients are rounded to float16 as well
        loss = dd.mean((rounded - y).pow(2).mean())
        losses.append(scaler.scale(loss).item() / scaler.get_scale())
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            norms.append(dd.full_tensor(nn.utils.clip_grad_norm_(net.parameters(), 0.5)).item())
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.state_dict()["scale"])
    weights = [dd.full_tensor(p.detach()).clone() for p in net.parameters()]
    return {"scales": scales, "norms": norms, "losses": losses, "weights": weights}


@pytest.mark.parametrize(
    ("size", "clip", "fused", "strategy"),
    [
        (2, True, False, "ddp"),
        (3, False, False, "ddp"),
        (2, False, True, "ddp"),
        (2, True, False, "fsdp"),
    ],
)
def test_the_same_steps_overflow(size: int, clip: bool, fused: bool, strategy: str) -> None:
    alone = ranks.run(partial(_train, clip, fused, "ddp"), 1)[0]
    assert alone["scales"][0] < 2.0**18  # some steps overflow
    assert max(alone["scales"][1:]) > min(alone["scales"])  # and others do not
    for result in ranks.run(partial(_train, clip, fused, strategy), size):
        assert result["scales"] == alone["scales"]
        assert result["losses"] == pytest.approx(alone["losses"], rel=1e-3)
        assert result["norms"] == pytest.approx(alone["norms"], rel=1e-2, nan_ok=True)
        for mine, theirs in zip(result["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=2e-3, atol=2e-3)


def test_a_scaler_that_is_switched_off_stays_so() -> None:
    def job() -> float:
        scaler = dd.wrap_scaler(torch.amp.GradScaler("cpu", enabled=False))
        weight = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=1.0)
        torch.autograd.backward(scaler.scale(2 * weight))
        scaler.step(optimizer)
        scaler.update()
        return weight.item()

    assert ranks.run(job, 2) == [-1.0, -1.0]


def test_what_is_no_scaler_is_named() -> None:
    with pytest.raises(TypeError, match="a SGD is no GradScaler"):
        dd.wrap_scaler(torch.optim.SGD([torch.ones(1)]))  # type: ignore[type-var]
