"""Graphs under each other, whose nodes a forward adds up by the numbers of their graphs."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
graphs = [(torch.randn(SIZE, 4), torch.randn(())) for i in range(22)]


def collate(samples):
    nodes, owners, targets = [], [], []
    for i, (x, y) in enumerate(samples):
        nodes.append(x)
        owners.append(torch.full((len(x),), i, dtype=torch.long))
        targets.append(y)
    return torch.cat(nodes), torch.cat(owners), torch.stack(targets)


class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x, owner, count):
        h = torch.relu(self.one(x))
        return self.two(torch.zeros(count, 6).index_add_(0, owner, h)).squeeze(-1)


loader = DataLoader(graphs, batch_size=6, shuffle=True, collate_fn=collate)
model = Pooling()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, owner, y in loader:
        loss = (model(x, owner, y.size(0)) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""


@pytest.mark.parametrize("size", ["5", "3 + i % 4"])
def test_the_numbers_of_a_rank_are_not_gathered(trial: Trial, size: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("SIZE", size))
    assert verdict.outcome in (Outcome.REFUSED, Outcome.SAME), verdict
