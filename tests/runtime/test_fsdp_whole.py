"""wrap(strategy="fsdp"): the parameters that every rank holds whole, and a narrower dtype."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ddpify import runtime as dd
from tests.runtime.ranks import run


class Scaled(nn.Module):
    """Eight scalars, whose addresses are in another order on each rank."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)
        made = [nn.Parameter(torch.tensor(1.0)) for _ in range(8)]
        turn = dd.rank()
        self.scales = nn.ParameterList(made[turn:] + made[:turn])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        out: torch.Tensor = self.layer(x) * torch.stack(list(self.scales))
        return out


def _gradients_of_scalars() -> list[float]:
    torch.manual_seed(0)
    model: Any = dd.wrap(Scaled(), strategy="fsdp")
    batch = torch.arange(24.0, dtype=torch.get_default_dtype()).view(6, 4)
    dd.mean(model(dd.shard_batch(batch)).mean()).backward()
    return [float(scale.grad) for scale in model.scales]


def test_each_scalar_is_averaged_with_itself() -> None:
    (alone,) = run(_gradients_of_scalars, 1)
    for found in run(_gradients_of_scalars, 3):
        assert torch.allclose(torch.tensor(found), torch.tensor(alone))


class Mixed(nn.Module):
    """BatchNorm, and a wide tensor in front of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
        self.second = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        offset = torch.full((1, 6), 0.5, dtype=torch.float32)
        out: torch.Tensor = self.second(offset + self.first(x))
        return out


def _narrow() -> Any:
    torch.manual_seed(0)
    model: Any = dd.wrap(Mixed().float(), strategy="fsdp", mixed_precision="bfloat16")
    inside: list[torch.dtype] = []
    model.second.register_forward_hook(lambda _, __, out: inside.append(out.dtype))
    out = model(dd.shard_batch(torch.randn(4, 4, dtype=torch.float32)))
    dd.mean(nn.functional.mse_loss(out, torch.ones_like(out))).backward()
    grads = [dd.full_tensor(p.grad) for p in model.parameters()]
    return out.dtype, inside, {grad.dtype for grad in grads}, grads


def test_a_model_in_bfloat16_gives_float32() -> None:
    one, *others = run(_narrow, 3)
    assert one[:3] == (torch.float32, [torch.bfloat16], {torch.float32})
    for other in others:
        assert all(map(torch.equal, one[3], other[3]))
