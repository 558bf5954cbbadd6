"""Weights of losses that come from the gradients of a layer, as a VQGAN's."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.soundness.trying import Trial
from ddpify import runtime as dd
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same
from tests.runtime.ranks import run

TRAINING = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.outer = nn.Sequential(nn.ReLU(), nn.Linear(3, 6))

    def forward(self, x):
        z = self.inner(x)
        return self.outer(z), (z**2).mean()

    def weight(self, first, second):
        last = self.outer[-1].weight
        a = torch.autograd.grad(first, last, retain_graph=True)[0]
        b = torch.autograd.grad(second, last, retain_graph=True)[0]
        return torch.clamp(torch.norm(a) / (torch.norm(b) + 1e-4), 0, 1e4).detach()


pair = Pair()
judge = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
rules = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (pair, judge)]
for (x,) in DataLoader(TensorDataset(torch.randn(31, 6)), batch_size=7):
    made, cost = pair(x)
    right, wrong = judge(x), judge(made)
    near = torch.abs(x - made).mean()
    fooled = -torch.mean(wrong)
    much = pair.weight(near, fooled)
    loss = near + cost + 0.8 * much * fooled
    found = torch.mean(F.relu(1 - right)) + torch.mean(F.relu(1 + wrong))
    rules[0].zero_grad()
    loss.backward(retain_graph=True)
    rules[1].zero_grad()
    found.backward()
    for rule in rules:
        rule.step()
    print(f"{loss.item():.6f} {much.item():.6f}")
"""


def test_an_adaptive_weight_is_that_of_the_global_batch(tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


def test_gradients_are_averaged_and_none_stays() -> None:
    def job() -> list[object]:
        mine = (torch.tensor([1.0, dd.rank()]), None, torch.tensor(float(dd.rank())).double())
        return [None if one is None else one.tolist() for one in dd.averaged(mine)]

    assert run(job, 3) == [[[1.0, 1.0], None, 1.0]] * 3
