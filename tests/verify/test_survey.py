"""What is known of the models of one optimizer."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from ddpify.verify.inside.survey import survey


def _model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def test_two_models_with_the_same_names_are_both_seen_in_the_optimizers_order() -> None:
    one, other = _model(), _model()
    for first, second in itertools.permutations((one, other)):
        parameters: list[torch.Tensor] = [*first.parameters(), *second.parameters()]
        found = survey(parameters, "/nowhere")
        assert found.buffers["1.running_mean"] is first[1].running_mean
        assert found.buffers["1.running_mean'"] is second[1].running_mean
        assert [found.layers[name] for name in ("1", "1'")] == [first[1], second[1]]


def test_what_two_models_share_is_seen_once() -> None:
    shared = _model()
    outer = nn.ModuleDict({"inner": shared})
    again = nn.ModuleDict({"inner": shared})
    found = survey(list(outer.parameters()), "/nowhere")
    assert list(found.buffers) == [f"inner.{name}" for name, _ in shared.named_buffers()]
    assert again["inner"] is shared
