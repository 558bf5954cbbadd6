"""Lists that a collate function fills with one tensor of any size for each sample."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
data = [(torch.randn(2 + i % 5), torch.randn(1)) for i in range(22)]


def collate(samples):
    return [sample[0] for sample in samples], torch.stack([sample[1] for sample in samples])


loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = 0
for texts, targets in loader:
    inputs = targets.detach() * 2
    LINES
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}", len(texts), seen)
"""
LINES = [
    "inputs = torch.stack([text.mean()[None] for text in texts])",
    "inputs = torch.tensor([[text.mean().item()] for text in texts])",
    "inputs = torch.stack([text.sum() / len(text) for text in texts])[:, None]",
    "inputs = torch.stack([text[0] - text[-1] for text in texts]).unsqueeze(1)",
    "inputs = torch.cat([text.max().view(1, 1) for text in texts])",
    "inputs = torch.stack([(text - text.mean()).norm() for text in texts])[:, None]",
    "seen += sum(len(text) for text in texts)",
    "seen += sum([len(text) for text in texts])",
    "seen = seen + sum(map(len, texts))",
    "inputs = inputs * (1 + 0.01 * sum(len(text) for text in texts))",
]
OF_ALL = [
    "inputs = inputs * max(len(text) for text in texts)",
    "inputs = inputs + sum(text.sum() for text in texts)",
    "seen = max(seen, max([len(text) for text in texts]))",
    "seen = sorted(len(text) for text in texts)[0]",
    "seen = [len(text) for text in texts]",
    "seen = torch.cat(texts).sum().item()",
]


@pytest.mark.parametrize("lines", LINES)
def test_what_is_made_of_each_is_that_of_its_sample(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", OF_ALL)
def test_what_is_made_of_all_is_that_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    allowed = (Outcome.SAME, Outcome.UNDIVIDED, Outcome.REFUSED)
    assert verdict.outcome in allowed, verdict.detail
