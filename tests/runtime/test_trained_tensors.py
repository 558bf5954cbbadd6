"""Tensors that an optimizer trains and no model holds."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import run


def _batch(n: int) -> Any:
    """This rank's rows of one batch of the numbers 1 .. n."""
    (x,) = dd.shard(DataLoader(range(1, n + 1), n))  # type: ignore[arg-type]
    return x.double()


def _gradients() -> list[Any]:
    found: list[Any] = []
    whole = dd.trained_tensor(dd.trained_tensor(torch.ones(1, dtype=torch.float64)))
    whole.requires_grad_()
    for n in (5, 6):
        x = _batch(n)
        rows = dd.trained_rows(dd.trained_rows(x.clone().requires_grad_()))
        others = x.clone().requires_grad_()
        dd.mean((rows * others * whole).mean()).backward()
        assert rows.grad is not None and others.grad is not None and whole.grad is not None
        found.append(dd.gather(rows.grad / dd.gradient_scale(rows)).tolist())
        found.append(dd.gather(others.grad / dd.gradient_scale(others)).tolist())
        found.append(whole.grad.item())
    return found


def test_they_have_the_gradients_of_one_process() -> None:
    expected = run(_gradients, 1)[0]
    for size in (2, 3):
        for found in run(_gradients, size):
            assert torch.tensor(found[2::3]).allclose(torch.tensor(expected[2::3]))
            assert str(found[:2]) == str(expected[:2]) or all(
                torch.tensor(a).allclose(torch.tensor(b))
                for a, b in zip(found, expected, strict=True)
            )


def _of_a_ghost() -> bool:
    rows = dd.trained_rows(_batch(1).clone().requires_grad_())
    dd.mean((rows**2).mean()).backward()
    assert rows.grad is not None
    return bool((rows.grad / rows.grad.norm()).isfinite().all())


def test_a_ghosts_gradient_can_be_normalised() -> None:
    assert all(run(_of_a_ghost, 3))


def _freed() -> bool:
    tensor = dd.trained_tensor(torch.ones(2, requires_grad=True))
    (tensor * 2).sum().backward()  # type: ignore[no-untyped-call]
    known = weakref.ref(tensor)
    del tensor
    gc.collect()
    return known() is None


def test_a_tensor_that_nothing_holds_is_freed() -> None:
    assert all(run(_freed, 2))


def _averaged() -> list[Any]:
    whole = torch.ones(2, requires_grad=True, dtype=torch.float64)
    x = _batch(5)
    dd.mean((x[:, None] * whole).mean()).backward()
    return [dd.averaged(whole.grad), dd.averaged(None)]


def test_one_gradient_is_averaged_as_several_are() -> None:
    expected, nothing = run(_averaged, 1)[0]
    assert nothing is None
    for found, none in run(_averaged, 2):
        assert none is None and found.allclose(expected)
