"""Synchronised batch normalisation against torch's own on the whole batch."""

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import assert_same, run

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "1d": lambda: nn.BatchNorm1d(3),
    "2d": lambda: nn.BatchNorm2d(3, eps=1e-3, momentum=0.3),
    "3d": lambda: nn.BatchNorm3d(3, momentum=None),
    "plain": lambda: nn.BatchNorm2d(3, affine=False),
    "instance": lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
    "untracked": lambda: nn.BatchNorm1d(3, track_running_stats=False),
}
SHAPES = {
    "1d": (3,),
    "2d": (3, 4, 2),
    "3d": (3, 2, 2, 2),
    "plain": (3, 1, 5),
    "untracked": (3, 6),
    "instance": (3, 4),
}


def _norms() -> Any:
    """Outputs, gradients and buffers over batches of 5, 5, 2, the last with a ghost at 3 ranks."""
    found = {}
    for name, make in LAYERS.items():
        generator = torch.Generator().manual_seed(1)
        x = 3 + 2 * torch.randn(12, *SHAPES[name], generator=generator)
        slope = torch.randn(12, *SHAPES[name], generator=generator)
        layer = dd.wrap(nn.Sequential(make()))
        for parameter in layer.parameters():
            parameter.data.uniform_(0.5, 1.5, generator=generator)
        found[name] = _pass(layer, x, slope)
    return found


def _pass(layer: nn.Module, x: torch.Tensor, slope: torch.Tensor) -> Any:
    results: list[Any] = []
    pairs: Any = list(zip(x, slope, strict=True))
    loader = dd.shard(DataLoader(pairs, 5))
    for part, weight in loader:
        part.requires_grad_()
        out = layer(part)
        loss = dd.sum((out * weight).sum())
        loss.backward()
        # sum() gives this rank's rows the number of ranks times their gradient.
        grads = part.grad / dd.world_size()
        results += [dd.gather(out.detach()), dd.gather(grads), loss.item()]
    layer.eval()
    for part, weight in loader:
        results.append(dd.sum((layer(part) * weight).sum()).item())
    gradients = [p.grad for p in layer.parameters()]
    return results, gradients, dict(layer.state_dict())


def test_every_kind_of_layer_normalises_over_the_whole_batch() -> None:
    found = assert_same(_norms)
    assert found["3d"][2]["0.num_batches_tracked"].item() == 3
    assert (found["2d"][2]["0.running_var"] - 1).abs().min() > 0.1


def _precise() -> Any:
    """Values far from zero, where E[x^2] - E[x]^2 has no digit left."""
    x: Any = 1e6 + torch.arange(-4.0, 5.0).view(9, 1).repeat(1, 2)
    layer = dd.wrap(nn.Sequential(nn.BatchNorm1d(2)))
    (part,) = dd.shard(DataLoader(x, 9))
    out = dd.gather(layer(part).detach())
    return out[:, 0].tolist()


def test_the_variance_is_taken_about_the_mean() -> None:
    for values in run(_precise, 2):
        # The variance of -4 .. 4 is 20 / 3.
        assert values == pytest.approx([i / (20 / 3) ** 0.5 for i in range(-4, 5)], abs=1e-4)


def _narrow() -> Any:
    layer = dd.wrap(nn.Sequential(nn.BatchNorm1d(2).float()))
    # Near 20 a bfloat16 is a multiple of 1/8: statistics that were would show.
    x: Any = (20 + torch.randn(6, 2, generator=torch.Generator().manual_seed(1))).bfloat16()
    (part,) = dd.shard(DataLoader(x, 6))
    out = layer(part)
    return str(out.dtype), dd.gather(out.detach().float())


def test_narrow_inputs_are_normalised_in_float32() -> None:
    kind, expected = run(_narrow, 1)[0]
    for found_kind, found in run(_narrow, 2):
        assert found_kind == kind == "torch.bfloat16"
        assert torch.allclose(found, expected, atol=0.02)


def _replicated() -> Any:
    layer = dd.wrap(nn.Sequential(nn.BatchNorm1d(2)))
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    for part in dd.replicate(DataLoader(x, 3)):  # type: ignore[arg-type]
        layer(part)
    layer(x)  # outside of loops
    return dict(layer.state_dict())


def test_a_replicated_batch_is_not_counted_once_a_rank() -> None:
    assert_same(_replicated)


class Scaled(nn.BatchNorm1d):
    """A subclass with a constructor argument and an attribute of its own."""

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__(channels)
        self.scale = scale


class Own(nn.BatchNorm1d):
    """A subclass with a forward of its own."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """input: (N, C)."""
        return input * 2


def _copies() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), Scaled(2, 3.0), Own(2))
    before = model[1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dd.wrap(model)
    assert model[1] is before
    assert isinstance(model[1], Scaled)
    assert type(model[1]) is not Scaled
    assert type(model[2]) is Own
    buffer = io.BytesIO()
    torch.save(model[1], buffer)
    buffer.seek(0)
    for copied in (
        copy.deepcopy(model[1]),
        copy.copy(model[1]),
        torch.load(buffer, weights_only=False),
    ):
        assert type(copied) is Scaled
        assert copied.scale == 3.0
        assert torch.equal(copied.weight, model[1].weight)
    return [str(w.message) for w in caught]


def test_copies_and_pickles_are_of_the_plain_class() -> None:
    for messages in run(_copies, 2):
        assert len(messages) == 1
        assert messages[0].startswith("Own has a forward of its own")


def _unsynchronised() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.register_parameter("unused", nn.Parameter(torch.zeros(1)))
    dd.wrap(model, sync_batchnorm=False)
    x = torch.arange(12.0).view(6, 2)
    for part in dd.shard(DataLoader(x, 6)):  # type: ignore[arg-type]
        local = model(part)
        assert torch.allclose(local.mean(0), torch.zeros(2), atol=1e-9)
        (local - model(part + 1)).sum().backward()  # two forwards, and one backward
    model.eval()(x)  # rank 0's running statistics hold from the next forward on
    return type(model[1]) is nn.BatchNorm1d, model[1].running_mean


def test_synchronisation_can_be_declined() -> None:
    (plain, mean), (other_plain, other_mean) = run(_unsynchronised, 2)
    assert plain
    assert other_plain
    assert torch.equal(mean, other_mean)
