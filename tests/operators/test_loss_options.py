"""The parameters of losses, compared with those of PyTorch; how they reduce, by execution."""

from __future__ import annotations

import inspect
import warnings
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional

from ddpify.understanding.libraries import losses
from ddpify.understanding.operators import loss_options
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Const, value

_LEGACY = [None, True, False]


def _by_position(function: object) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


@pytest.mark.parametrize("name", sorted(loss_options.PARAMETERS))
def test_functions_take_their_options_where_pytorch_does(name: str) -> None:
    function = getattr(functional, name, None)
    if function is None:
        pytest.skip("not in this version of PyTorch")
    assert (
        _by_position(function)[: len(loss_options.PARAMETERS[name])]
        == (loss_options.PARAMETERS[name])
    )


@pytest.mark.parametrize("name", sorted(set(loss_options.MADE_WITH) - {"NLLLoss2d"}))
def test_classes_take_their_options_where_pytorch_does(name: str) -> None:
    assert _by_position(getattr(nn, name)) == loss_options.MADE_WITH[name]


def test_every_loss_has_its_options() -> None:
    assert all(losses.is_module(f"torch.nn.{name}") for name in loss_options.MADE_WITH)
    assert all(
        losses.is_function(f"torch.nn.functional.{name}") for name in loss_options.PARAMETERS
    )


@pytest.mark.parametrize(("average", "reduce"), product(_LEGACY, _LEGACY))
def test_former_options_reduce_as_in_pytorch(average: bool | None, reduce: bool | None) -> None:
    out, goal = torch.rand(3), torch.rand(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = functional.mse_loss(out, goal, average, reduce, "sum")
    each = (out - goal) ** 2
    expected = {Placement.MEAN: each.mean(), Placement.SUM: each.sum(), Placement.SHARD: each}
    options = {
        "size_average": value(Const(average)),
        "reduce": value(Const(reduce)),
        "reduction": value(Const("sum")),
    }
    assert torch.equal(loss, expected[loss_options.reduction(options, ragged=False)])
