"""The last batch of an evaluation, used behind its loop and within that of the training."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def step(model, x, y, optimizer=None):
    out = model(x)
    loss = nn.functional.mse_loss(out, y)
    if optimizer is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss, out


def evaluate(model, loader):
    total = 0
    for x, y in loader:
        loss, _ = step(model, x, y)
        total += loss.item()
    BEHIND
    return total / len(loader)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = DataLoader(TensorDataset(torch.randn(22, 4), torch.randn(22, 4)), 8, shuffle=True)
    checking = DataLoader(TensorDataset(torch.randn(11, 4), torch.randn(11, 4)), 7)
    for number, (x, y) in enumerate(training):
        loss, out = step(model, x, y, optimizer)
        if number % 2 == 0:
            print(evaluate(model, checking))
        AFTER
        print(loss.item())


train(nn.Linear(4, 4))
"""
BEHIND = [
    "print(step(model, x, y)[0].item())",
    "print(model(x).mean().item(), len(x))",
    "np.save('out', model(x).detach().numpy())",
    "print(y.pow(2).sum(1))",
    "loss, out = step(model, x, y)\n    print(out.norm(dim=1).mean().item())",
]
AFTER = [
    "print(out.std().item())",
    "print(x.mean().item(), len(x))",
    "step(model, x, y, optimizer)",
]


@pytest.mark.parametrize("behind", BEHIND)
def test_it_goes_by_its_own_size(trial: Trial, behind: str) -> None:
    assert_same(trial, behind, "")


@pytest.mark.parametrize("after", AFTER)
def test_the_batch_of_the_step_goes_by_its_own_again(trial: Trial, after: str) -> None:
    assert_same(trial, BEHIND[1], after)


def assert_same(trial: Trial, behind: str, after: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("BEHIND", behind).replace("AFTER", after))
    assert verdict.outcome is Outcome.SAME, verdict.detail
