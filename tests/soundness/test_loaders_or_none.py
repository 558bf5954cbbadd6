"""A function that trains and evaluates, and gets None where there is nothing to evaluate on."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
parser = argparse.ArgumentParser()
parser.add_argument("--test", default=None)
args = parser.parse_args([])
train = DataLoader(TensorDataset(torch.randn(23, 4), torch.randint(0, 2, (23,))), batch_size=6)
test = DataLoader(train.dataset, batch_size=6) if args.test is not None else None

class Trainer:
    def __init__(self, model, train, test):
        self.model, self.train_data, self.test_data = model, train, test
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.criterion = nn.NLLLoss()

    def train(self):
        self.iterate(self.train_data)

    def test(self):
        self.iterate(self.test_data, train=False)

    def iterate(self, loader, train=True):
        right = number = 0
        ROUNDS
            out = self.model(x)
            loss = self.criterion(out, y)
            if train:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            right += out.argmax(-1).eq(y).sum().item()
            number += y.nelement()
            print(right / number, loss.item())

trainer = Trainer(nn.Sequential(nn.Linear(4, 2), nn.LogSoftmax(-1)), train, test)
trainer.train()
if test is not None:
    trainer.test()
"""
ROUNDS = [
    "for i, (x, y) in enumerate(loader):",
    "rounds = enumerate(loader)\n        for i, (x, y) in rounds:",
    "for batch in loader:\n            x, y = batch[0], batch[1]",
    "batches = iter(loader)\n        for x, y in batches:",
]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_batches_are_those_of_the_loader(trial: Trial, rounds: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("ROUNDS", rounds))
    assert verdict.outcome is Outcome.SAME, verdict.detail
