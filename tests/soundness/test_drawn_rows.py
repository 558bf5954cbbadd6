"""Writes of whole batches: labels into noise drawn for fakes, what all samples make into rows."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

size = 6
torch.manual_seed(0)
np.random.seed(0)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(24, 5), torch.arange(24) % 3)
loader = DataLoader(data, batch_size=size, shuffle=True, drop_last=True)
maker, judge = nn.Linear(8, 5), nn.Linear(5, 4)
made = torch.optim.Adam(maker.parameters(), lr=0.01)
judged = torch.optim.Adam(judge.parameters(), lr=0.01)
adversarial, kinds = nn.BCEWithLogitsLoss(), nn.CrossEntropyLoss()
real, fake = torch.ones(size), torch.zeros(size)
for epoch in range(2):
    total = 0
    for x, y in loader:
        judged.zero_grad()
        out = judge(x)
        loss = adversarial(out[:, 0], real) + kinds(out[:, 1:], y)
        loss.backward()
        judged.step()
        noise = DRAWN
        label = np.random.randint(0, 3, size)
        marks = np.zeros((size, 3))
        marks[np.arange(size), label] = 1
        WRITTEN
        noise, label = torch.as_tensor(noise), torch.from_numpy(label).long()
        made.zero_grad()
        out = judge(maker(noise))
        loss = adversarial(out[:, 0], fake) + kinds(out[:, 1:], label)
        loss.backward()
        made.step()
        total += loss.item()
    print(epoch, total)
"""
DRAWN = [
    "np.random.normal(0, 1, (size, 8))",
    "np.random.uniform(-1, 1, (size, 8))",
    "np.random.standard_normal((size, 8))",
    "np.random.randint(0, 5, (size, 8)) / 4",
    "np.random.choice([0.5, 1.5, 2.5], (size, 8))",
]
WRITTEN = [
    "noise[np.arange(size), :3] = marks[np.arange(size)]",
    "noise[:, :3] = marks",
    "noise[np.arange(size), label] = 2",
    "noise[range(size), :3] = marks",
    "noise[::2, 0] = 3",
]
# What is made of all samples, written into a part of each rank's rows.
OF_ALL = [
    "z = torch.zeros_like(out)\nz[:, 0] = out.sort(0).values[:, 0]",
    "z = torch.zeros_like(out)\nz[:, 0] = out.cumsum(0)[:, 0]",
    "z = torch.zeros_like(out)\nz[:] = out.detach().cumsum(0)",
    "z = out.clone()\nz[..., 0] = F.softmax(out, 0)[..., 0]",
    "z = torch.zeros(len(out), 4)\nz[:, 1:3] = out.softmax(0)[:, :2]",
]
# Functions that fill the tensor that they get with what they draw.
FILLED = [
    "z = torch.Tensor.exponential_(torch.zeros((out.shape[0], 1)), 2)",
    "z = torch.empty(len(out), 1)\ntorch.Tensor.random_(z, 0, 5)",
    "z = nn.init.normal_(torch.empty_like(out))",
    "z = torch.empty_like(out)\nnn.init.uniform_(z, -1, 1)",
]
# Draws for what a mask left of the rows, of which each rank has any number.
LEFT = [
    "z = torch.zeros_like(out)\nz[labels > 1] = torch.randn_like(out[labels > 1])",
    "z = torch.zeros_like(out)\nif (labels > 1).any():\n"
    "    z[labels > 1] = torch.rand_like(z[labels > 1])",
    "z = out[torch.where(labels > 1)[0]]\nz = z * torch.randn_like(z)\nout = z",
    "z = out[labels > 1]\nz = torch.empty_like(z).uniform_(0, 1)\nout = z",
    "z = F.dropout(out[labels > 1], 0.5)\nout = z",
]


@pytest.mark.parametrize("lines", LEFT)
def test_what_is_drawn_for_what_a_mask_left_is_drawn_for_all_ranks(
    trial: Trial, lines: str
) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + (z * out).pow(2).sum()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("drawn", DRAWN)
def test_labels_stand_in_what_was_drawn_for_all_ranks(trial: Trial, drawn: str) -> None:
    assert_same(trial, drawn, WRITTEN[0])


@pytest.mark.parametrize("written", WRITTEN[1:])
def test_so_do_other_writes(trial: Trial, written: str) -> None:
    assert_same(trial, DRAWN[0], written)


@pytest.mark.parametrize("lines", OF_ALL)
def test_what_has_all_samples_is_written_into_those_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + (z * out).mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FILLED)
def test_what_a_function_fills_is_drawn_for_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + (z * out).pow(2).mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def assert_same(trial: Trial, drawn: str, written: str) -> None:
    text = SCRIPT.replace("DRAWN", drawn).replace("WRITTEN", written)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
