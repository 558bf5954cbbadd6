"""Losses of pairs and triplets of samples, as projects of metric learning write them.

Converted and run in float64 at 2 and 3 ranks; the last batch has fewer samples than the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.examples import HEAD, added
from tests.convert.running import assert_trains_the_same

TRAINING = """\
from itertools import combinations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
LOSS

data = TensorDataset(torch.randn(26, 4), torch.arange(26) // 2 % 4)
feed = DataLoader(data, batch_size=10)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in feed:
        found = judge(brain(x), y)
        rule.zero_grad()
        found.backward()
        rule.step()
        print(f"{found.item():.6f}")
"""
DISTANCES = """
def judge(points, labels):
    n = points.size(0)
    far = points.pow(2).sum(dim=1, keepdim=True).expand(n, n)
    far = far + far.t()
    far.addmm_(points, points.t(), beta=1, alpha=-2)
    far = far.clamp(min=1e-12).sqrt()
    same = labels.expand(n, n).eq(labels.expand(n, n).t())
    own = torch.cat([far[i][same[i]].max().unsqueeze(0) for i in range(n)])
    other = []
    for i in range(n):
        other.append(far[i][same[i] == 0].min().unsqueeze(0))
    other = torch.cat(other)
    return F.margin_ranking_loss(other, own, torch.ones_like(other), margin=0.3)
"""
BETWEEN = """
def apart(a, b):
    m, n = a.size(0), b.size(0)
    first = a.pow(2).sum(1, keepdim=True).expand(m, n)
    second = b.pow(2).sum(1, keepdim=True).expand(n, m).t()
    return (first + second - 2 * torch.matmul(a, b.t())).clamp(min=1e-12).sqrt()


def hardest(far, labels):
    n = far.SIZE
    same = labels.expand(n, n).eq(labels.expand(n, n).t())
    own = (far * same).max(1)[0]
    other = (far + 100.0 * same).min(1)[0]
    return own, other


def judge(points, labels):
    own, other = hardest(apart(points, points), labels)
    return F.relu(own - other + 0.3).mean()
"""
CHOSEN = """
def judge(points, labels):
    far = torch.cdist(points, points)
    marks = labels.numpy()
    pairs = torch.LongTensor(np.array(list(combinations(range(len(marks)), 2))))
    alike = pairs[(marks[pairs[:, 0]] == marks[pairs[:, 1]]).nonzero()]
    apart = pairs[(marks[pairs[:, 0]] != marks[pairs[:, 1]]).nonzero()]
    near = far[apart[:, 0], apart[:, 1]].detach().numpy()
    apart = apart[torch.LongTensor(np.argpartition(near, len(alike))[: len(alike)])]
    first = (points[alike[:, 0]] - points[alike[:, 1]]).pow(2).sum(1)
    second = F.relu(1 - (points[apart[:, 0]] - points[apart[:, 1]]).pow(2).sum(1).sqrt()).pow(2)
    return torch.cat([first, second]).mean()
"""
EPISODE = """
def judge(points, labels):
    n = points.size(0)
    wanted = torch.arange(0, n).view(n, 1, 1).expand(n, 1, 1).long()
    far = (points.unsqueeze(1) - points.detach().roll(1, 1).unsqueeze(0)).pow(2).sum(2)
    likely = F.log_softmax(-far, dim=1).view(n, 1, -1)
    return -likely.gather(2, wanted).squeeze().view(-1).mean()
"""
LOSSES = {
    "distances": DISTANCES,
    "size": BETWEEN.replace("SIZE", "size(0)"),
    "shape": BETWEEN.replace("SIZE", "shape[0]"),
    "chosen": CHOSEN,
    "episode": EPISODE,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_of_pairs_sees_those_of_the_whole_batch(
    tmp_path: Path, trial: Trial, loss: str
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("LOSS", LOSSES[loss]))
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


UNSEEN = """\
from lightly.loss import NTXentLoss

apart = NTXentLoss()
for a, b in feed:
    rule.zero_grad()
    penalty = apart(brain(a), brain(2 * a))
    penalty.backward()
    rule.step()
for a, b in check:
    with torch.no_grad():
        y, z = brain(a), brain(2 * a)
        SHOWN
"""


@pytest.mark.parametrize("shown", ["print(apart(y, z).item())", "c = apart(y, z); print(c.item())"])
def test_a_loss_that_cannot_be_read_gets_all_rows_in_an_evaluation_too(
    tmp_path: Path, shown: str
) -> None:
    lines = added(tmp_path, HEAD + UNSEEN.replace("SHOWN", shown))
    assert "penalty = apart(dd.gather(brain(a)), dd.gather(brain(2 * a)))" in lines
    assert "apart(dd.gather(y), dd.gather(z))" in lines[-1]
