"""Evaluations that take a batch of each of several loaders: every rank runs them whole."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
X, Y = torch.randn(22, 6), torch.randint(0, 3, (22,))
CROPS = SETTING
loaders = {"train": DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)}
if CROPS:
    loaders["test"] = [DataLoader(TensorDataset(X + i, Y), batch_size=5) for i in range(3)]
else:
    loaders["test"] = DataLoader(TensorDataset(X, Y), batch_size=5)


def evaluate(loader, model):
    scores, labels = [], []
    with torch.no_grad():
        if CROPS:
            parts = [iter(loader["test"][i]) for i in range(3)]
            for _ in range(len(loader["test"][0])):
                data = [next(parts[j]) for j in range(3)]
                out = sum([model(data[j][0]).softmax(1) for j in range(3)])
                scores.append(out)
                labels.append(data[0][1])
        else:
            for x, y in loader["test"]:
                scores.append(model(x).softmax(1))
                labels.append(y)
    found = torch.cat(scores).argmax(1)
    return (found == torch.cat(labels)).sum().item() / len(found), found.tolist()


model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loaders["train"]:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, evaluate(loaders, model))
"""
PAIR = """\
    first = DataLoader(TensorDataset(X, Y), batch_size=5)
    second = DataLoader(TensorDataset(X + 1, Y), batch_size=4)
    total = 0.0
    for (x, y), (z, _) in zip(first, second):
        one = model(x).argmax(1)
        two = model(z).argmax(1)
        total += (one == y).sum().item() + two.sum().item() + one[0].item()
    print(total)
"""


@pytest.mark.parametrize("crops", [True, False])
def test_a_setting_chooses_how_many_loaders_there_are(trial: Trial, crops: bool) -> None:
    assert_same(trial, SCRIPT.replace("SETTING", str(crops)))


def test_two_have_batches_of_other_sizes(trial: Trial) -> None:
    assert_same(trial, SCRIPT.replace("SETTING", "False") + PAIR)


def test_what_is_trained_on_is_not_taken_for_an_evaluation(trial: Trial) -> None:
    step = (
        "    total += F.cross_entropy(model(z), _).backward() or 0\n        optimizer.step()\n    "
    )
    lines = PAIR.replace("    total += (one", step + "    total += (one")
    verdict = trial.verdict(SCRIPT.replace("SETTING", "False") + lines)
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


def assert_same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
